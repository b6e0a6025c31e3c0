"""Who makes the others wait, told from how long each was busy."""

from __future__ import annotations

import numpy as np
import pytest

from actorlearn.parameters import waits
from actorlearn.parameters.waits import Waits


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_time_is_either_busy_or_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(waits, "time", clock)
    times = Waits(2)
    for busy_ns, waited_ns in ((3, 5), (10, 20)):
        clock.now_ns += busy_ns * 10**9
        with times.waiting():
            clock.now_ns += waited_ns * 10**9
    assert times.busy_ns == 13 * 10**9
    times.count(np.array([13, 13]))
    assert times.busy_ns == 0
    assert times.metrics()["learner_wait_s"] == 25.0
    assert times.metrics()["learner_wait_s"] == 0.0


def test_the_straggler_is_who_cost_the_others_most() -> None:
    times = Waits(3)
    for busy_ns in ([5, 9, 4], [5, 9, 8], [5, 9, 4], [6, 2, 5]):
        times.count(np.array(busy_ns) * 10**9)
    told = times.metrics()
    assert (told["straggler"], told["straggler_share"], told["straggler_wait_s"]) == (1, 0.75, 9.0)
    assert times.metrics() == {"learner_wait_s": 0.0, "straggler": 0, "straggler_share": 0.0, "straggler_wait_s": 0.0}


def test_a_learner_alone_waits_for_nobody() -> None:
    times = Waits(1)
    times.count(np.array([5]))
    assert times.metrics()["straggler_wait_s"] == 0.0
