"""The view of a run from its files and its supervisor, also if files are missing or damaged."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from launch.errors import FailedError
from launch.runs import find, view
from launch.runs.find import RunFolder
from launch.runs.view import EVENTS_KEPT, RunReader, RunView, glance, identify
from tests.launch.runs.folders import append_lines, make_run, me, write_run

ROWS = [
    {"time_s": 2.0 * n, "env_steps": 40 * n, "env_steps_per_s": 20.0, "episode_return_mean": score, "loss": 0.5}
    for n, score in enumerate([None, 3.0, 1.0])
]
EVALUATED = {"kind": "evaluated", "process": "evaluator-0", "mean": 3.5, "returns": [3.0, 4.0], "env_steps": 40}
EVENTS: list[dict[str, Any]] = [
    {"kind": "chosen", "process": "", "key": "trainer.threads", "value": 1, "why": "small"},
    {"kind": "died", "process": "simulator-1", "cause": "killed by signal 9"},
    {**EVALUATED, "policy_version": 3},
    {"kind": "saved", "process": "trainer", "env_steps": 80},
    {"kind": "finished", "process": ""},
]
SUMMARY = {"status": "finished", "wall_time_s": 61.0, "env_steps": 80, "env_steps_per_s": 1.5}


def folder(at: Path, **meta: Any) -> RunFolder:
    """A run of 80 steps of 100, saved by two learners."""
    return write_run(
        at,
        topology="name: pong\ntotal_steps: 100\nenv: {id: ALE/Pong-v5}\n",
        rows=ROWS,
        events=EVENTS,
        summary=SUMMARY,
        meta={"run_id": "abc", "version": "0.1.0", **meta},
        saved=("000000000080", "000000000000", "learner-1/000000000040"),
    )


def test_the_view_of_an_ended_run_has_all_its_data(tmp_path: Path) -> None:
    seen = RunReader(folder(tmp_path / "pong-1")).look()
    assert (seen.name, seen.env_id, seen.total_steps, seen.meta["run_id"]) == ("pong-1", "ALE/Pong-v5", 100, "abc")
    assert (seen.status, seen.has_ended, seen.elapsed_s, seen.processes) == ("finished", True, 61.0, ())
    assert (seen.row, seen.env_steps, seen.share_done, seen.best_return) == (ROWS[-1], 80, 0.8, 3.0)
    assert [event["kind"] for event in seen.events] == ["died", "evaluated", "saved", "finished"]
    assert (seen.alarm, seen.choices) == (EVENTS[1], (EVENTS[0],))
    assert [(one["mean"], one["episodes"], one["env_steps"]) for one in seen.evaluations] == [(3.5, 2, 40)]
    names = [str(path.relative_to(tmp_path / "pong-1" / "checkpoints")) for path in seen.checkpoints]
    assert names == ["000000000000", "learner-1/000000000040", "000000000080"]
    assert (seen.final("env_steps_per_s"), seen.final("loss")) == (1.5, 0.5)
    assert json.loads(json.dumps(seen.as_json()))["left_s"] is None


def test_a_resumed_run_has_no_best_mean_before_its_first_report(tmp_path: Path) -> None:
    changed = {"env.time_limit_steps": {"was": 0, "is": 9}}
    seen = RunReader(folder(tmp_path / "pong-1", resumed_at=40, changed=changed, earlier=[{}], **me())).look(False)
    assert (seen.status, seen.best_return, seen.trend) == ("running", None, ())


def test_a_look_adds_the_rows_written_since_the_last_look(tmp_path: Path) -> None:
    run = folder(tmp_path / "pong-1")
    reader = RunReader(run)
    before = reader.look()
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(ROWS[1] | {"env_steps": 90}) + "\n" + '{"env_steps": 95, "cut')
    assert reader.look().env_steps == 90
    assert before.env_steps == 80, "a view does not change"


def test_a_glance_has_the_newest_report_and_identify_has_only_the_topology(tmp_path: Path) -> None:
    run = folder(tmp_path / "pong-1")
    seen = glance(run)
    assert (seen.status, seen.row, seen.final("env_steps_per_s"), seen.events) == ("finished", ROWS[-1], 1.5, ())
    assert (identify(run).env_id, identify(run).row) == ("ALE/Pong-v5", {})


def test_a_damaged_file_hides_nothing_else(tmp_path: Path) -> None:
    run = folder(tmp_path / "pong-1")
    (run.path / "topology.yaml").write_text("env: &a [*a]\n")
    (run.path / "summary.json").write_text("[")
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('nonsense\n[4]\n{"env_steps": 88, "loss": "k", "episode_return_mean": 1e200, "mine": [[[[1]]]]}\n')
    seen = RunReader(run).look()
    assert (seen.env_id, seen.total_steps, seen.topology, seen.share_done, seen.left_s) == ("", None, {}, 0.0, None)
    assert (seen.status, seen.row, seen.summary) == ("died", {"env_steps": 88, "mine": [[[[1]]]]}, {})
    assert seen.evaluations and seen.checkpoints


def test_a_topology_of_an_older_version_is_shown(tmp_path: Path) -> None:
    run = folder(tmp_path / "pong-1")
    (run.path / "topology.yaml").write_text("total_steps: 7\nenv: {id: CartPole-v1}\nlearners: {round: 3}\n")
    assert (identify(run).total_steps, identify(run).env_id) == (7, "CartPole-v1")


def test_the_folder_of_a_run_that_has_just_begun_can_be_viewed(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("{}")
    run = find.read(tmp_path)
    assert run is not None
    seen = RunReader(run).look()
    assert (seen.status, seen.row, seen.events, seen.checkpoints, seen.elapsed_s) == ("died", {}, (), (), None)


def test_the_processes_of_a_living_run_are_those_that_its_supervisor_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = [[{"name": "trainer", "busy": "very", "pid": 7}, "nonsense"], None, []]

    def ask(*_: Any, **__: Any) -> Any:
        if (processes := told.pop(0)) is None:
            raise FailedError("busy")
        return type("Reply", (), {"data": {"processes": processes}})

    monkeypatch.setattr(view, "ask", ask)
    run = folder(tmp_path / "pong-1", **me())
    os.utime(run.path / "metrics.jsonl")
    reader = RunReader(run)
    seen = reader.look()
    assert (seen.status, seen.summary, seen.processes) == ("running", {}, [{"name": "trainer", "pid": 7}])
    assert seen.elapsed_s is not None and 4.0 <= seen.elapsed_s < 60.0
    assert seen.left_s == pytest.approx(1.0)
    assert reader.look().processes == seen.processes, "the last answer stays while the supervisor is busy"
    assert reader.look().processes == []
    told.append(None)
    assert glance(run).processes is None


def test_the_time_between_two_lives_of_a_run_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest report of a run that was resumed just now may be a day old."""

    def ask(*_: Any, **__: Any) -> Any:
        raise FailedError("busy")

    now_s = 1_700_000_000.0
    monkeypatch.setattr(view, "ask", ask)
    monkeypatch.setattr(time, "time", lambda: now_s)
    started = datetime.fromtimestamp(now_s - 5.0, UTC).isoformat()
    for word, expected_s in ((started, 9.0), (None, 86_404.0), ("yesterday", 86_404.0)):
        run = folder(tmp_path / f"pong-{word}", **me(), started=word)
        os.utime(run.path / "metrics.jsonl", (now_s - 86_400.0,) * 2)
        assert glance(run).elapsed_s == expected_s
        os.utime(run.path / "metrics.jsonl", (now_s - 2.0,) * 2)  # a report of this life
        assert glance(run).elapsed_s == 6.0


def test_a_run_that_ends_during_a_look_is_shown_as_ended_only_with_its_last_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = folder(tmp_path / "pong-1", **me())

    def end(*_: Any, **__: Any) -> Any:
        """The run is writing its last files and does not answer."""
        append_lines(run.path / "metrics.jsonl", ROWS[1] | {"env_steps": 100})
        run.meta["supervisor_pid"] = 0
        raise FailedError("it ended before it answered")

    monkeypatch.setattr(view, "ask", end)
    reader = RunReader(run)
    looks = [reader.look(), reader.look()]
    assert [(seen.has_ended, seen.env_steps, bool(seen.summary)) for seen in looks] == [
        (False, 80, False),
        (True, 100, True),
    ]


def test_only_the_newest_events_are_kept() -> None:
    seen = RunView("pong")
    for number in range(2 * EVENTS_KEPT):
        seen = seen.with_event({"kind": "saved", "env_steps": number})
    assert [event["env_steps"] for event in seen.events] == list(range(EVENTS_KEPT, 2 * EVENTS_KEPT))


WAITING = {"updates": 0, "update_steps": 1024, "update_steps_made": 212, "update_in_s": 40.6, "steps_made_per_s": 20.0}


def test_the_line_about_the_first_update_has_its_time_and_the_steps_made() -> None:
    seen = RunView("slow").with_row({"env_steps": 0, **WAITING})
    assert seen.awaited == "first update in about 41 s: 212 of 1,024 steps made at 20 steps/s"
    assert seen.status == "running"
    none = {**WAITING, "update_steps_made": 0, "steps_made_per_s": 0.0, "update_in_s": None}
    assert RunView("slow").with_row(none).awaited == "first update: 0 of 1,024 steps made"
    assert seen.with_event({"kind": "stopped", "process": ""}).awaited == ""


def test_rate_and_time_left_follow_a_rollout_that_is_collected_more_slowly() -> None:
    seen = RunView("slow", total_steps=2000).with_row({"env_steps": 1000, "updates": 3, "env_steps_per_s": 100.0})
    assert seen.left_s == 10.0
    waiting = {**WAITING, "env_steps": 1000, "updates": 3, "env_steps_per_s": 100.0}
    slower = seen.with_row({**waiting, "steps_made_per_s": 2.0})
    assert slower.row["env_steps_per_s"] == 2.0
    assert slower.left_s is not None and 15.0 < slower.left_s < 50.0, "the rollout has taken 106 s so far"
    longer = slower.with_row({**waiting, "steps_made_per_s": 2.0, "update_steps_made": 2000})
    assert longer.left_s == pytest.approx(500.0, rel=0.02)
    faster = slower.with_row({**waiting, "steps_made_per_s": 300.0})
    assert (faster.row["env_steps_per_s"], faster.left_s) == (100.0, 10.0)
    assert slower.with_row({**waiting, "steps_made_per_s": 0.0}).left_s is None


@pytest.mark.parametrize("every_s", [2.0, 30.0])
def test_the_time_left_changes_smoothly_although_rates_do_not(every_s: float) -> None:
    """Once it jumped by a fifth with each report, because it used only the rate of the last ten seconds."""
    seen = RunView("uneven", total_steps=1_000_000)
    steps = 0
    left: list[float] = []
    for number in range(300):
        rate = 150.0 if number % 2 else 50.0
        steps += int(rate * every_s)
        seen = seen.with_row({"time_s": every_s * (number + 1), "env_steps": steps, "env_steps_per_s": rate})
        assert seen.left_s is not None
        left.append(seen.left_s)
    changes = [abs(after - (before - every_s)) / before for before, after in pairwise(left[20:])]
    assert max(changes) < (0.03 if every_s == 2.0 else 0.15)
    assert left[-1] == pytest.approx((1_000_000 - steps) / 100.0, rel=0.15)


def test_the_time_left_follows_a_rate_that_changes_for_good() -> None:
    seen = RunView("slower", total_steps=1_000_000)
    steps = 0
    for number in range(600):
        rate = 200 if number < 300 else 100
        steps += 2 * rate
        seen = seen.with_row({"time_s": 2.0 * (number + 1), "env_steps": steps, "env_steps_per_s": float(rate)})
        if number == 303:
            assert seen.left_s is not None and seen.left_s < 1.1 * (1_000_000 - steps) / 200
    assert seen.left_s == pytest.approx((1_000_000 - steps) / 100, rel=0.02)


@pytest.mark.parametrize(("first_s", "first_steps"), [(3600.0, 7_200_000), (60.0, 1000)])
def test_an_unusual_first_rate_has_only_the_weight_of_the_time_in_which_it_was_measured(
    first_s: float, first_steps: int
) -> None:
    """Once the rate after a resume or a slow start had a weight as if it had been measured for the whole run."""
    seen = RunView("resumed", total_steps=100_000_000)
    for number in range(31):
        rate = 2000.0 if number else 500.0
        steps = first_steps + 4000 * number
        seen = seen.with_row({"time_s": first_s + 2.0 * number, "env_steps": steps, "env_steps_per_s": rate})
    assert seen.left_s is not None and seen.left_s < 1.2 * (100_000_000 - steps) / 2000


def test_metrics_of_learning_stay_while_the_next_update_is_awaited() -> None:
    seen = RunView("slow").with_row({**ROWS[1], "updates": 3}).with_row({**WAITING, "updates": 3})
    assert seen.awaited.startswith("next update in about 41 s")
    assert seen.row["loss"] == 0.5
    after = seen.with_row({**ROWS[2], "updates": 4})
    assert (after.awaited, "update_steps" in after.row) == ("", False)


def test_values_that_a_newer_report_of_a_wait_lacks_are_no_longer_shown() -> None:
    """Learning is well again, and no step is made at present, so the time to the update is unknown."""
    seen = RunView("slow").with_row({"env_steps": 1, "health": ["the rewards are always 0"], **WAITING})
    still = {**WAITING, "env_steps": 2, "steps_made_per_s": 0.0}
    del still["update_in_s"]
    well = seen.with_row(still)
    assert "health" not in well.row
    assert well.awaited == "first update: 212 of 1,024 steps made"


COLLECTING = {"updates": 6, "statistics_rows_made": 4000, "statistics_rows_needed": 10_000}


def test_until_learning_begins_the_line_shows_the_statistics_of_observations() -> None:
    seen = RunView("walker").with_row({"env_steps": 0, **COLLECTING})
    assert seen.awaited == "collecting statistics of observations before learning begins: 4,000 of 10,000"
    assert seen.awaits_learning
    slow = seen.with_row({**WAITING, **COLLECTING, "statistics_rows_made": 5000})
    assert slow.awaited.endswith("5,000 of 10,000")
    waits = slow.with_row({**WAITING, "updates": 7})
    assert waits.awaited.startswith("next update in") and not waits.awaits_learning
    learns = seen.with_row({"env_steps": 64, "updates": 7})
    assert (learns.awaited, learns.awaits_learning) == ("", False)
    assert seen.with_event({"kind": "stopped", "process": ""}).awaited == ""


def test_share_and_time_left_are_measured_to_stop_at_steps() -> None:
    row = {"env_steps": 4000, "updates": 3, "env_steps_per_s": 100.0}
    seen = RunView("pong", total_steps=50_000_000, stop_at_steps=8000).with_row(row)
    assert (seen.share_done, seen.left_s, seen.end_steps) == (0.5, 40.0, 8000)
    assert RunView("pong", total_steps=5000, stop_at_steps=8000).with_row(row).left_s == 10.0
    assert RunView("pong", total_steps=5000).with_row(row).end_steps == 5000


def test_a_reader_takes_stop_at_steps_from_the_topology(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "pong")
    (folder / "topology.yaml").write_text("env: {id: ALE/Pong-v5}\ntotal_steps: 1_000_000\nstop_at_steps: 8_000\n")
    run = find.read(folder)
    assert run is not None and RunReader(run).look().end_steps == 8000
