"""Claims of GALA (Assran et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import Claim, Comparison, Extent, SuiteResult, faster
from benchmarks.claims.small_games import WITHIN, as_good
from benchmarks.papers.gossip import COUNTS
from benchmarks.papers.tables_of_games import GALA_GAMES, case

PAPER = "GALA, Assran et al. 2019"
KEYS = ("algorithm.entropy_cost=0.05",)
IN_SMALL = (
    "Catch, up to four learners of 8 environments on shared cores and 100,000 steps of all together, in place of six "
    "Atari games, 16 to 64 environments on 48 cores and 40 million"
)


def _most(found: SuiteResult) -> int:
    return max(count for count in COUNTS if found.has(f"gossip, {count} learners"))


def _learning(found: SuiteResult) -> Sequence[Comparison]:
    most = _most(found)
    sync, gossip = f"sync, {most} learners", f"gossip, {most} learners"
    rates = [found.median(case) for case in (gossip, sync)]
    convergent = [float(found.report["convergent"][f"{mode}-{most}"]) for mode in ("gossip", "sync")]
    return (
        Comparison(
            f"convergent runs of {most} learners: gossip, and sync",
            "as many or more",
            f"{convergent[0]:.0%} and {convergent[1]:.0%}",
            convergent[0] >= convergent[1],
        ),
        faster(f"steps/s of {most} learners: gossip, and sync", "more", rates[0], rates[1]),
    )


def _consensus(found: SuiteResult) -> Sequence[Comparison]:
    points = [point for run in found.report["consensus_points"] for point in run]
    within = sum(distance <= bound for _, distance, bound in points)
    cosines = {pair: value for pair, value in found.report["gradient_cosine"].items()}
    return (
        Comparison(
            "comparisons of a learner's distance with proposition 1's bound that are within it",
            "all",
            f"{within} of {len(points)}",
            0 < within == len(points),
            exact=True,
        ),
        Comparison(
            "cosine of two learners' gradients, in the mean of each pair",
            "low",
            ", ".join(f"{pair}: {value:.3f}" for pair, value in cosines.items()),
            bool(cosines) and max(map(abs, cosines.values())) < LOW,
        ),
    )


def _stragglers(found: SuiteResult) -> Sequence[Comparison]:
    kept = {mode: found.median(f"{mode}, one slow") / found.median(f"{mode}, even") for mode in ("sync", "gossip")}
    what = "share of the rate that is left with one of two learners 5 times slower: gossip, and sync"
    return [faster(what, "no learner is hampered by another", kept["gossip"], kept["sync"], "{:.0%}")]


def _games(found: SuiteResult) -> Sequence[Comparison]:
    gossip, sync, asynchronous = (
        [found.median(case(game, column)) for game in GALA_GAMES] for column in ("GALA-A2C", "A2C", "A3C")
    )
    better = sum(here >= there for here, there in zip(gossip, sync, strict=True))
    return (
        *as_good(found, GALA_GAMES, "GALA-A2C", "A2C", "as good or better"),
        Comparison(
            "games in which GALA-A2C has the score of A2C or a better one",
            "5 of 6",
            f"{better} of {len(GALA_GAMES)}, half would do",
            2 * better >= len(GALA_GAMES),
        ),
        *(
            Comparison(
                f"score: {game}, GALA-A2C, and A3C",
                "better",
                f"{here:.1f} and {there:.1f}, better is {there / WITHIN:.1f}",
                WITHIN * here >= there,
            )
            for game, here, there in zip(GALA_GAMES, gossip, asynchronous, strict=True)
        ),
    )


LOW = 0.3
"""Cosine below which gradients are called little correlated: the darker half of the figure's scale."""

CLAIMS = (
    Claim(
        name="gala-learning",
        paper=PAPER,
        part="figures 1a and 1d",
        says="Learners that gossip converge as often as A2C with as many environments or more often, and make more "
        "steps a second, as nobody waits.",
        suite="gossip",
        whole=Extent(3, 120.0, KEYS),
        quick=Extent(1, 120.0, KEYS),
        differs=IN_SMALL,
        compare=_learning,
    ),
    Claim(
        name="gala-consensus",
        paper=PAPER,
        part="proposition 1 and figure 2",
        says="Learners that gossip stay within a computable distance of one another, and their gradients are little "
        "correlated.",
        suite="gossip",
        whole=Extent(3, 120.0, KEYS),
        quick=Extent(1, 120.0, KEYS),
        differs=f"{IN_SMALL}; the bound with the mixing that took place in place of the constant beta",
        compare=_consensus,
    ),
    Claim(
        name="gala-games",
        paper=PAPER,
        part="table 1",
        says="A2C of learners that gossip scores as well as A2C with as many environments, or better, and better "
        "than A3C in all games but Pong, in which both have the best score.",
        suite="gala-games",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="two games of MinAtar, its network, two learners and a million steps in place of six Atari games, four "
        "learners and 40 million; the mean of training games in place of the best seed's, played greedily",
        compare=_games,
    ),
    Claim(
        name="gala-stragglers",
        paper=PAPER,
        part="section 5, figure 1d",
        says="A learner runs at its own rate, without being hampered by slower peers.",
        suite="stragglers",
        topology="catch-defaults.yaml",
        whole=Extent(3, 8.0, ("simulators.count=1", "simulators.envs=8", "trainer.threads=1")),
        quick=Extent(1, 8.0, ("simulators.count=1", "simulators.envs=8", "trainer.threads=1")),
        differs="two learners on Catch, one of them stopped four fifths of the time, in place of the variance of Atari "
        "games",
        compare=_stragglers,
    ),
)
