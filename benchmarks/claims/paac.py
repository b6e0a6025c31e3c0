"""Claims of PAAC (Clemente et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import Claim, Comparison, Extent, SuiteResult, faster, number
from benchmarks.claims.small_games import ALIKE, alike, as_good
from benchmarks.papers.paac import NETWORKS, case, environments
from benchmarks.papers.tables_of_games import GAMES

PAPER = "PAAC, Clemente et al. 2017"
SIGNIFICANTLY = 1.2
"""Factor from which a rate is called significantly faster."""
DIVERGES = 256
"""Environments with which three of the paper's games diverged, and four were tried (section 5.2)."""
CPU_DROP, WITHIN = 0.41, 0.2
"""Share of the rate that arch_nature costs on the paper's CPU, and how near here is near: it is another processor."""


def _environments(found: SuiteResult) -> Sequence[Comparison]:
    least, more, most = environments(16), environments(64), environments(DIVERGES)
    rates = [found.median(name, "steps_per_s") for name in (least, more)]
    scores = [found.median(name) for name in (more, most)]
    return (
        *alike(found, [more], least, "similar"),
        faster(
            "steps/s with 64 environments, and with 16",
            "significantly faster",
            rates[1],
            rates[0],
            factor=SIGNIFICANTLY,
        ),
        Comparison(
            f"score with {DIVERGES}, and with 64",
            "diverges in three games of four",
            f"{scores[1]:.2f} and {scores[0]:.2f}",
            scores[1] < scores[0] - ALIKE,
        ),
    )


def _time(found: SuiteResult) -> Sequence[Comparison]:
    small, large = (found.median(case(network, 32)) for network in NETWORKS)
    drop = 1 - large / small
    return (
        number("share of the rate that arch_nature costs, on a CPU, 32 environments", CPU_DROP, drop, "{:.0%}", WITHIN),
        faster("steps/s with arch_nips, and with arch_nature", "faster", small, large),
    )


def _games(found: SuiteResult) -> Sequence[Comparison]:
    return as_good(found, tuple(GAMES), "PAAC", "A3C", "better than A3C in 8 games of 12")


CLAIMS = (
    Claim(
        name="paac-games",
        paper=PAPER,
        part="table 1",
        says="One learner in step with its environments scores as well as A3C does or better in most games.",
        suite="paac-games",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="three games of MinAtar, Asterix not among the paper's, its network and a million steps in place of "
        "twelve Atari games and 115 million; A3C of two learners in place of published scores; means of training",
        compare=_games,
    ),
    Claim(
        name="paac-environments",
        paper=PAPER,
        part="figures 3 and 4",
        says="With a learning rate of 0.0007 for each environment, 16 to 128 environments reach similar scores after "
        "as many steps, more of them sooner; 256 diverge.",
        suite="paac-environments",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="Catch and a layer of 64 units, 600,000 steps, in place of six Atari games, arch_nips and 20 to 115 "
        "million steps; a constant rate",
        compare=_environments,
    ),
    Claim(
        name="paac-time",
        paper=PAPER,
        part="figure 2",
        says="A larger network costs little where the environments are the bound: arch_nature in place of arch_nips "
        "lowers the rate by 22 % on a GPU and by 41 % on a CPU, with 32 environments.",
        suite="paac-time",
        whole=Extent(3, 10.0),
        quick=Extent(1, 15.0),
        differs="a CPU alone, with other cores than the paper's four; the shares of time of its GPU are not compared",
        compare=_time,
    ),
)
