"""Times that learners wait for one another, and the learner that they wait for; reads the clock only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

STRAGGLING = 0.2
"""Share of time that others must wait for a learner for it to be reported as a straggler."""
SURE_AFTER = 3
"""Consecutive reports with the same straggler before a warning: any learner may be late once, and all are at first."""
NAME_EVERY_S = 30.0


class Stragglers:
    """The time that learners have cost the others, by coming last at an update."""

    def __init__(self, learners: int) -> None:
        """Begin with no updates."""
        self._last = np.zeros(learners, np.int64)
        self._cost_s = np.zeros(learners)

    def count(self, came_s: Mapping[int, float]) -> None:
        """Count an update of these learners, by the times at which they came to it, on any clock."""
        order = sorted(came_s, key=lambda learner: came_s[learner])
        last, before = order[-1], order[-2:][0]  # one that is alone waits for nobody
        self._last[last] += 1
        self._cost_s[last] += came_s[last] - came_s[before]

    def metrics(self) -> dict[str, float]:
        """Return the rank of the learner that cost the others most time since the last call."""
        straggler = int(self._cost_s.argmax())
        found = {
            "straggler": straggler,
            "straggler_share": float(self._last[straggler] / max(self._last.sum(), 1)),
            "straggler_wait_s": float(self._cost_s[straggler]),
        }
        self._last[:] = self._cost_s[:] = 0
        return found


class StragglerWarnings:
    """Decides when a user is told of a learner that keeps the others waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a suspicion; ``clock`` returns seconds."""
        self._clock = clock
        self._suspect, self._suspected = -1, 0
        self._named_s = -NAME_EVERY_S

    def read(self, metrics: Mapping[str, float], seconds: float, name_of: Callable[[int], str]) -> str:
        """Return a warning about the straggler of these metrics, which are of the last ``seconds``; mostly empty."""
        waited_s, rank = metrics.get("straggler_wait_s", 0.0), int(metrics.get("straggler", -1))
        slow = waited_s >= STRAGGLING * seconds
        self._suspected = self._suspected + 1 if slow and rank == self._suspect else int(slow)
        self._suspect = rank
        now_s = self._clock()
        if self._suspected < SURE_AFTER or now_s - self._named_s < NAME_EVERY_S:
            return ""
        self._named_s = now_s
        return f"{name_of(rank)} is slow: the other learners waited {waited_s:.1f} of the last {seconds:.1f} s for it"


class Waits:
    """One learner's times in lock-step: busy with its own work, or waiting for the others.

    All leave a wait together, so the learner that is busy longest afterwards arrives last at the next one.
    """

    def __init__(self, learners: int) -> None:
        """Start the clock."""
        self.busy_ns = 0
        """Own work since the last `count`."""
        self._since_ns = time.monotonic_ns()
        self._waited_ns = 0
        self._stragglers = Stragglers(learners)

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
        self._stragglers.count({learner: own_ns / 1e9 for learner, own_ns in enumerate(busy_ns.tolist())})
        self.busy_ns = 0

    def metrics(self) -> dict[str, float]:
        """Return the rank of the learner that cost the others most time since the last call, and this one's wait."""
        found = {"learner_wait_s": self._waited_ns / 1e9, **self._stragglers.metrics()}
        self._waited_ns = 0
        return found
