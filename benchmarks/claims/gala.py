"""Claims of GALA (Assran et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.claims.claim import (
    Claim,
    Comparison,
    Extent,
    Game,
    Interval,
    Size,
    SuiteResult,
    faster,
    game,
)
from benchmarks.claims.small_games import KNOWN, LEARNED, NOTHING, alike, won
from benchmarks.papers.gossip import AT_THE_END, COUNTS
from benchmarks.papers.tables_of_games import case
from benchmarks.suites.stragglers import LEARNERS, SLOWER

PAPER = "GALA, Assran et al. 2019"
KEYS = ("algorithm.entropy_cost=0.05",)
IN_SMALL = (
    "Catch, up to four learners of 8 environments on shared cores and 100,000 steps of all together, in place of six "
    "Atari games, 16 to 64 environments on 48 cores and 40 million; Adam, entropy 0.05, rollouts of 16 steps and "
    "a rate that falls to 0, in place of RMSProp at 7e-4, 0.01, 5 and a constant one"
)
TABLE_1 = {
    "BeamRider": (5674, 9829, 10188),
    "Breakout": (414, 495, 690),
    "Pong": (21, 21, 21),
    "Qbert": (14923, 19928, 20150),
    "Seaquest": (1840, 1894, 1892),
    "SpaceInvaders": (2232, 3021, 3074),
}
"""Scores of A3C, A2C and GALA-A2C after 40 million steps, mean of ten games of the best seed."""
COLUMNS = ("A3C", "A2C", "GALA-A2C")
AS_GOOD, BETTER = 5, 5
"""Number of games in the table in which GALA-A2C is at least as good as A2C, and in which it is better than A3C."""
UNHAMPERED = (LEARNERS - 1 + 1 / SLOWER) / LEARNERS
"""Share of the rate that remains if one learner is slow and the others are not hampered."""
HAMPERED = 1 / SLOWER
"""Share of the rate that remains if all learners wait for the slow one."""
_SYNC, _GOSSIP = (f"{mode}, {COUNTS[-1]} learners" for mode in ("sync", "gossip"))


def _learning(found: SuiteResult) -> Sequence[Comparison]:
    most = max(count for count in COUNTS if found.has(f"gossip, {count} learners"))
    sync, gossip = f"sync, {most} learners", f"gossip, {most} learners"
    return (
        alike(found, gossip, sync, "maintains A2C's", of=AT_THE_END),
        faster(found, gossip, sync, "runs at a higher frame-rate"),
    )


def _consensus(found: SuiteResult) -> Sequence[Comparison]:
    runs = [run for run in found.report["consensus_points"] if run]
    tight = Interval.of([fmean(distance / bound for _, distance, bound in run) for run in runs] or [0.0])
    beyond = sum(distance > bound for run in runs for _, distance, bound in run)
    here, there = (found.report.get(of, {}) for of in ("gradient_cosine", "gradient_cosine_sync"))
    apart = [there[pair] - here[pair] for pair in here if pair in there] or [0.0]
    less = Interval.of(apart if len(runs) > 1 else [fmean(apart)])  # pairs of one run are no repetitions
    return (
        Comparison("comparisons with the bound that exceed it", "0", Interval.exact(beyond), number=0, form="{:.0f}"),
        Comparison("distance over its bound", "remarkably tight: nearer to it than to 0", tight, refuted=0.5),
        Comparison(
            "cosine of two learners' gradients: A2C's, less GALA's",
            "significantly less correlation",
            less,
            refuted=0.0,
            values=f"GALA's {fmean(here.values()):.3f}" if here else "",
            blind="" if there else "A2C's was not measured",
        ),
    )


def _stragglers(found: SuiteResult) -> Sequence[Comparison]:
    gossip, sync = (found.ratio(f"{mode}, one slow", f"{mode}, even") for mode in ("gossip", "sync"))
    what = f"share of the rate that is left with one of {LEARNERS} learners {SLOWER:g} times slower"
    modes = ([found.values(f"{mode}, {how}") for how in ("one slow", "even")] for mode in ("gossip", "sync"))
    over = Interval.ratio(*([slow / even for slow, even in zip(*pair, strict=True)] for pair in modes))
    return (
        Comparison(
            f"{what}: gossip",
            f"no learner is hampered by another: {UNHAMPERED:.0%}",
            gossip,
            refuted=HAMPERED,
            number=UNHAMPERED,
            form="{:.0%}",
        ),
        Comparison(
            f"{what}: gossip's over sync's",
            "more",
            over,
            refuted=1.0,
            form="{:.2f}x",
            values=f"{gossip.mean:.0%} and {sync.mean:.0%}",
        ),
    )


def _games(found: SuiteResult) -> Sequence[Comparison]:
    games = [one for one in TABLE_1 if found.has(*(case(one, column) for column in COLUMNS))]
    a3c, a2c, gossip = ([found.values(case(one, column)) for one in games] for column in COLUMNS)
    pairs = (list(zip(gossip, other, strict=True)) for other in (a2c, a3c))
    return (
        *won("GALA-A2C as good as A2C or better", next(pairs), len(TABLE_1), AS_GOOD, ties=True),
        *won("GALA-A2C better than A3C", next(pairs), len(TABLE_1), BETTER),
    )


CLAIMS = (
    Claim(
        name="gala-learning",
        paper=PAPER,
        part="figures 1b and 1d",
        says="Learners that gossip keep the scores of A2C with as many environments after as many steps, and make more "
        "steps a second, as nobody waits. (Shares of convergent runs, figure 1a, are not judged: six games of ten "
        "seeds.)",
        refutation="they score surely lower after as many steps, or make surely no more steps a second",
        numbers={
            "bars": {_SYNC: 1.0, _GOSSIP: 1.5},
            AT_THE_END: {_SYNC: LEARNED, _GOSSIP: LEARNED},
        },
        negation={"bars": {_GOSSIP: 0.7}, AT_THE_END: {_GOSSIP: NOTHING}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        envs=KNOWN,
        suite="gossip",
        whole=Extent(3, 120.0, KEYS),
        quick=Extent(1, 120.0, KEYS),
        differs=IN_SMALL,
        also="with four learners and three seeds, of which medians alone were kept, gossip ended at 0.28 and A2C at "
        "0.83; on Pong's RAM A2C was ahead in each of three seeds ([gossip](../gossip.md)). Both speak against the "
        "claim",
        compare=_learning,
    ),
    Claim(
        name="gala-consensus",
        paper=PAPER,
        part="proposition 1 and figure 2",
        says="Learners that gossip stay within a computable distance of one another, which is tight, and their "
        "gradients are less correlated than A2C's.",
        refutation="the distance is nearer to 0 than to its bound, or gradients are as correlated as A2C's; that the "
        "bound is kept follows from the algorithm, and tests our code alone",
        numbers={
            "consensus_points": {"run": 0.7},
            "gradient_cosine": {"0-1": 0.1, "1-2": 0.1, "2-3": 0.1},
            "gradient_cosine_sync": {"0-1": 0.5, "1-2": 0.5, "2-3": 0.5},
        },
        negation={
            "consensus_points": {"run": 0.2},
            "gradient_cosine_sync": {"0-1": 0.0, "1-2": 0.0, "2-3": 0.0},
        },
        sizes=(game(Game.CATCH, Game.CATCH),),
        suite="gossip",
        whole=Extent(3, 120.0, KEYS),
        quick=Extent(1, 120.0, KEYS),
        differs=f"{IN_SMALL}; the bound with the mixing that took place in place of the constant beta; gradients of "
        "A2C's learners are not compared yet",
        compare=_consensus,
    ),
    Claim(
        name="gala-games",
        paper=PAPER,
        part="table 1",
        says="A2C of learners that gossip scores as well as A2C with as many environments, or better, in five Atari "
        "games of six, and better than A3C in all but Pong, in which both have the best score.",
        refutation="it is surely worse than A2C in two games, or not better than A3C in two",
        numbers={
            "bars": {
                case(one, name): score
                for one, scores in TABLE_1.items()
                for name, score in zip(COLUMNS, scores, strict=True)
            }
        },
        negation={"bars": {case(one, "GALA-A2C"): scores[0] / 2 for one, scores in TABLE_1.items()}},
        sizes=(game(Game.ATARI, Game.MINATAR), Size("learners", "learners", 2, 4, 2)),
        suite="gala-games",
        whole=Extent(3, 300.0),
        quick=Extent(1, 300.0),
        differs="two games of MinAtar, its network, two learners and a million steps in place of six Atari games, four "
        "learners and 40 million; the mean of training games in place of the "
        "best seed's, played greedily",
        compare=_games,
    ),
    Claim(
        name="gala-stragglers",
        paper=PAPER,
        part="section 5, figure 1d",
        says="A learner runs at its own rate, without being hampered by slower peers.",
        refutation=f"beside a learner {SLOWER:g} times slower surely less than {UNHAMPERED:.0%} of the rate is left, "
        "or no more than A2C keeps",
        numbers={
            "bars": {
                "sync, even": 1.0,
                "sync, one slow": HAMPERED,
                "gossip, even": 1.0,
                "gossip, one slow": UNHAMPERED,
            }
        },
        negation={"bars": {"gossip, one slow": HAMPERED / 2}},
        sizes=(game(Game.CATCH, Game.CATCH),),
        suite="stragglers",
        topology="catch-defaults.yaml",
        whole=Extent(3, 8.0, ("simulators.count=1", "simulators.envs=8", "trainer.threads=1")),
        quick=Extent(1, 8.0, ("simulators.count=1", "simulators.envs=8", "trainer.threads=1")),
        differs="two learners on Catch with its defaults, one of them stopped four fifths of the time, in place of the "
        "variance of Atari games",
        compare=_stragglers,
    ),
)
