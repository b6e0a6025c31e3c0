"""A clock that stops while this process cannot run, and the shares of time per section of all processes.

Reads the monotonic clock and the progress segment. ``launch/supervision/hangs.py`` finds hanging processes.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.timings import SECTIONS

GAP_S = 1.0


class AwakeClock:
    """Monotonic seconds that stand still while this process could not run: a frozen machine must not time out."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._last_s = time.monotonic()
        self._now_s = 0.0

    def advance(self) -> tuple[float, float]:
        """Return the time and the length of the gap before it, in seconds; called once in every turn of the loop."""
        elapsed_s = time.monotonic() - self._last_s
        self._last_s += elapsed_s
        self._now_s += min(elapsed_s, GAP_S)
        return self._now_s, GAP_S if elapsed_s > GAP_S else 0.0


class TimeShares:
    """Shares of processes' time that each section took since the last look, from counters in shared memory."""

    def __init__(self, section_ns: NDArray[np.int64]) -> None:
        """Count from now on; ``section_ns`` [rows, sections] is the progress segment's."""
        self._section_ns = section_ns
        self._before_ns = section_ns.copy()

    def _spent_ns(self) -> NDArray[np.float64]:
        """Nanoseconds [rows, sections] since the last look; a row that began anew counts from its beginning."""
        now_ns = self._section_ns.copy()
        anew = (now_ns < self._before_ns).any(axis=1, keepdims=True)
        spent = np.where(anew, now_ns, now_ns - self._before_ns)
        self._before_ns = now_ns
        return spent[:, : len(SECTIONS)].astype(np.float64)

    def together(self, rows: list[int]) -> dict[str, float]:
        """Metrics ``share_…`` of these rows together: each section's share, 0 to 1; empty when nothing was counted."""
        spent = self._spent_ns()[rows].sum(axis=0)
        total = spent.sum()
        return {f"share_{name}": float(part / total) for name, part in zip(SECTIONS, spent, strict=True) if total > 0}

    def busy(self) -> list[float | None]:
        """Share of each row's time that was not waiting, 0 to 1; None where nothing was counted."""
        spent = self._spent_ns()
        total = spent.sum(axis=1)
        waiting = spent[:, SECTIONS.index("wait")]
        return [
            float(1 - waited / counted) if counted else None for waited, counted in zip(waiting, total, strict=True)
        ]
