"""Scores of Catch, the game in which most claims about learning are measured in small, and when they are alike."""

from __future__ import annotations

from launch.bench.claims.claim import Comparison, Found

RANDOM, BEST = -0.42, 1.0
"""Scores of random play, and the best there is."""
ALIKE = 0.15 * (BEST - RANDOM)
"""Difference of scores up to which two cases have learned alike: 15 % of the way; a mean of 100 games varies by 0.1."""


def alike(found: Found, case: str, base: str, paper: str) -> Comparison:
    """Compare a case's score after equal steps with another's, below which it should not be."""
    here, there = found.median(case), found.median(base)
    said = f"{here:.2f} and {there:.2f}"
    return Comparison(f"score after equal steps: {case}, and {base}", paper, said, here >= there - ALIKE)
