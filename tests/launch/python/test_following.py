"""Callbacks get each report, evaluation and checkpoint once, in the order of their times."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import actorlearn
from launch.python import child
from launch.python.following import CHECKPOINT, EVALUATION, REPORT, Follower, refuse_callbacks
from launch.runs.find import RunFolder
from tests.launch.runs.folders import append_lines, make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    append_lines(tmp_path / "metrics.jsonl", {"time_s": 2.0, "env_steps": 10}, {"time_s": 4.0, "env_steps": 20})
    saved = {"time_s": 3.0, "kind": "saved", "process": "trainer", "env_steps": 15, "path": "x"}
    evaluated = {"time_s": 1.0, "kind": "evaluated", "mean": 2.5, "returns": [2.0, 3.0], "env_steps": 5}
    append_lines(tmp_path / "events.jsonl", evaluated, {"time_s": 1.5, "kind": "spawned"}, saved)
    return RunFolder(tmp_path, {})


def told(follower: Follower, answer: object = None) -> tuple[list[tuple[str, Any]], bool]:
    heard: list[tuple[str, Any]] = []

    def hear(kind: str) -> Any:
        return lambda caller, values: (heard.append((kind, values["env_steps"])), answer)[1]

    kinds = (REPORT, EVALUATION, CHECKPOINT)
    return heard, follower.look("caller", {kind: hear(kind) for kind in kinds})


def test_callbacks_get_each_report_evaluation_and_checkpoint_once_in_the_order_of_time(run: RunFolder) -> None:
    follower = Follower(run, from_start=True)
    expected = [(EVALUATION, 5), (REPORT, 10), (CHECKPOINT, 15), (REPORT, 20)]
    assert told(follower) == (expected, True)
    assert told(follower) == ([], True)
    append_lines(run.path / "metrics.jsonl", {"time_s": 5.0, "env_steps": 30})
    assert told(follower) == ([(REPORT, 30)], True)
    assert follower.view.env_steps == 30


def test_a_file_that_was_removed_and_made_again_is_read_from_its_beginning(run: RunFolder) -> None:
    follower = Follower(run, from_start=True)
    told(follower)
    (run.path / "metrics.jsonl").unlink()
    append_lines(run.path / "metrics.jsonl", {"time_s": 5.0, "env_steps": 30})
    assert told(follower) == ([(REPORT, 30)], True)


def test_callbacks_of_an_existing_run_get_only_new_reports(run: RunFolder) -> None:
    follower = Follower(run, from_start=False)
    assert follower.view.env_steps == 20
    assert told(follower) == ([], True)


def test_a_run_resumed_with_more_steps_shows_its_progress_to_the_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path, "cart-1")
    (folder / "topology.yaml").write_text("env: {id: CartPole-v1}\ntotal_steps: 1_000\n")
    (folder / "checkpoints" / "000000001000").mkdir(parents=True)
    append_lines(folder / "metrics.jsonl", {"time_s": 2.0, "env_steps": 1_000})

    def start(*_: Any, **__: Any) -> tuple[RunFolder, None]:
        (folder / "topology.yaml").write_text("env: {id: CartPole-v1}\ntotal_steps: 4_000\n")
        append_lines(folder / "metrics.jsonl", {"time_s": 3.0, "env_steps": 2_000})
        return RunFolder(folder, {}), None

    monkeypatch.setattr(child, "start", start)
    told: list[int] = []
    actorlearn.open(folder).resume(total_steps=4_000).wait(
        progress=True, on_report=lambda _, row: told.append(row["env_steps"])
    )
    assert told == [2_000]
    assert capsys.readouterr().out.startswith("cart-1: 2,000 of 4,000 steps · ")


@pytest.mark.parametrize(("answer", "goes_on"), [(False, False), (None, True), (0, True), (True, True)])
def test_only_a_callback_that_returns_false_stops_the_run(run: RunFolder, answer: object, goes_on: bool) -> None:
    heard, went_on = told(Follower(run, from_start=True), answer)
    assert len(heard) == 4 and went_on is goes_on


def one(report: Any) -> None:
    del report


async def later(run: Any, report: Any) -> None:
    del run, report


class Adding:
    def __call__(self, run: Any, report: Any, *more: Any) -> None: ...

    def on_step(self, run: Any, report: Any, which: str) -> None: ...


@pytest.mark.parametrize(
    ("name", "call", "says"),
    [
        (
            "on_report",
            5,
            "on_report=5: is not a function; the function is called with two arguments, the run and a dict: write def",
        ),
        ("on_evaluation", one, r"on_evaluation: one takes .* write def one\(run, evaluation\)$"),
        ("on_checkpoint", lambda: None, r"on_checkpoint: call takes \(\), but .* write def call\(run, checkpoint\)$"),
        ("on_report", Adding().on_step, r"on_report: on_step takes \(run: .*, which: .*\)"),
        ("on_report", Adding, r"on_report: Adding takes \(\), but"),
        ("on_report", later, "on_report: later is a coroutine or generator function, so calling it runs nothing"),
    ],
)
def test_a_callback_that_cannot_be_called_is_refused_before_anything_starts(
    name: str, call: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=says):
        actorlearn.train("CartPole-v1", progress=False, **{name: call})
    assert [*tmp_path.iterdir()] == []


def test_any_callable_that_takes_two_arguments_is_accepted() -> None:
    calls = (print, max, Adding(), lambda run, report: None, lambda *given: None, partial(Adding().on_step, which="x"))
    for call in calls:
        refuse_callbacks({REPORT: call, EVALUATION: None})


def test_without_callbacks_the_newest_report_is_known(run: RunFolder) -> None:
    follower = Follower(run, from_start=True)
    assert follower.look(None, {REPORT: None}) and follower.view.env_steps == 20
