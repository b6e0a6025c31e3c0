"""Measures how long the loop of a process spends in each of its sections, such as "infer" or "wait".

Each process has a counter of nanoseconds for each section. The counters are usually in shared memory, where the
supervisor reads them. All kinds of processes use the same names of sections.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

SECTIONS = ("simulate", "infer", "learn", "copy", "publish", "wait")


class Timings:
    """The counters of one process; the time between two calls of ``add`` counts for one section."""

    def __init__(self, section_ns: NDArray[np.int64] | None = None) -> None:
        """Use ``section_ns``, an array of at least len(SECTIONS) elements, as the counters; None: a new array."""
        self.section_ns = np.zeros(len(SECTIONS), np.int64) if section_ns is None else section_ns
        self.section_ns[:] = 0
        self._index = {name: i for i, name in enumerate(SECTIONS)}
        self._mark_ns = time.perf_counter_ns()

    def add(self, section: str) -> None:
        """Count the time since the previous call, or since the start, for this section."""
        now_ns = time.perf_counter_ns()
        self.section_ns[self._index[section]] += now_ns - self._mark_ns
        self._mark_ns = now_ns


def shares(before_ns: NDArray[np.int64], after_ns: NDArray[np.int64]) -> dict[str, float]:
    """Return the share (0 to 1) of each section in the time between two readings of a process's counters."""
    spent = (after_ns - before_ns)[: len(SECTIONS)].astype(np.float64)
    total = spent.sum()
    return {name: float(part / total) if total > 0 else 0.0 for name, part in zip(SECTIONS, spent, strict=True)}
