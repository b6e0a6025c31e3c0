"""Numbers that change along a run, as functions of the fraction of it that is done (by env steps, as in PAAC)."""

from __future__ import annotations


def linear(start: float, end: float, fraction: float) -> float:
    """Return the point at `fraction` of the straight way from start to end; before 0 it is start, after 1 it is end."""
    fraction = min(max(fraction, 0.0), 1.0)
    return start * (1.0 - fraction) + end * fraction
