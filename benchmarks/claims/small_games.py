"""Comparisons of scores in the games with which claims are measured: as good as another score, and learned.

Most claims about learning are measured with Catch, which has a highest possible score. The two thresholds are those
of papers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.claims.claim import Comparison, Game, Interval, SuiteResult
from launch.bench.atari_games import games

CATCH = ("actorlearn.envs.catch:Catch", "benchmarks.environments:SlowCatch")
"""Ids of Catch; the second one sleeps in each step."""
CATCH_RANDOM, CATCH_BEST = -0.42, 1.0
"""Scores of Catch: of random play, and the highest possible one."""
AS_GOOD_GAMES = 37
"""Number of games, of 49, in which Fast DQN is "comparable to or better than" DQN (Daley and Amato, section 5.2)."""
AS_GOOD = sorted(
    game.fast_dqn_percent / game.dqn_percent
    if game.dqn_percent > 0
    else math.copysign(math.inf, game.fast_dqn - game.dqn)
    for game in games().values()
)[-AS_GOOD_GAMES]
"""A score is as good as another if its distance from random play is at least this share of the other's.

It is the share that Fast DQN reaches of DQN in the worst of its AS_GOOD_GAMES games.
"""
CONVERGED = 0.5
"""Share of the nominal score that a successful run reaches (Assran et al., section 5)."""
KNOWN = (*CATCH, *games())
"""Environments of which both ends of the scale are known, from random play to a player's score."""
NOTHING, LEARNED = games()["ALE/Breakout-v5"].random, games()["ALE/Breakout-v5"].human
"""Scores of Breakout that stand for the words of papers: that nothing was learned, and that the game was."""


def ends(found: SuiteResult) -> tuple[float, float]:
    """Return the scores of random play and of a player: the best possible one in Catch, a human tester in Atari.

    Raises KeyError for an environment that is not in ``KNOWN``; claims on this scale name these as their ``envs``.
    """
    env = found.report.get("env", CATCH[0])
    return (CATCH_RANDOM, CATCH_BEST) if env in CATCH else (games()[env].random, games()[env].human)


def shares(found: SuiteResult, case: str, of: str = "bars") -> Sequence[float]:
    """Return the scores of a case, scaled so that random play has 0 and a player 1."""
    low, high = ends(found)
    return [(score - low) / (high - low) for score in found.values(case, of)]


def near_best(found: SuiteResult, *both: Sequence[float]) -> str:
    """Return why the shares of two cases could not differ, if both are near the best score of Catch; else ""."""
    near = Game.of(found.report.get("env", "")) == Game.CATCH and min(map(fmean, both)) > AS_GOOD
    return "both are near the best score: they could not differ" if near else ""


def alike(
    found: SuiteResult, case: str, base: str, paper: str, of: str = "bars", base_of: str | None = None
) -> Comparison:
    """Compare whether a case is as good as a base; undecided if the base has learned nothing, or both are perfect."""
    here, there = shares(found, case, of), shares(found, base, base_of or of)
    margin = (1 - AS_GOOD) * fmean(there)
    blind = f"{base} has not learned" if fmean(there) <= 0 else near_best(found, here, there)
    what = "mean of the curve" if of == "curve" else "score"
    return Comparison(
        f"{what}, shares of the way from random play: {case}, less {base}",
        f"{paper}: no less than {-margin:.2f}",
        Interval.of([a - b for a, b in zip(here, there, strict=True)]),
        refuted=-margin,
        form="{:+.2f}",
        values=f"{fmean(here):.2f} and {fmean(there):.2f}",
        blind=blind,
    )


def learned(found: SuiteResult, case: str, paper: str = "learns", of: str = "bars", blind: str = "") -> Comparison:
    """Compare a score with the middle between random play and a player's score."""
    return Comparison(
        f"score, share of the way from random play: {case}",
        f"{paper}: more than {CONVERGED:.0%}",
        Interval.of(shares(found, case, of)),
        refuted=CONVERGED,
        form="{:.0%}",
        blind=blind,
    )


def won(
    what: str, pairs: Sequence[tuple[Sequence[float], Sequence[float]]], total: int, paper: int, ties: bool = False
) -> Sequence[Comparison]:
    """Compare the number of games in which the first column is better with half of the games and the paper's number.

    A game counts if the interval of the difference excludes 0. Other games, and those not measured, are undecided.
    """
    differences = [Interval.of([a - b for a, b in zip(here, there, strict=True)]) for here, there in pairs]
    sure = sum(one.low > 0 or (ties and one.low == one.high == 0) for one in differences)
    lost = sum(one.high < 0 or (not ties and one.low == one.high == 0) for one in differences)
    games_won = Interval((sure + total - lost) / 2, sure, total - lost)
    said = f"{sure} won, {lost} lost, {total - sure - lost} of {total} not known"
    half = Comparison(
        f"{what}: games, against half", "most", games_won, total / 2, form="{:.1f}", values=said, wide=said
    )
    return half, replace(half, what=f"{what}: games", paper=f"{paper} of {total}", number=paper)
