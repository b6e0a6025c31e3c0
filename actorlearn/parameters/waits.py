"""Measures how long learners wait for each other, and finds the straggler, for which the others wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

STRAGGLING = 0.2
"""Share of the time between two reports for which the others must wait for a learner, so that the report counts."""
SURE_AFTER = 3
"""Number of consecutive reports that must count for the same learner before a warning; any learner may be late once."""
SURE_S = 10.0
"""Shortest time, in seconds, that these reports must cover together."""
NAME_EVERY_S = 30.0
"""Shortest time, in seconds, between two warnings."""


class Stragglers:
    """Counts how often each learner was the last to be ready for an update, and how long the others waited for it."""

    def __init__(self, learners: int) -> None:
        self._last = np.zeros(learners, np.int64)
        self._cost_s = np.zeros(learners)

    def count(self, came_s: Mapping[int, float]) -> None:
        """Count an update; ``came_s`` has the time, in seconds on any clock, at which each learner was ready for it."""
        order = sorted(came_s, key=lambda learner: came_s[learner])
        last, before = order[-1], order[-2:][0]  # the same learner if there is only one
        self._last[last] += 1
        self._cost_s[last] += came_s[last] - came_s[before]

    def metrics(self) -> dict[str, float]:
        """Return metrics since the last call, of the learner for which the others waited longest.

        These are its index, the share of updates for which it was the last, and the seconds that the others waited.
        """
        straggler = int(self._cost_s.argmax())
        found = {
            "straggler": straggler,
            "straggler_share": float(self._last[straggler] / max(self._last.sum(), 1)),
            "straggler_wait_s": float(self._cost_s[straggler]),
        }
        self._last[:] = self._cost_s[:] = 0
        return found


class StragglerWarnings:
    """Decides when to warn the user of a straggler, a learner for which the others repeatedly wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._suspect, self._suspected, self._suspected_s = -1, 0, 0.0
        """The straggler of the last report, the number of consecutive reports that count for it, and their seconds."""
        self._named_s = -NAME_EVERY_S
        """Time of the last warning."""

    def read(self, metrics: Mapping[str, float], seconds: float, name_of: Callable[[int], str]) -> str:
        """Read the metrics of the last ``seconds`` seconds; returns a warning of a straggler, or "".

        ``name_of`` returns the name of a learner from its rank.
        """
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
    """Measures how long a learner in mode sync works, and how long it waits for the others.

    All learners leave a barrier at the same time. The learner that works longest after it is therefore the last one to
    arrive at the next barrier.
    """

    def __init__(self, learners: int) -> None:
        self._busy_ns = 0
        """Nanoseconds that this learner has worked between the last call of `count` and its last wait."""
        self._since_ns = time.monotonic_ns()
        """Time at which the last wait ended."""
        self._waited_ns = 0
        self._stragglers = Stragglers(learners)

    @property
    def busy_ns(self) -> int:
        """Nanoseconds that this learner has worked since the last call of `count`."""
        return self._busy_ns + time.monotonic_ns() - self._since_ns

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in a ``with`` block as waiting, and not as work."""
        began_ns = time.monotonic_ns()
        self._busy_ns += began_ns - self._since_ns
        try:
            yield
        finally:
            self._since_ns = time.monotonic_ns()
            self._waited_ns += self._since_ns - began_ns

    def count(self, busy_ns: NDArray[np.int64]) -> None:
        """Count an update; ``busy_ns`` [learners] has the nanoseconds that each learner has worked before it."""
        self._stragglers.count({learner: own_ns / 1e9 for learner, own_ns in enumerate(busy_ns.tolist())})
        self._busy_ns = 0

    def metrics(self) -> dict[str, float]:
        """Return the metrics of `Stragglers`, and the seconds that this learner has waited, since the last call."""
        found = {"learner_wait_s": self._waited_ns / 1e9, **self._stragglers.metrics()}
        self._waited_ns = 0
        return found
