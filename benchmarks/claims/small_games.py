"""Scores of the games in which claims are measured: which are as good as others, and when a game was learned.

Most claims about learning are measured with Catch, whose scores end at a best one. The two shares that decide are those
of papers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchmarks.claims.claim import Comparison, Game, Interval, SuiteResult
from launch.bench.atari_games import games

CATCH_RANDOM, CATCH_BEST = -0.42, 1.0
"""Scores of Catch: of random play, and the best there is."""
AS_GOOD_GAMES = 37
"""Games of 49 in which Fast DQN is "comparable to or better than" DQN (Daley and Amato, section 5.2)."""
AS_GOOD = sorted(
    game.fast_dqn_percent / game.dqn_percent
    if game.dqn_percent > 0
    else math.copysign(math.inf, game.fast_dqn - game.dqn)
    for game in games().values()
)[-AS_GOOD_GAMES]
"""Share of the way from random play that is called as good: what Fast DQN has of DQN's in the last of these games."""
CONVERGED = 0.5
"""Share of the nominal score from which a run is successful (Assran et al., section 5)."""
NOTHING, LEARNED = games()["ALE/Breakout-v5"].random, games()["ALE/Breakout-v5"].human
"""Scores of Breakout that stand for words of papers: nothing was learned, the game was learned."""


def ends(found: SuiteResult) -> tuple[float, float]:
    """Return the scores of random play and of a player: of the best one in Catch, of a human tester in Atari."""
    env = found.report.get("env", "")
    if Game.of(env) == Game.ATARI:
        return games()[env].random, games()[env].human
    return CATCH_RANDOM, CATCH_BEST


def shares(found: SuiteResult, case: str, of: str = "bars") -> Sequence[float]:
    """Return a case's scores as shares of the way from random play to a player's."""
    low, high = ends(found)
    return [(score - low) / (high - low) for score in found.values(case, of)]


def alike(
    found: SuiteResult, case: str, base: str, paper: str, of: str = "bars", base_of: str | None = None
) -> Comparison:
    """Compare a case with a base, which must have learned, and not be at the end of the scale with it."""
    here, there = shares(found, case, of), shares(found, base, base_of or of)
    margin = (1 - AS_GOOD) * fmean(there)
    blind = ""
    if fmean(there) <= 0:
        blind = f"{base} has not learned"
    elif Game.of(found.report.get("env", "")) == Game.CATCH and min(fmean(here), fmean(there)) > AS_GOOD:
        blind = "both are near the best score: they could not differ"
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
    """Compare a score with half of the way from random play to a player's."""
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
    """Compare in how many games of a table the first column is the better one: with half of them, and the paper's.

    A game counts if the interval of the difference says so; others, and those not measured, may be won or lost.
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
