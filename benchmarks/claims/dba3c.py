"""Claims of DBA3C (Adamski et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import Claim, Comparison, Extent, SuiteResult, faster, number
from benchmarks.claims.small_games import ALIKE
from benchmarks.papers.dba3c_nodes import nodes_of
from benchmarks.papers.dba3c_sizes import PAPER_PARAMETERS

PAPER = "DBA3C, Adamski et al. 2018"
IN_SMALL = "Catch, a layer of 256 units and learners of one machine, in place of Atari, convolutions and 64 nodes"
TRAFFIC = "64 nodes"
KEPT = 0.9
"""Share of a rate from which it is called kept."""


def _falls(found: SuiteResult, steady: str, unsteady: str, paper: str) -> Comparison:
    """Compare the largest falls of two scores, which vary even where nothing is lost."""
    falls = [float(found.row(name)["largest fall"].split()[0]) for name in (unsteady, steady)]
    return Comparison(
        f"largest fall of the score: {unsteady}, and {steady}",
        paper,
        f"{falls[0]:.2f} and {falls[1]:.2f}",
        falls[0] > falls[1] + ALIKE,
    )


def _async(found: SuiteResult) -> Sequence[Comparison]:
    asynchronous, synchronous = found.report["bars"]
    return [_falls(found, synchronous, asynchronous, "async falls to 0, sync does not")]


def _rate(found: SuiteResult) -> Sequence[Comparison]:
    return [_falls(found, "rate 0.001", "rate 0.002", "1e-3 is the largest without large instabilities")]


def _epsilon(found: SuiteResult) -> Sequence[Comparison]:
    gains = {}
    for size in ("large", "small"):
        small, large = (found.median(f"{size} batch, epsilon {epsilon}") for epsilon in ("1e-08", "0.001"))
        gains[size] = small - large
    return (
        Comparison(
            "gain in score by epsilon 1e-8 in place of 1e-3, large batch",
            "a large speed-up at the beginning",
            f"{gains['large']:+.2f}",
            gains["large"] > 0,
        ),
        Comparison(
            "the same in a small batch, and in a large one",
            "no gain",
            f"{gains['small']:+.2f} and {gains['large']:+.2f}",
            gains["small"] < gains["large"],
        ),
    )


def _nodes(found: SuiteResult) -> Sequence[Comparison]:
    one, most = (nodes_of(count) for count in (1, 4))
    what, paper = f"minutes to the score on {most}, and on one", "0.35 h on 64, 14.2 h on one"
    missed = [name for name in (one, most) if len(set(found.row(name)["reached 0.5"].split(" of "))) > 1]
    if missed:
        return [Comparison(what, paper, f"not reached on {', '.join(missed)}", False)]
    minutes = [found.median(name) for name in (most, one)]
    return [Comparison(what, paper, "{:.2f} and {:.2f}".format(*minutes), minutes[0] < minutes[1])]


def _sizes(found: SuiteResult) -> Sequence[Comparison]:
    rows = {units: found.row(f"{units} units") for units in PAPER_PARAMETERS if found.has(f"{units} units")}
    most, least = max(rows), min(rows)
    rates = [found.median(f"{units} units") for units in (least, most)]
    return (
        *(
            number(
                f"parameters with {units} units",
                PAPER_PARAMETERS[units],
                float(row["parameters"].replace(",", "")),
                "{:,.0f}",
                within=0.0,
            )
            for units, row in rows.items()
        ),
        number("MB of an update of 64 nodes, computed", 263.0, float(rows[most][TRAFFIC].split()[0]), "{:,.0f}", 0.01),
        faster(f"data points/s with {least} units, and with {most}", "the smaller is faster", rates[0], rates[1]),
    )


def _servers(found: SuiteResult) -> Sequence[Comparison]:
    one, two, four = (found.median(name) for name in ("1 server", "2 servers", "4 servers"))
    return (
        faster("data points/s with 2 servers, and with one", "grows", two, one),
        faster("data points/s with 4 servers, and with 2", "grows", four, two),
        Comparison(
            "factor of each doubling", "less with each", f"{two / one:.2f}, {four / two:.2f}", four / two < two / one
        ),
    )


def _stragglers(found: SuiteResult) -> Sequence[Comparison]:
    even = found.median("K = N, even")
    waits, spares = (found.median(f"{quorum}, one slow") / even for quorum in ("K = N", "K = N - 1"))
    return (
        Comparison("updates left beside a slow learner, with a backup", "all", f"{spares:.0%}", spares >= KEPT),
        Comparison("updates left without a backup", "all wait for the slowest", f"{waits:.0%}", waits < KEPT),
    )


CLAIMS = (
    Claim(
        name="dba3c-async",
        paper=PAPER,
        part="figure 3",
        says="Asynchronous learners fall from what they had learned; synchronous ones do not.",
        suite="dba3c-async",
        whole=Extent(3, 120.0, ("learners.count=8", "learners.quorum=8", "total_steps=200_000")),
        quick=Extent(1, 90.0, ("learners.count=8", "learners.quorum=8", "total_steps=200_000")),
        differs=f"{IN_SMALL}; 8 learners, 200,000 steps",
        compare=_async,
    ),
    Claim(
        name="dba3c-rate",
        paper=PAPER,
        part="figure 4",
        says="With large batches 1e-3 is the largest learning rate without large instabilities; 2e-3 forgets how to "
        "play.",
        suite="dba3c-rate",
        whole=Extent(3, 120.0),
        quick=Extent(1, 90.0),
        differs=f"{IN_SMALL}; batches of 512 by one learner in place of 4,096 by 64",
        compare=_rate,
    ),
    Claim(
        name="dba3c-epsilon",
        paper=PAPER,
        part="figure 5",
        says="Adam's epsilon of 1e-8 in place of 1e-3 speeds up the beginning with large batches, and not with small "
        "ones.",
        suite="dba3c-epsilon",
        whole=Extent(3, 60.0),
        quick=Extent(1, 45.0),
        differs=f"{IN_SMALL}; batches of 512 and 40 by one learner",
        compare=_epsilon,
    ),
    Claim(
        name="dba3c-nodes",
        paper=PAPER,
        part="figure 8",
        says="More nodes reach a score sooner: 64 are 40.6 times as fast as one.",
        suite="dba3c-nodes",
        whole=Extent(3, 240.0),  # one node needs 180 s for its 100,000 steps
        quick=Extent(1, 240.0),
        score=0.5,
        differs=f"{IN_SMALL}, 1 to 4 nodes whose steps sleep 1 ms, to 0.5, in place of 1 to 64 nodes to Breakout 300",
        compare=_nodes,
    ),
    Claim(
        name="dba3c-sizes",
        paper=PAPER,
        part="table 2 and figure 6",
        says="Smaller networks have less to send, 152,199 parameters in place of 538,119, and are faster.",
        suite="dba3c-sizes",
        whole=Extent(3, 8.0),
        quick=Extent(1, 15.0),
        differs="two learners on one machine, where nothing crosses a network, in place of 32 nodes with 4 servers",
        compare=_sizes,
    ),
    Claim(
        name="dba3c-servers",
        paper=PAPER,
        part="figure 7",
        says="More parameter servers are faster, and each doubling gains less.",
        suite="dba3c-servers",
        whole=Extent(3, 8.0),
        quick=Extent(1, 12.0),
        differs="four learners on four nodes of one machine, for root with links of 100 Mbit/s between namespaces, "
        "and 1 to 4 servers beside them, in place of 32 workers and 1 to 8 servers",
        compare=_servers,
    ),
    Claim(
        name="dba3c-stragglers",
        paper=PAPER,
        part="section 2.2",
        says="An update of the first gradients of all but a few learners does not wait for the slowest.",
        suite="dba3c-stragglers",
        whole=Extent(3, 12.0),
        quick=Extent(1, 12.0),
        differs="3 of 4 learners in place of 60 of 64, one of them 5 times slower",
        compare=_stragglers,
    ),
)
