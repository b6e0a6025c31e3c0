"""Runs are found by folder, name and beginning of a name; a run is alive only while its own supervisor is."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launch.errors import RunError
from launch.runs import find
from launch.runs.jsonl import Lines
from launch.runs.lives import find_attached
from tests.launch.runs.folders import make_run, me


@pytest.fixture(autouse=True)
def runs(empty_folder: Path) -> Path:
    """The folder of runs in the working directory."""
    return empty_folder / find.RUNS


def test_a_run_is_found_by_folder_name_and_beginning(runs: Path) -> None:
    pong = make_run(runs, "pong-20260101-000000")
    make_run(runs, "breakout-20260101-000000")
    for word in (str(pong), "pong-20260101-000000", "pong", "p"):
        assert find.find(word).path == pong


def test_an_exact_name_wins_over_longer_ones(runs: Path) -> None:
    exact = make_run(runs, "pong")
    make_run(runs, "pong-again")
    assert find.find("pong").path == exact


def test_the_name_in_the_topology_wins_over_longer_names(runs: Path) -> None:
    """Without --run-dir a folder's name is the name of the run and the time of its start."""
    exact = make_run(runs, "pong-20260101-000000", age_s=9)
    make_run(runs, "pong-fast-20260102-000000")
    assert find.find("pong").path == exact
    assert [run.path for run in find.find_all(["pong"])[0]] == [exact]
    again = make_run(runs, "pong-20260103-000000")
    assert [run.path for run in find.find_all(["pong"])[0]] == [exact, again]
    with pytest.raises(
        RunError, match="2 runs are named 'pong'; write the time too: one of pong-20260103-000000, pong-2026"
    ):
        find.find("pong")


def test_two_runs_of_one_name_are_named_by_their_folders(runs: Path) -> None:
    """Sweeps in two folders, for example, may have runs of the same name."""
    folders = [make_run(runs / sweep, "lr-000-s1", age_s=age) for sweep, age in (("a", 9), ("b", 1))]
    with pytest.raises(RunError) as raised:
        find.find("lr-000-s1")
    assert (
        str(raised.value)
        == f"'lr-000-s1' means 2 runs, all named lr-000-s1; write the folder of one: {folders[1]}, {folders[0]}"
    )


def test_newest_means_the_newest_run_unless_a_run_has_this_name(runs: Path) -> None:
    make_run(runs, "old", age_s=9)
    new = make_run(runs, "new", age_s=1)
    assert find.find("newest").path == new
    assert [run.path for run in find.find_all(["newest"])[0]] == [new]
    named = make_run(runs, "newest", age_s=99)
    assert find.find("newest").path == named


def test_without_a_name_an_older_living_run_is_preferred_to_a_newer_ended_one(runs: Path) -> None:
    living = make_run(runs, "old", age_s=9, **me())
    ended = make_run(runs, "new", age_s=1)
    assert find.find("newest").path == ended
    assert find.find(None).path == living


def test_an_ambiguous_beginning_names_the_runs(runs: Path) -> None:
    make_run(runs, "pong-1")
    make_run(runs, "pong-2")
    with pytest.raises(RunError, match="2 runs have names that begin with .*; write more of one name: pong-2, pong-1"):
        find.find("pong")


def test_find_all_gives_every_run_whose_name_begins_with_the_word(runs: Path) -> None:
    for name in ("pong-1", "pong-2", "catch-1"):
        make_run(runs, name)
    found, _ = find.find_all(["pong", "c"])
    assert sorted(run.name for run in found) == ["catch-1", "pong-1", "pong-2"]
    assert found[-1].name == "catch-1"
    with pytest.raises(RunError, match="'zong' is neither a run folder nor"):
        find.find_all(["pong", "zong"])


def test_without_a_name_the_newest_run_is_meant(runs: Path) -> None:
    make_run(runs, "a-new", age_s=10)
    make_run(runs, "b-old", age_s=20)
    assert find.find(None).name == "a-new"


def test_without_any_run_the_error_says_how_to_start_one(runs: Path) -> None:
    with pytest.raises(RunError, match="there are no runs in .*; start one with `actorlearn run TOPOLOGY`"):
        find.find(None)


def test_an_unknown_name_is_refused_with_the_names_of_existing_runs(runs: Path) -> None:
    make_run(runs, "pong-1")
    with pytest.raises(RunError, match="'zong' is neither a run folder nor .* pong-1"):
        find.find("zong")


def test_a_folder_without_a_run_is_read_as_none(tmp_path: Path) -> None:
    assert find.read(tmp_path) is None


def test_a_run_of_this_process_is_alive(tmp_path: Path) -> None:
    run = find.find(str(make_run(tmp_path, "pong", **me())))
    assert run.alive
    assert run.status == "running"


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"supervisor_pid": os.getpid()},
        {"supervisor_pid": os.getpid(), "supervisor_started": 1},
        {"supervisor_pid": "1", "supervisor_started": None},
        {"supervisor_pid": 2**22 + 1, "supervisor_started": None},
    ],
)
def test_a_reused_or_missing_process_id_is_not_alive(tmp_path: Path, meta: dict[str, Any]) -> None:
    run = find.find(str(make_run(tmp_path, "pong", **meta)))
    assert not run.alive
    assert run.status == "died"


def test_a_zombie_is_not_alive(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert find.start_time(child.pid) is None


def test_an_ended_run_has_the_status_of_its_summary(tmp_path: Path) -> None:
    path = make_run(tmp_path, "pong")
    (path / "summary.json").write_text('{"status": "finished"}')
    assert find.find(str(path)).status == "finished"


def test_a_dead_run_is_refused_where_a_living_one_is_needed(tmp_path: Path) -> None:
    path = make_run(tmp_path, "pong")
    with pytest.raises(RunError, match=r"pong is not alive \(died\); .* `actorlearn resume pong`"):
        find.find_living(str(path))


def test_without_a_name_the_only_living_run_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [find.RunFolder(make_run(tmp_path, name, **me()), me()) for name in ("one", "two")]
    for living, expected in (
        (found[:1], "one"),
        ([], "no run is alive"),
        (found, "2 runs are alive: name one of two, one"),
    ):
        monkeypatch.setattr(find, "living", lambda living=living: living)
        if len(living) == 1:
            assert find.find_living(None).name == expected
        else:
            with pytest.raises(RunError, match=expected):
                find.find_living(None)


def test_living_runs_are_found_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, dead = make_run(tmp_path / "far" / "away", "pong", **me()), make_run(tmp_path, "dead")
    shared = []
    for i, text in enumerate((str(here), str(dead), "relative", str(tmp_path / "nowhere"))):
        shared.append(tmp_path / f"shm-{i}")
        shared[-1].mkdir()
        (shared[-1] / "run").write_text(text + "\n")
    shared.append(tmp_path / "just-being-made")
    monkeypatch.setattr(find, "living_runs", lambda: shared)
    assert [run.path for run in find.living()] == [here]
    assert find.find("po").path == here


def test_complete_lines_of_a_file_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = Lines(path)
    assert list(lines.new()) == []
    assert lines.last() is None
    path.write_text('{"a": 1}\n{"a": 2}\n{"a":')
    assert list(lines.new()) == [{"a": 1}, {"a": 2}]
    assert list(lines.new()) == []
    path.write_text('{"a": 1}\n{"a": 2}\n')  # the cut line is removed before a resumed run writes on
    with path.open("a") as file:
        file.write('{"a": 3}\nnonsense\n[4]\n')
    assert list(lines.new()) == [{"a": 3}]
    assert lines.last() == {"a": 3}


def test_find_attached_lists_processes_that_the_last_life_attached_and_did_not_detach(tmp_path: Path) -> None:
    told = [
        ("spawned", "trainer", 0),
        ("attached", "simulator-2", 0),  # of an earlier life
        ("resumed", "", 0),
        ("spawned", "trainer", 0),
        ("attached", "simulator-2", 0),
        ("attached", "simulator-3", 0),
        ("attached", "simulator-4", 0),
        ("spawned", "trainer", 1),  # restarted in the same life
        ("detached", "simulator-3", 0),
        ("restarted", "simulator-4", 1),
        ("attached", "trainer-2", 0),
        ("attached", "simulator-5", 0, "with trainer-2"),
    ]
    path = tmp_path / "events.jsonl"
    assert find_attached(path) == []
    keys = ("kind", "process", "incarnation", "cause")
    lines = [json.dumps(dict(zip(keys, event, strict=False))) for event in told]
    path.write_text("\n".join(lines) + "\n")
    assert find_attached(path) == ["simulator-2", "simulator-4", "trainer-2"]
    path.write_text("\n".join(lines[:3]) + "\n")
    assert find_attached(path) == []


def test_runs_of_a_sweep_are_found_by_name(runs: Path) -> None:
    inside = make_run(runs / "rates", "rates-000-s1")
    (runs / "rates" / "rates-000-s1.log").touch()
    deeper = make_run(inside / "films", "rates-of-nobody")
    assert find.find("rates").path == inside
    assert deeper not in [run.path for run in find.all_runs()]


@pytest.mark.parametrize("word", ["cart-2", "cart", "runs/cart-2"])
def test_a_command_to_a_run_that_is_starting_is_refused_with_this_reason(word: str, runs: Path) -> None:
    folder = runs / "cart-2"
    folder.mkdir(parents=True)
    with pytest.raises(RunError, match="there are no runs in runs/"):
        find.find(word)
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(RunError, match="^cart-2 is starting: .* takes no commands yet; try again in a few seconds"):
            find.find_living(word)
    finally:
        os.close(handle)
