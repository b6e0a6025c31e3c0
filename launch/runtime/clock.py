"""A clock that stops while this process cannot run, and the shares of time per section of all processes.

Reads the monotonic clock and the progress segment. ``launch/supervision/hangs.py`` finds hanging processes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.registry import SIMULATION_LIMIT_SHARE
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

    def together(self, rows: Sequence[int], simulators: Sequence[int] = ()) -> dict[str, float]:
        """Metrics ``share_…`` of these rows together, and how close ``simulators``, some of them, are to their limit.

        Each is 0 to 1. A metric is left out where nothing was counted for it.
        """
        each = self._spent_ns()
        spent, theirs = each[list(rows)].sum(axis=0), each[list(simulators)].sum(axis=0)
        total, of_simulators = spent.sum(), theirs.sum()
        shares = {f"share_{name}": part / total for name, part in zip(SECTIONS, spent, strict=True) if total > 0}
        if of_simulators > 0:
            shares[SIMULATION_LIMIT_SHARE] = theirs[SECTIONS.index("simulate")] / of_simulators
        return {name: float(share) for name, share in shares.items()}

    def busy(self) -> list[float | None]:
        """Share of each row's time that was not waiting, 0 to 1; None where nothing was counted."""
        spent = self._spent_ns()
        total = spent.sum(axis=1)
        waiting = spent[:, SECTIONS.index("wait")]
        return [
            float(1 - waited / counted) if counted else None for waited, counted in zip(waiting, total, strict=True)
        ]
