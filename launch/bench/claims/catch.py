"""Scores of Catch, the game in which most claims about learning are measured in small, and when they are alike."""

from __future__ import annotations

from collections.abc import Sequence

from launch.bench.claims.claim import Comparison, Found

RANDOM, BEST = -0.42, 1.0
"""Scores of random play, and the best there is."""
ALIKE = 0.15 * (BEST - RANDOM)
"""Difference of scores up to which two cases have learned alike: 15 % of the way; a mean of 100 games varies by 0.1."""


HALF_WAY = (RANDOM + BEST) / 2


def alike(found: Found, cases: Sequence[str], base: str, paper: str, or_better: bool = False) -> Sequence[Comparison]:
    """Compare scores after equal steps with those of a base, which must itself have learned to say anything."""
    there = found.median(base)
    scores = {case: found.median(case) for case in cases}
    compared = [
        Comparison(
            f"score: {case}, and {base}",
            paper,
            f"{here:.2f} and {there:.2f}",
            here >= there - ALIKE and (or_better or here <= there + ALIKE),
        )
        for case, here in scores.items()
    ]
    return [learned(base, there), *compared]


def learned(name: str, score: float) -> Comparison:
    """Compare a score with half of the way from random play to the best."""
    return Comparison(f"score: {name}", "learns", f"{score:.2f}, half of the way is {HALF_WAY:.2f}", score >= HALF_WAY)
