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
        """Advance the clock by the seconds since the last call, at most GAP_S; return its time, and a gap in seconds.

        The gap is GAP_S if more time than that has passed, because this process then could not run; otherwise it is 0.
        """
        elapsed_s = time.monotonic() - self._last_s
        self._last_s += elapsed_s
        self._now_s += min(elapsed_s, GAP_S)
        return self._now_s, GAP_S if elapsed_s > GAP_S else 0.0


class TimeShares:
    """Shares of time that processes spent in each section, such as wait, since the last call."""

    def __init__(self, section_ns: NDArray[np.int64]) -> None:
        """``section_ns`` [rows, sections]: nanoseconds in each section so far; a row of shared memory per process."""
        self._section_ns = section_ns
        self._before_ns = section_ns.copy()

    def _spent_ns(self) -> NDArray[np.float64]:
        """Return the nanoseconds [rows, sections] since the last call, or since a new process got the row."""
        now_ns = self._section_ns.copy()
        anew = (now_ns < self._before_ns).any(axis=1, keepdims=True)
        spent = np.where(anew, now_ns, now_ns - self._before_ns)
        self._before_ns = now_ns
        return spent[:, : len(SECTIONS)].astype(np.float64)

    def together(self, rows: Sequence[int], simulators: Sequence[int] = ()) -> dict[str, float]:
        """Return the metrics ``share_…``: the share of each section in the time of several processes together, 0 to 1.

        ``rows``: the processes' rows in ``section_ns``. ``simulators``: rows of simulators, whose share of section
        simulate is returned too. Shares are left out if no time was spent.
        """
        each = self._spent_ns()
        spent, theirs = each[list(rows)].sum(axis=0), each[list(simulators)].sum(axis=0)
        total, of_simulators = spent.sum(), theirs.sum()
        shares = {f"share_{name}": part / total for name, part in zip(SECTIONS, spent, strict=True) if total > 0}
        if of_simulators > 0:
            shares[SIMULATION_LIMIT_SHARE] = theirs[SECTIONS.index("simulate")] / of_simulators
        return {name: float(share) for name, share in shares.items()}

    def busy(self) -> list[float | None]:
        """Return for each row the share of time in which its process did not wait, 0 to 1; None: no time counted."""
        spent = self._spent_ns()
        total = spent.sum(axis=1)
        waiting = spent[:, SECTIONS.index("wait")]
        return [
            float(1 - waited / counted) if counted else None for waited, counted in zip(waiting, total, strict=True)
        ]
