"""Times that learners in lock-step wait for one another; reads the clock only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray


class Waits:
    """One learner's times: busy with its own work, or waiting for the others.

    All leave a wait together, so the learner that is busy longest afterwards arrives last at the next one.
    """

    def __init__(self, learners: int) -> None:
        """Start the clock."""
        self.busy_ns = 0
        """Own work since the last `count`."""
        self._since_ns = time.monotonic_ns()
        self._waited_ns = 0
        self._last = np.zeros(learners, np.int64)
        self._cost_ns = np.zeros(learners, np.int64)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count time in here as waiting, and not as this learner's work."""
        began_ns = time.monotonic_ns()
        self.busy_ns += began_ns - self._since_ns
        try:
            yield
        finally:
            self._since_ns = time.monotonic_ns()
            self._waited_ns += self._since_ns - began_ns

    def count(self, busy_ns: NDArray[np.int64]) -> None:
        """Learn how long each learner [learners] was busy before an update."""
        *_, second, last = (0, *np.argsort(busy_ns, kind="stable"))
        self._last[last] += 1
        self._cost_ns[last] += busy_ns[last] - busy_ns[second]
        self.busy_ns = 0

    def metrics(self) -> dict[str, float]:
        """Return the rank of the learner that cost the others most time since the last call, and this one's wait."""
        straggler = int(self._cost_ns.argmax())
        found = {
            "learner_wait_s": self._waited_ns / 1e9,
            "straggler": straggler,
            "straggler_share": float(self._last[straggler] / max(self._last.sum(), 1)),
            "straggler_wait_s": float(self._cost_ns[straggler] / 1e9),
        }
        self._waited_ns = 0
        self._last[:] = self._cost_ns[:] = 0
        return found
