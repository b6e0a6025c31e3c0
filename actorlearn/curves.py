"""The curves by which scheduled values, such as the learning rate, change from their first to their final value."""

from __future__ import annotations

from math import cos, pi
from typing import Any


def curve(name: str, progress: float) -> float:
    """Return the fraction of the change from first to final value that is made at ``progress``; both are from 0 to 1.

    ``name`` "cosine" gives half a period of a cosine (Loshchilov and Hutter 2017, without restarts), any other name a
    straight line. If ``progress`` is a tensor, so is the result.
    """
    if name != "cosine":
        return progress
    angle: Any = pi * progress
    return (1.0 - cos(angle)) / 2.0 if isinstance(angle, float) else (1.0 - angle.cos()) / 2.0
