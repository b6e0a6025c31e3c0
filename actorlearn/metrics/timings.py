"""Measures the time of a loop's sections, with a few nanosecond counters per process that are always on.

All roles use the same names of sections, on the screen and in metrics.jsonl. The array may be in shared memory, where
the supervisor reads it.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

SECTIONS = ("simulate", "infer", "learn", "copy", "publish", "wait")


class Timings:
    """Adds the time between two calls of ``add`` to a section."""

    def __init__(self, section_ns: NDArray[np.int64] | None = None) -> None:
        """Count in ``section_ns`` (at least len(SECTIONS) words), or in a new array."""
        self.section_ns = np.zeros(len(SECTIONS), np.int64) if section_ns is None else section_ns
        self.section_ns[:] = 0
        self._index = {name: i for i, name in enumerate(SECTIONS)}
        self._mark_ns = time.perf_counter_ns()

    def add(self, section: str) -> None:
        """Add the time since the previous call to this section."""
        now_ns = time.perf_counter_ns()
        self.section_ns[self._index[section]] += now_ns - self._mark_ns
        self._mark_ns = now_ns


def shares(before_ns: NDArray[np.int64], after_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return each section's share, 0 to 1, of the time between two readings of a process's counters."""
    spent = (after_ns - before_ns)[: len(SECTIONS)].astype(np.float64)
    total = spent.sum()
    return {name: float(part / total) if total > 0 else 0.0 for name, part in zip(SECTIONS, spent, strict=True)}
