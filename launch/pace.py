"""Reads the progress segment: who stands still, who is busy, and where the time of each stage goes.

Reads heartbeats and section counters; writes nothing. Time is handed in, so that tests need no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import SECTIONS, shares
from launch.plan import PlannedProcess

HANG_LIMIT_S = 30.0
"""Every loop beats many times a second; the longest thing one does between two beats is a large update or a slow
environment's reset."""
OWN_GAP_S = 1.0
"""When this process itself was not scheduled for so long, the machine was suspended or overloaded: nobody is blamed."""

STAGE_OF = {"simulator": ("simulate",), "inference": ("infer",), "trainer": ("learn", "copy", "publish", "wait")}


class Pace:
    """Heartbeats and shares of time, by row of the progress segment."""

    def __init__(self, progress: Segment) -> None:
        """Bind to the run's progress segment."""
        self._beat_ns = progress["beat_ns"]
        self._section_ns = progress["section_ns"]
        self._before_ns: NDArray[np.int64] = self._section_ns.copy()
        self._fresh_s: dict[int, float] = {}
        self._asked_s = -1.0
        self._busy: dict[int, float | None] = {}

    def fresh(self, index: int, now_s: float) -> None:
        """A new process has taken this row."""
        self._fresh_s[index] = now_s

    def stalled(self, running: Sequence[tuple[str, int, int]], now_s: float) -> Iterator[tuple[str, int, float]]:
        """Who of these (name, incarnation, row) has not beaten for the hang limit: name, incarnation, seconds."""
        if self._asked_s >= 0 and now_s - self._asked_s > OWN_GAP_S:
            self._fresh_s = dict.fromkeys(range(len(self._beat_ns)), now_s)
        self._asked_s = now_s
        for name, incarnation, index in running:
            beat_s = max(self._beat_ns[index, 0] / 1e9, self._fresh_s.get(index, 0.0))
            if now_s - beat_s >= HANG_LIMIT_S:
                self._fresh_s[index] = now_s
                yield name, incarnation, now_s - beat_s

    def shares(self, processes: Sequence[PlannedProcess]) -> dict[str, float]:
        """Share of the time since the last call in each stage: the mean over the processes that do it."""
        now_ns = self._section_ns.copy()
        found: dict[str, list[float]] = {}
        for process in processes:
            if (now_ns[process.index] < self._before_ns[process.index]).any():
                continue  # restarted in between: its counters began anew
            share = shares(self._before_ns[process.index], now_ns[process.index])
            if not any(share.values()):
                continue
            self._busy[process.index] = 1.0 - share["wait"]
            for section in STAGE_OF.get(process.role, ()):
                found.setdefault(section, []).append(share[section])
            if process.role == "simulator" and share["infer"]:
                found.setdefault("infer", []).append(share["infer"])
        self._before_ns = now_ns
        return {
            f"share_{section}": round(float(np.mean(found[section])), 4) for section in SECTIONS if section in found
        }

    def busy(self) -> dict[int, Any]:
        """Share of its time that each process did not wait, at the last report."""
        return self._busy
