"""Scores of the small games in which claims are measured: when two are alike, and when a game was learned.

Most claims about learning are measured with Catch, tables of several games with MinAtar.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.claims.claim import Comparison, SuiteResult
from benchmarks.papers.tables_of_games import GAMES, case

RANDOM, BEST = -0.42, 1.0
"""Scores of Catch: of random play, and the best there is."""
ALIKE = 0.15 * (BEST - RANDOM)
"""Difference of scores up to which two cases have learned alike: 15 % of the way; a mean of 100 games varies by 0.1."""
HALF_WAY = (RANDOM + BEST) / 2
WITHIN = 0.85
"""Share of a score of MinAtar from which another is as good: single seeds differ by more than a tenth."""
LEARNED = 2.0
"""Times the score of random play from which a game is called learned."""


def alike(
    found: SuiteResult, cases: Sequence[str], base: str, paper: str, or_better: bool = False
) -> Sequence[Comparison]:
    """Compare scores of Catch after equal steps with those of a base, which must itself have learned."""
    there = found.median(base)
    scores = {name: found.median(name) for name in cases}
    compared = [
        Comparison(
            f"score: {name}, and {base}",
            paper,
            f"{here:.2f} and {there:.2f}",
            here >= there - ALIKE and (or_better or here <= there + ALIKE),
        )
        for name, here in scores.items()
    ]
    return [learned(base, there), *compared]


def learned(name: str, score: float) -> Comparison:
    """Compare a score with half of the way from random play to the best."""
    return Comparison(f"score: {name}", "learns", f"{score:.2f}, half of the way is {HALF_WAY:.2f}", score >= HALF_WAY)


def as_good(found: SuiteResult, games: Sequence[str], column: str, base: str, paper: str) -> Sequence[Comparison]:
    """Compare a column with another, game by game, in games that the other has learned at all."""
    compared = []
    for game in games:
        here, there = found.median(case(game, column)), found.median(case(game, base))
        least = LEARNED * GAMES[game]
        compared += [
            Comparison(
                f"score: {game}, {base}", "learns", f"{there:.1f}, twice random play is {least:.1f}", there >= least
            ),
            Comparison(
                f"score: {game}, {column}, and {base}",
                paper,
                f"{here:.1f} and {there:.1f}, as good is {WITHIN * there:.1f}",
                here >= WITHIN * there,
            ),
        ]
    return compared
