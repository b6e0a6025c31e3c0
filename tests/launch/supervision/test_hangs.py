"""The hang detector on heartbeats and times that the test sets, without a clock or processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from actorlearn.wire.identity import ProcessId
from launch.machine.activity import Activity
from launch.plan.plan import Start
from launch.supervision import events as ev
from launch.supervision.hangs import STACK_S, HangDetector, LivingProcess
from launch.topology.load import parse
from launch.topology.schema import Limits

RUNNING, DISK, WAITING, STOPPED = Activity.RUNNING, Activity.DISK, Activity.WAITING, Activity.STOPPED
LIMITS = {"simulator": Limits(10.0, 100.0, "supervision.simulator_")}
START_S = 40.0
ROW = 3
ONE = LivingProcess(Start(ProcessId("simulator"), ROW), 100, starting=False)
STARTING = replace(ONE, starting=True)


class Scene:
    """A process whose heartbeats and activity the test sets, watched ten times a second."""

    def __init__(self) -> None:
        self.beat_ns = np.zeros((8, 8), np.int64)
        self.doing = WAITING
        self.detector = HangDetector(self.beat_ns, LIMITS, START_S, lambda pid: self)
        self.turns = 0
        self.looks = 0
        self.beat()

    @property
    def now_s(self) -> float:
        return self.turns / 10

    def look(self, _now_s: float) -> Activity:
        self.looks += 1
        return self.doing

    def beat(self) -> None:
        self.beat_ns[ROW, 0] += 1

    def pass_by(
        self, seconds: float, beating: bool = False, watched: LivingProcess = ONE
    ) -> list[tuple[float, ev.Event]]:
        """Let these seconds pass; return the detector's events with their times."""
        told: list[tuple[float, ev.Event]] = []
        for _ in range(round(seconds * 10)):
            told += [(self.now_s, event) for event in self.detector.look([watched], self.now_s)]
            self.turns += 1
            if beating:
                self.beat()
        return told


def silences(told: Iterable[tuple[float, ev.Event]]) -> list[tuple[float, bool]]:
    return [(when_s, event.hangs) for when_s, event in told if isinstance(event, ev.Silent)]


def first_stalled(told: Iterable[tuple[float, ev.Event]]) -> float | None:
    return next((when_s for when_s, event in told if isinstance(event, ev.Stalled)), None)


def test_a_process_that_beats_is_never_silent_and_its_activity_is_never_read() -> None:
    scene = Scene()
    assert scene.pass_by(300, beating=True) == []
    assert scene.looks == 0


@pytest.mark.parametrize("doing", [WAITING, STOPPED])
def test_a_process_that_neither_beats_nor_works_hangs_after_hang_s_and_shows_its_stack(doing: Activity) -> None:
    scene = Scene()
    scene.doing = doing
    told = scene.pass_by(20)
    assert silences(told) == [(10.1, True)]
    assert first_stalled(told) == pytest.approx(10.1 + STACK_S)
    silent = told[0][1]
    assert silent.why == f"{doing}; the limit is supervision.simulator_hang_s: 10"
    assert not silent.stack
    scene.beat()
    assert [silent.stack for _, silent in scene.pass_by(10.3)] == [
        doing is WAITING
    ]  # a stopped process cannot show its stack


@pytest.mark.parametrize("doing", [RUNNING, DISK])
def test_a_process_that_works_without_beats_is_slow_and_hangs_only_after_spin_s(doing: Activity) -> None:
    scene = Scene()
    scene.doing = doing
    told = scene.pass_by(99)
    assert silences(told) == [(10.1, False), (20.3, False), (40.7, False), (81.5, False)]
    assert first_stalled(told) is None
    assert told[0][1].why == f"{doing}; the limit is supervision.simulator_spin_s: 100"
    told = scene.pass_by(5)
    assert silences(told) == [(100.1, True)]
    assert first_stalled(told) == pytest.approx(100.1 + STACK_S)


def test_the_limit_begins_when_work_ends() -> None:
    scene = Scene()
    scene.doing = RUNNING
    assert silences(scene.pass_by(50))[-1] == (40.7, False)
    scene.doing = WAITING
    told = scene.pass_by(20)
    assert silences(told)[0] == (pytest.approx(60.0, abs=0.5), True)
    assert first_stalled(told) == pytest.approx(60.0 + STACK_S, abs=0.5)


def test_a_heartbeat_at_the_last_moment_prevents_a_stall() -> None:
    scene = Scene()
    told = scene.pass_by(10.3)
    assert silences(told) == [(10.1, True)]
    scene.beat()
    assert scene.pass_by(10) == []
    assert first_stalled(scene.pass_by(2)) is not None


def test_work_at_the_last_moment_prevents_a_stall() -> None:
    scene = Scene()
    assert silences(scene.pass_by(10.3)) == [(10.1, True)]
    scene.doing = RUNNING
    assert first_stalled(scene.pass_by(20)) is None


def test_before_its_hello_a_process_has_the_limit_start_s_and_its_beats_count() -> None:
    scene = Scene()
    assert scene.pass_by(100, beating=True, watched=STARTING) == []
    told = scene.pass_by(60, watched=STARTING)
    assert silences(told) == [(140.1, True)]
    assert told[0][1].why == "the process waits; the limit is supervision.start_s: 40"
    assert first_stalled(told) == pytest.approx(140.1 + STACK_S)


def test_only_a_process_that_has_beaten_is_asked_for_its_stack() -> None:
    scene = Scene()
    assert [event.stack for _, event in scene.pass_by(40.3, watched=STARTING)] == [False]
    scene.beat()
    assert [event.stack for _, event in scene.pass_by(40.3, watched=STARTING)] == [True]


def test_a_new_incarnation_begins_with_a_fresh_allowance() -> None:
    scene = Scene()
    assert first_stalled(scene.pass_by(20)) is not None
    again = replace(ONE, start=Start(ProcessId("simulator", 0).again(1), ROW))
    assert first_stalled(scene.pass_by(10, watched=again)) is None
    assert first_stalled(scene.pass_by(1, watched=again)) is not None


def test_gaps_of_the_supervisor_neither_add_to_a_silence_nor_reset_it() -> None:
    scene = Scene()
    scene.pass_by(9)
    for _ in range(10):
        scene.turns += 10
        scene.detector.forgive(1.0)
        assert scene.pass_by(0.1) == []
    assert first_stalled(scene.pass_by(1)) == pytest.approx(20.1 + STACK_S)


def test_a_process_that_is_silent_right_after_a_gap_has_a_moment_to_beat() -> None:
    scene = Scene()
    assert silences(scene.pass_by(10.3)) == [(10.1, True)]
    scene.turns += 10
    scene.detector.forgive(1.0)
    told = scene.pass_by(0.1)
    assert silences(told) == [(11.3, True)] and first_stalled(told) is None
    scene.beat()
    assert scene.pass_by(5) == []


def test_the_report_of_a_slow_evaluator_names_evaluator_scheduling() -> None:
    topology = parse("env: {id: CartPole-v1}")
    scene = Scene()
    scene.doing = RUNNING
    evaluator = replace(ONE, start=Start(ProcessId("evaluator"), ROW))
    scene.detector = HangDetector(scene.beat_ns, topology.limits, START_S, lambda pid: scene)
    (_, slow), *_ = scene.pass_by(topology.supervision.evaluator_hang_s + 1, watched=evaluator)
    assert isinstance(slow, ev.Silent) and not slow.hangs
    assert slow.why.endswith("; evaluator.scheduling: idle leaves it only idle cores; batch gives it a share")
    normal = parse("env: {id: CartPole-v1}", ["evaluator.count=1", "evaluator.scheduling=batch"])
    assert not any(limits.note for limits in normal.limits.values())
