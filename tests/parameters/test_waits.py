"""Waiting times of learners, and the straggler, which is found from how long each was busy."""

from __future__ import annotations

import numpy as np
import pytest

from actorlearn.parameters import waits
from actorlearn.parameters.waits import NAME_EVERY_S, SURE_AFTER, SURE_S, Stragglers, StragglerWarnings, Waits


class Clock:
    """A clock that the test sets."""

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
    clock.now_ns += 10**9
    assert times.busy_ns == 10**9  # it works on after its last wait
    assert times.metrics()["learner_wait_s"] == 25.0
    assert times.metrics()["learner_wait_s"] == 0.0


def test_the_straggler_is_the_learner_that_cost_the_others_most() -> None:
    times = Waits(3)
    for busy_ns in ([5, 9, 4], [5, 9, 8], [5, 9, 4], [6, 2, 5]):
        times.count(np.array(busy_ns) * 10**9)
    told = times.metrics()
    assert (told["straggler"], told["straggler_share"], told["straggler_wait_s"]) == (1, 0.75, 9.0)
    assert times.metrics() == {"learner_wait_s": 0.0, "straggler": 0, "straggler_share": 0.0, "straggler_wait_s": 0.0}


def test_a_learner_alone_reports_no_wait_for_a_straggler() -> None:
    times = Waits(1)
    times.count(np.array([5]))
    assert times.metrics()["straggler_wait_s"] == 0.0


def test_the_straggler_of_a_quorum_completed_it_and_the_wait_is_since_the_one_before() -> None:
    stragglers = Stragglers(4)
    stragglers.count({0: 1.0, 2: 1.5, 1: 4.0})
    stragglers.count({3: 9.0})  # does not wait
    told = stragglers.metrics()
    assert (told["straggler"], told["straggler_share"], told["straggler_wait_s"]) == (1, 0.5, 2.5)


def test_a_straggler_is_named_only_after_sure_s_seconds_however_frequent_reports_are() -> None:
    now_s = [0.0]
    warnings = StragglerWarnings(lambda: now_s[0])

    def read() -> str:
        now_s[0] += 0.5
        return warnings.read({"straggler": 3, "straggler_wait_s": 0.4}, 0.5, lambda rank: f"trainer-{rank}")

    said = [read() for _ in range(40)]
    assert [bool(each) for each in said] == [number + 1 == 2 * SURE_S for number in range(40)]


def test_a_straggler_is_named_after_several_reports_in_a_row_and_then_only_now_and_then() -> None:
    now_s = [0.0]
    warnings = StragglerWarnings(lambda: now_s[0])

    def read(rank: int, waited_s: float) -> str:
        now_s[0] += 10.0
        return warnings.read({"straggler": rank, "straggler_wait_s": waited_s}, 10.0, lambda rank: f"trainer-{rank}")

    once = [read(rank, waited_s) for rank, waited_s in ((3, 8.0), (3, 1.0), (3, 8.0), (2, 8.0), (3, 8.0), (3, 8.0))]
    assert once == [""] * 6, f"never {SURE_AFTER} times in a row"
    assert read(3, 8.0) == "trainer-3 is slow: the other learners waited 8.0 of the last 10.0 s for it"
    assert [bool(read(3, 8.0)) for _ in range(3)] == [False, False, True], f"each {NAME_EVERY_S} s"
