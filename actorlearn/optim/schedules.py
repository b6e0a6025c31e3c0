"""Numbers that change along a run, as functions of the fraction of it that is done (by env steps, as in PAAC).

And the learning rate of several learners, whose batches make one.
"""

from __future__ import annotations

from math import sqrt

SCALINGS = ("none", "sqrt", "linear")


def linear(start: float, end: float, fraction: float) -> float:
    """Return the point at `fraction` of the straight way from start to end; before 0 it is start, after 1 it is end."""
    fraction = min(max(fraction, 0.0), 1.0)
    return start * (1.0 - fraction) + end * fraction


def scaled(learning_rate: float, learners: int, scaling: str) -> float:
    """Return the rate for a batch that is so many times as large: as it is, or times their number or its root.

    Linear is Goyal et al. (2017) and PAAC's .0007 for each environment, sqrt is GALA's; Stooke & Abbeel's A3C has none.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling: {scaling!r} must be one of {list(SCALINGS)}")
    return learning_rate * {"none": 1.0, "sqrt": sqrt(learners), "linear": learners}[scaling]
