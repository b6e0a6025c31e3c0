"""The curves by which scheduled values, such as the learning rate, change from their first to their final value."""

from __future__ import annotations

from math import cos, pi


def curve(name: str, progress: float) -> float:
    """Return the fraction of the change from first to final value that is made at ``progress``; both are from 0 to 1.

    ``name`` "cosine" gives half a period of a cosine (Loshchilov and Hutter 2017, without restarts), any other name a
    straight line.
    """
    return (1.0 - cos(pi * progress)) / 2.0 if name == "cosine" else progress
