"""Scores of MinAtar's games, in which tables of several games are measured in small, and when a game was learned."""

from __future__ import annotations

from collections.abc import Sequence

from launch.bench.claims.claim import Comparison, Found
from launch.bench.papers.tables_of_games import GAMES, case

WITHIN = 0.85
"""Share of a score from which another is as good: single seeds differ by more than a tenth."""
LEARNED = 2.0
"""Times the score of random play from which a game is called learned."""


def as_good(found: Found, games: Sequence[str], column: str, base: str, paper: str) -> Sequence[Comparison]:
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
