"""Reports of a trainer: rates and lags since the last one, and totals; the clock is the test's."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.counts import Reports, TrainerCounts
from tests.learning.made import trainer_settings
from tests.processes.told import Told

METRICS = {"loss": 0.5, "gradient_norm": 2.0}


class Scene:
    """Reports of a trainer that began at 100 s, of environments that skip four frames a step."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        numbers = {"frames_per_step": 4, "report_every_s": 2.0, "began_s": 90.0}
        account = Account(Segment.create(folder / "account", account_fields()))
        self.counts, self.control = TrainerCounts(account, Episodes()), Told()
        self.in_flight = 0
        settings = msgspec.structs.replace(trainer_settings(), **numbers)
        self.collected = {"statistics_rows_made": 20, "statistics_rows_needed": 30}
        self.reports = Reports(settings, self.control, self.counts, lambda: self.in_flight, lambda: self.collected)
        self.counts.env_steps = account.steps.used = 1000  # of an earlier life
        self.reports.begin()

    def learn(self, steps: int, lag: int) -> None:
        self.counts.env_steps += steps
        self.counts.updates += 1
        self.counts.account.steps.used += steps
        self.reports.note_learned(METRICS, np.full(steps, lag))

    def report(self, at_s: float) -> dict[str, float]:
        self.now_s = at_s
        self.reports.send({})
        return self.control.rows[-1]

    def wait(self, at_s: float, made: int, complete: int = 64) -> list[dict[str, float]]:
        """Wait for a rollout of which some steps are made; returns the rows that are sent."""
        self.now_s, self.in_flight, before = at_s, made, len(self.control.rows)
        self.reports.send_waiting(lambda: (made, complete))
        return self.control.rows[before:]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_rates_are_of_the_time_since_the_last_report(scene: Scene) -> None:
    scene.learn(60, lag=0)
    assert scene.report(102.0)["env_steps_per_s"] == 30.0
    scene.learn(10, lag=0)
    row = scene.report(107.0)
    assert (row["env_steps_per_s"], row["frames_per_s"]) == (2.0, 8.0)


def test_steps_dropped_before_a_restart_of_the_trainer_are_in_no_rate(scene: Scene) -> None:
    scene.counts.account.steps.dropped["rolled_back"] += 5000
    scene.in_flight = 60  # a rollout is complete, and so is learned from without waiting
    scene.reports.begin()
    scene.in_flight = 0
    scene.learn(60, lag=0)
    assert scene.report(102.0)["steps_made_per_s"] == 0.0
    scene.learn(60, lag=0)
    assert scene.report(104.0)["steps_made_per_s"] == 30.0


def test_lags_are_of_the_steps_since_the_last_report(scene: Scene) -> None:
    scene.learn(6, lag=2)
    assert scene.report(102.0)["policy_lag_max"] == 2
    assert not scene.reports.pending
    scene.learn(6, lag=1)
    assert scene.reports.pending
    assert scene.report(104.0)["policy_lag_max"] == 1


def test_counts_are_totals_and_frames_are_steps_of_the_game(scene: Scene) -> None:
    scene.learn(60, lag=0)
    scene.counts.account.steps.dropped["stale"] += 7
    row = scene.report(103.5)
    assert {name: row[name] for name in ("time_s", "env_steps", "frames", "updates", "steps_used")} == {
        "time_s": 13.5,
        "env_steps": 1060,
        "frames": 4240,
        "updates": 1,
        "steps_used": 1060,
    }
    assert (row["steps_dropped"], row["dropped_stale"], row["dropped_no_room"]) == (7, 7, 0)
    assert (row["loss"], row["episodes"], row["episodes_in_mean"], row["episode_return_mean"]) == (0.5, 0, 0, None)


def test_a_report_is_due_report_every_s_seconds_after_the_last(scene: Scene) -> None:
    for now_s, due in ((101.9, False), (102.0, True)):
        scene.now_s = now_s
        assert scene.reports.due is due
    scene.report(103.0)
    scene.now_s = 104.9
    assert not scene.reports.due


def test_steps_of_the_first_rollout_are_reported_after_a_second_and_then_periodically(scene: Scene) -> None:
    assert scene.wait(130.0, 0, complete=0) == [], "no simulator plays yet"
    assert scene.wait(140.0, 0) + scene.wait(140.9, 4) == []
    (row,) = scene.wait(141.0, 4)
    assert (row["update_steps_made"], row["update_steps"], row["update_in_s"]) == (4, 64, 15.0)
    assert (row["steps_made"], row["steps_used"], row["steps_made_per_s"]) == (1004, 1000, 4.0)
    assert "env_steps_per_s" not in row and "loss" not in row
    assert scene.wait(142.9, 8) == []
    assert len(scene.wait(143.0, 12)) == 1


def test_a_rollout_without_any_step_is_reported_after_two_seconds(scene: Scene) -> None:
    assert scene.wait(140.0, 0) + scene.wait(141.9, 0) == []
    (row,) = scene.wait(142.0, 0)
    assert (row["update_steps_made"], row["steps_made_per_s"]) == (0, 0.0) and "update_in_s" not in row


def test_nothing_is_reported_between_updates_that_are_more_frequent_than_reports(scene: Scene) -> None:
    scene.wait(101.0, 0)
    for second in range(102, 110):
        scene.learn(64, lag=0)
        assert scene.wait(second + 0.9, 60) == []
    scene.in_flight = 0
    assert scene.report(110.0)["steps_made_per_s"] == 64 * 8 / 9
    (row,) = scene.wait(112.0, 8)
    assert row["env_steps_per_s"] == 64 * 8 / 10, "the rate of the report before"
    assert row["steps_made_per_s"] == 4.0


def test_reports_have_the_progress_of_statistics_until_learning_begins(scene: Scene) -> None:
    scene.learn(0, lag=0)
    assert scene.report(102.0)["statistics_rows_made"] == 20
    scene.wait(103.0, 0)
    (waiting,) = scene.wait(106.0, 4)
    assert waiting["statistics_rows_needed"] == 30
    scene.collected = {}
    assert "statistics_rows_needed" not in scene.report(108.0)
