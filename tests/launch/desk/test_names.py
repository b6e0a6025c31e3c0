"""Names of groups, and what tells runs of one name apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.desk.names import group_names, shortest_parts
from launch.desk.stream import Overview
from launch.desk.watched import WatchedRuns
from launch.runs import find
from tests.launch.desk.folders import row, write_run


@pytest.mark.parametrize(
    "folders, parts",
    [
        (["/r/a", "/r/b"], ["a", "b"]),
        (["/r/x/seeds", "/r/y/seeds"], ["x", "y"]),
        (["/r/x/a", "/r/y/a", "/r/b"], ["x/a", "y/a", "b"]),
        (["/runs", "/runs/sweep"], ["runs", "sweep"]),
        (["/runs", "/a/runs"], ["/runs", "a/runs"]),
        (["/runs/runs", "/runs"], ["runs/runs", "/runs"]),
        (["/", "/a"], ["/", "a"]),
        (["/r/a"], [""]),
        (["/r/a", "/r/a"], ["", ""]),
        ([], []),
    ],
)
def test_folders_of_one_name_are_told_apart_by_their_shortest_part(folders: list[str], parts: list[str]) -> None:
    assert shortest_parts([("pong", Path(folder)) for folder in folders]) == parts


def test_a_name_that_occurs_once_has_no_part() -> None:
    named = [("pong", Path("/r/a")), ("catch", Path("/r/a")), ("pong", Path("/r/b\x1b"))]
    assert shortest_parts(named) == ["a", "", "b\N{REPLACEMENT CHARACTER}"]


def test_runs_and_groups_of_one_name_are_shown_with_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "living", list)
    for place, horizon in (("first", 5), ("second", 9)):
        write_run(tmp_path / place / "pong", [row(1)], horizon=horizon)
    write_run(tmp_path / "first" / "catch", [row(1)], horizon=7)
    for seed in (1, 2):
        write_run(tmp_path / f"pong-{seed}" / "pong", [row(1)], seed=seed, horizon=8)
    told = Overview(WatchedRuns(tmp_path)).changed()
    places = sorted((run["name"], run["place"]) for run in told["runs"])
    assert places == [("catch", ""), *(("pong", place) for place in ("first", "pong-1", "pong-2", "second"))]
    groups = {(group["name"], group["place"]) for group in told["groups"]["groups"]}
    assert groups == {("pong", "first"), ("pong", "second"), ("catch", ""), ("made", "")}


def test_the_name_of_a_group_has_six_digits_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "living", list)
    for rate in ("0.00028374198234712", "0.001"):
        for seed in (1, 2):
            run = write_run(tmp_path / f"{rate}-{seed}", [row(1)], seed=seed)
            topology = run.path / "topology.yaml"
            topology.write_text(f"{topology.read_text()}optimizer: {{learning_rate: {rate}}}\n")
    runs = WatchedRuns(tmp_path)
    runs.look()
    names = sorted(group_names(runs.groups))
    assert names == ["made optimizer.learning_rate=0.000283742", "made optimizer.learning_rate=0.001"]
