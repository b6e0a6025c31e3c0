"""A clock that stops while this process cannot run, and the shares of time that processes spend in each section.

Sections are the parts of a process's loop, such as simulate and wait (``actorlearn/metrics/timings.py``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE
from actorlearn.metrics.timings import SECTIONS

GAP_S = 1.0
"""Seconds; a turn of the loop that takes longer is a gap, in which this process could not run."""


class AwakeClock:
    """A monotonic clock that stops while this process cannot run, for example because the machine is suspended."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._now_s = 0.0

    def advance(self) -> tuple[float, float]:
        """Return the time of this clock, in seconds, and the part of it in which this process could not run.

        Call this once in each turn of the loop. The clock advances by GAP_S at most. That much is also returned as the
        second value if the turn took longer; otherwise the second value is 0.
        """
        elapsed_s = time.monotonic() - self._last_s
        self._last_s += elapsed_s
        self._now_s += min(elapsed_s, GAP_S)
        return self._now_s, GAP_S if elapsed_s > GAP_S else 0.0


class TimeShares:
    """Shares of the processes' time that each section took since the last call, from counters in shared memory."""

    def __init__(self, section_ns: NDArray[np.int64]) -> None:
        """Count from now; ``section_ns`` [rows, sections]: nanoseconds in each section, in the progress segment."""
        self._section_ns = section_ns
        self._before_ns = section_ns.copy()

    def _spent_ns(self) -> NDArray[np.float64]:
        """Return nanoseconds [rows, sections] since the last call; a row that was reset counts from its reset."""
        now_ns = self._section_ns.copy()
        anew = (now_ns < self._before_ns).any(axis=1, keepdims=True)
        spent = np.where(anew, now_ns, now_ns - self._before_ns)
        self._before_ns = now_ns
        return spent[:, : len(SECTIONS)].astype(np.float64)

    def together(self, rows: Sequence[int], simulators: Sequence[int] = ()) -> dict[str, float]:
        """Return the metrics ``share_…`` of all ``rows`` together, and the share of section simulate in ``simulators``.

        ``rows`` and ``simulators`` are rows of ``section_ns``. Each metric is 0 to 1; it is left out if these rows have
        counted no time.
        """
        each = self._spent_ns()
        spent, theirs = each[list(rows)].sum(axis=0), each[list(simulators)].sum(axis=0)
        total, of_simulators = spent.sum(), theirs.sum()
        shares = {f"share_{name}": part / total for name, part in zip(SECTIONS, spent, strict=True) if total > 0}
        if of_simulators > 0:
            shares[SIMULATION_LIMIT_SHARE] = theirs[SECTIONS.index("simulate")] / of_simulators
        return {name: float(share) for name, share in shares.items()}

    def busy(self) -> list[float | None]:
        """Return the share of each row's time in which it did not wait, 0 to 1; None if the row has counted no time."""
        spent = self._spent_ns()
        total = spent.sum(axis=1)
        waiting = spent[:, SECTIONS.index("wait")]
        return [
            float(1 - waited / counted) if counted else None for waited, counted in zip(waiting, total, strict=True)
        ]
