"""Measures the times for which learners wait for each other, and finds the straggler; reads the clock only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

STRAGGLING = 0.2
"""Share of time for which the others must wait for a straggler before a report counts towards a warning."""
SURE_AFTER = 3
"""Number of consecutive reports with the same straggler before a warning: any learner may be late once."""
SURE_S = 10.0
"""Shortest time in seconds that these SURE_AFTER reports cover together."""
NAME_EVERY_S = 30.0
"""Shortest time in seconds between two warnings."""


class Stragglers:
    """For each learner, how often it came last at an update, and how long the others waited for it."""

    def __init__(self, learners: int) -> None:
        self._last = np.zeros(learners, np.int64)
        self._cost_s = np.zeros(learners)

    def count(self, came_s: Mapping[int, float]) -> None:
        """Count an update of these learners, by the times in seconds at which they came to it, on any clock."""
        order = sorted(came_s, key=lambda learner: came_s[learner])
        last, before = order[-1], order[-2:][0]  # both are the same if there is one learner
        self._last[last] += 1
        self._cost_s[last] += came_s[last] - came_s[before]

    def metrics(self) -> dict[str, float]:
        """Return the straggler's rank, its share of last arrivals and the seconds waited for it since the last call."""
        straggler = int(self._cost_s.argmax())
        found = {
            "straggler": straggler,
            "straggler_share": float(self._last[straggler] / max(self._last.sum(), 1)),
            "straggler_wait_s": float(self._cost_s[straggler]),
        }
        self._last[:] = self._cost_s[:] = 0
        return found


class StragglerWarnings:
    """Decides when to warn the user of a straggler."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without reports; ``clock`` returns seconds."""
        self._clock = clock
        self._suspect, self._suspected, self._suspected_s = -1, 0, 0.0
        self._named_s = -NAME_EVERY_S

    def read(self, metrics: Mapping[str, float], seconds: float, name_of: Callable[[int], str]) -> str:
        """Return a warning about the straggler in these metrics of the last ``seconds``; empty if none is due."""
        waited_s, rank = metrics.get("straggler_wait_s", 0.0), int(metrics.get("straggler", -1))
        slow = waited_s >= STRAGGLING * seconds
        again = slow and rank == self._suspect
        self._suspected = self._suspected + 1 if again else int(slow)
        self._suspected_s = self._suspected_s + seconds if again else seconds * slow
        self._suspect = rank
        now_s = self._clock()
        if self._suspected < SURE_AFTER or self._suspected_s < SURE_S or now_s - self._named_s < NAME_EVERY_S:
            return ""
        self._named_s = now_s
        return f"{name_of(rank)} is slow: the other learners waited {waited_s:.1f} of the last {seconds:.1f} s for it"


class Waits:
    """One learner's times in lock-step: busy with its own work, or waiting for the others.

    All learners leave a wait together, so the learner that is busy longest after it arrives last at the next one.
    """

    def __init__(self, learners: int) -> None:
        self.busy_ns = 0
        """Nanoseconds of this learner's work since the last `count`."""
        self._since_ns = time.monotonic_ns()
        self._waited_ns = 0
        self._stragglers = Stragglers(learners)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in this context as waiting, and not as this learner's work."""
        began_ns = time.monotonic_ns()
        self.busy_ns += began_ns - self._since_ns
        try:
            yield
        finally:
            self._since_ns = time.monotonic_ns()
            self._waited_ns += self._since_ns - began_ns

    def count(self, busy_ns: NDArray[np.int64]) -> None:
        """Count an update, before which each learner was busy for this many nanoseconds [learners]."""
        self._stragglers.count({learner: own_ns / 1e9 for learner, own_ns in enumerate(busy_ns.tolist())})
        self.busy_ns = 0

    def metrics(self) -> dict[str, float]:
        """Return the metrics of ``Stragglers`` and this learner's waiting time in seconds, since the last call."""
        found = {"learner_wait_s": self._waited_ns / 1e9, **self._stragglers.metrics()}
        self._waited_ns = 0
        return found
