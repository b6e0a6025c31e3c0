"""Slices and scheduling classes, each asked for by a thread of its own: the test's thread keeps what it has."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from actorlearn.worker import scheduling
from actorlearn.worker.scheduling import SLICE_NS, set_policy, set_slice, slice_ns

T = TypeVar("T")


def kernel() -> tuple[int, ...]:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    assert numbers is not None
    return tuple(map(int, numbers.groups()))


def in_a_thread(ask: Callable[[], T]) -> T:
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


needs_slices = pytest.mark.skipif(kernel() < (6, 12), reason="slices came with Linux 6.12")


@needs_slices
@pytest.mark.parametrize("asked", [SLICE_NS, 300_000])
def test_a_slice_is_what_was_asked_for(asked: int) -> None:
    assert in_a_thread(lambda: (set_slice(asked), slice_ns())) == (True, asked)


@needs_slices
def test_a_slice_is_of_the_thread_and_of_those_it_starts() -> None:
    before = slice_ns()
    assert in_a_thread(lambda: set_slice(300_000) and in_a_thread(slice_ns)) == 300_000
    assert slice_ns() == before


def test_nice_and_class_stay_as_they_were() -> None:
    def asked() -> tuple[int, int]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        set_policy("batch")
        set_slice(300_000)
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    assert in_a_thread(asked) == (7, os.SCHED_BATCH)


@pytest.mark.parametrize("policy", ["batch", "idle"])
def test_a_lower_class_is_never_refused(policy: scheduling.SchedulingClass) -> None:
    number = {"batch": os.SCHED_BATCH, "idle": os.SCHED_IDLE}[policy]
    assert in_a_thread(lambda: (set_policy(policy), os.sched_getscheduler(0))) == (True, number)


@needs_slices
def test_a_slice_outlives_a_change_of_class() -> None:
    assert in_a_thread(lambda: set_slice(300_000) and set_policy("idle") and slice_ns()) == 300_000


def test_a_machine_whose_call_is_not_known_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    assert in_a_thread(lambda: (set_slice(300_000), slice_ns())) == (False, 0)
