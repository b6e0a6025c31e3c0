"""The outcome of a run as its folder shows it, and folders that continue from the checkpoints of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launch.sweeps.folders import RunOutcome, go_on_from, read_outcome, read_points
from tests.launch.runs.folders import write_lines, write_run

SCORE = "episode_return_mean"


def folder(path: Path, steps: list[int], saved: list[int], summary: dict[str, Any] | None = None) -> Path:
    (path / "checkpoints").mkdir(parents=True)
    for steps_saved in saved:
        (path / "checkpoints" / f"{steps_saved:012}").mkdir()
        (path / "checkpoints" / f"{steps_saved:012}" / "manifest.json").write_text(f"{steps_saved}")
    rows = [{"env_steps": at, "time_s": 1.0, SCORE: at / 100} for at in steps]
    return write_run(path, topology="total_steps: 100\n", rows=rows, summary=summary).path


def test_the_outcome_is_that_of_the_summary(tmp_path: Path) -> None:
    summary = {"status": "finished", "env_steps": 104, "wall_time_s": 2.5, SCORE: 0.75}
    found = read_outcome(folder(tmp_path / "run", [50, 104], [0, 104], summary), SCORE, 100)
    assert found == RunOutcome("finished", 104, 2.5, 0.75)
    failed = {"status": "failed", "env_steps": 60, "error": "trainer gave up", SCORE: None}
    assert read_outcome(folder(tmp_path / "failed", [50], [0], failed), SCORE, 100) == RunOutcome(
        "failed", 60, 0.0, 0.5, "trainer gave up"
    )


def test_a_run_without_a_summary_died_unless_its_last_checkpoint_has_all_steps(tmp_path: Path) -> None:
    assert read_outcome(folder(tmp_path / "half", [50], [0, 40]), SCORE, 100) == RunOutcome("died", 40, 0.0, 0.5)
    assert read_outcome(folder(tmp_path / "whole", [50, 104], [0, 104]), SCORE, 100) == RunOutcome(
        "finished", 104, 0.0, 1.04
    )
    part = folder(tmp_path / "part", [50], [0, 52])
    assert read_outcome(part, SCORE, 50).status == "finished"
    assert read_outcome(tmp_path / "none", SCORE, 100) == RunOutcome("")


@pytest.mark.parametrize(
    ("events", "status"),
    [
        (["scoring", 104], "finished"),
        ([104, "scoring"], "finished"),  # evaluated while the trainer saved
        ([50, "scoring"], "died"),
        (["scoring", None], "died"),  # an event whose steps cannot be read
        (["scoring", 50], "died"),  # an evaluation that was in progress when training ended
        (["scoring", 104, "resumed", 50], "died"),
        (["scoring", "resumed", "scoring", 104], "finished"),
    ],
)
def test_a_run_that_was_killed_before_its_final_weights_were_evaluated_is_continued(
    events: list[str | int | None], status: str, tmp_path: Path
) -> None:
    """Events by their kind; evaluations by the environment steps of the weights."""
    run = folder(tmp_path / "run", [50, 104], [0, 104])
    told = [{"kind": kind} if isinstance(kind, str) else {"kind": "evaluated", "env_steps": kind} for kind in events]
    write_lines(run / "events.jsonl", told)
    assert read_outcome(run, "eval_return_mean", 100).status == status
    assert read_outcome(run, SCORE, 100).status == "finished", "a score of training games is there"


@pytest.mark.parametrize("unscored", [False, True])
def test_a_run_that_was_stopped_before_its_final_weights_were_evaluated_is_continued(
    unscored: bool, tmp_path: Path
) -> None:
    summary = {"status": "finished", "env_steps": 104, "eval_return_mean": 1.0, "unscored": unscored}
    run = folder(tmp_path / "run", [50, 104], [0, 104], summary)
    assert read_outcome(run, "eval_return_mean", 100).status == ("stopped" if unscored else "finished")
    assert read_outcome(run, SCORE, 100).status == "finished"


def test_a_curve_has_the_points_that_are_written_so_far(tmp_path: Path) -> None:
    assert read_points(folder(tmp_path / "run", [50, 104], []), SCORE) == [(50, 0.5), (104, 1.04)]
    assert read_points(folder(tmp_path / "new", [], []), SCORE) == [] == read_points(tmp_path / "none", SCORE)


def test_a_folder_that_continues_a_run_keeps_checkpoints_that_the_run_removes(tmp_path: Path) -> None:
    parent = folder(tmp_path / "parent", [50], [0, 50], {"status": "finished"})
    (tmp_path / ".child.new").mkdir()  # left by a sweep that was killed
    (tmp_path / ".child.new" / "half").touch()
    go_on_from(parent, tmp_path / "child")
    child = tmp_path / "child"
    assert sorted(path.name for path in child.iterdir()) == ["checkpoints", "topology.yaml"]
    assert read_outcome(child, SCORE, 100) == RunOutcome("died", 50, 0.0, None)
    (parent / "checkpoints" / f"{50:012}" / "manifest.json").unlink()
    assert (child / "checkpoints" / f"{50:012}" / "manifest.json").read_text() == "50"
    assert not (tmp_path / ".child.new").exists()


def test_checkpoints_are_copied_where_files_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    parent = folder(tmp_path / "parent", [50], [50])
    go_on_from(parent, tmp_path / "child")
    assert (tmp_path / "child" / "checkpoints" / f"{50:012}" / "manifest.json").read_text() == "50"
