"""The curves along which scheduled numbers go from their first to their final values."""

from __future__ import annotations

from math import cos, pi


def curve(name: str, progress: float) -> float:
    """Return the share of the way, 0 to 1, that is gone at ``progress``, 0 to 1, of a schedule.

    "cosine" is half a period (Loshchilov and Hutter 2017, without restarts); other names are a straight line.
    """
    return (1.0 - cos(pi * progress)) / 2.0 if name == "cosine" else progress
