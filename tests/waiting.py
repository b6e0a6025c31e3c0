"""Waiting for something to become true."""

from __future__ import annotations

import time
from collections.abc import Callable


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether it becomes true in time; it is not asked again after it was."""
    deadline_s = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
