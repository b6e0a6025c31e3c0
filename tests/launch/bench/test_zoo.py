"""The suite ``zoo``: its rows, its verdicts, and that a restarted command repeats no run that has ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from launch.bench import SuiteRequest, shipped, zoo
from launch.bench.zoo import RowFolder, ZooRow
from launch.errors import RunError
from launch.reports.statistics import Interval
from launch.runs import find
from launch.sweeps.history import Ended, RunId, Trial
from launch.sweeps.state import STATE_FILE
from launch.sweeps.state import read as read_history
from launch.topology.load import load
from tests.launch.asking import refused

CATCH = ZooRow("catch", "catch.yaml", "checkpoint.every_steps=1_000", 30_000, 0.5, 20, "greedy", "", "")
COMMAND = """
from pathlib import Path
from launch.bench import zoo
zoo.FILE = Path("zoo.csv")
from launch.cli import app
app(["bench", "zoo", "--seeds", "2", "--at-once", "1", "--json"], prog_name="actorlearn")
"""


@pytest.mark.parametrize("name", zoo.rows())
def test_each_row_is_a_valid_topology(name: str, tmp_path: Path) -> None:
    row, topology = zoo.rows()[name], tmp_path / "topology.yaml"
    topology.write_text(f"name: {name}\n")
    made = load(shipped(row.topology) if row.topology else str(topology), row.overrides)
    assert made.total_steps == row.steps and made.algorithm.name == name.rpartition("-")[2]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Interval(9, 8, 10), "above"),
        (Interval(9, 7, 10), "equal"),
        (Interval(9, 1, 7), "equal"),
        (Interval(6, 5, 6.9), "below"),
    ],
)
def test_the_verdict_follows_from_the_interval(found: Interval, said: str) -> None:
    assert zoo.verdict(found, 7.0) == said


def test_the_seeds_of_a_row_are_kept_when_more_are_asked_for(tmp_path: Path) -> None:
    folder = RowFolder(CATCH, tmp_path)
    folder.prepare("2", 1)
    first = folder.seeds
    folder.prepare("3", 4)
    assert len({*first}) == 2 and folder.seeds[:2] == first and len({*folder.seeds}) == 3
    folder.prepare("1", 4)
    assert len(folder.seeds) == 3
    folder.prepare(f"7,{first[1]}", 4)
    assert folder.seeds[3:] == [7]
    assert RowFolder(CATCH, tmp_path / "other").seeds == []
    written = msgspec.yaml.decode((tmp_path / "catch.yaml").read_bytes())
    assert written["overrides"]["total_steps"] == 30_000 and written["at_once"] == 4


def test_the_folder_of_a_row_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "living_runs", list)
    RowFolder(CATCH, tmp_path / "zoo" / "catch").prepare("2", 1)
    assert find.all_runs(tmp_path) == []


def ended_runs(folder: Path, scores: dict[int, float | None], also: tuple[int, ...] = ()) -> RowFolder:
    """Write a row of ended runs. ``scores``: of each seed, None if its run failed; ``also``: seeds without a run."""
    made = RowFolder(CATCH, folder)
    made.prepare(f"{','.join(map(str, [*scores, *also]))},", 1)
    (folder / "runs").mkdir()
    (folder / "evaluations").mkdir()
    history = json.dumps({"kind": "begun", "format": 1, "version": "1", "keys": {}, "topology": ""}).encode() + b"\n"
    facts: list[Trial | Ended] = [Trial(number=0, values={})]
    for seed, score in scores.items():
        ended = {"status": "failed", "error": "broken"} if score is None else {"status": "finished"}
        facts.append(msgspec.convert({"kind": "ended", "trial": 0, "seed": seed, "wall_time_s": 60.0, **ended}, Ended))
        if score is not None:
            (folder / "evaluations" / f"{seed}.json").write_text(json.dumps({"mean": score}))
    (folder / "runs" / STATE_FILE).write_bytes(history + b"".join(msgspec.json.encode(fact) + b"\n" for fact in facts))
    return made


def test_the_table_shows_the_worst_seed_and_every_failure(tmp_path: Path) -> None:
    good = ended_runs(tmp_path / "good", {1: 0.9, 2: 0.7, 3: 0.8})
    bad = ended_runs(tmp_path / "bad", {1: 0.9, 2: None})
    begun = ended_runs(tmp_path / "begun", {1: 0.9, 2: 0.8}, also=(3,))
    alone = ended_runs(tmp_path / "alone", {1: 0.9})
    none = RowFolder(msgspec.structs.replace(CATCH, row="none", needs="no_such_module"), tmp_path / "none")
    ours = ended_runs(tmp_path / "ours", {1: 0.9, 2: 0.7})
    ours.row = msgspec.structs.replace(CATCH, score=None)
    made = zoo.report([good, bad, begun, alone, none, ours])
    rows = [dict(zip(made.headings, row, strict=True)) for row in made.rows]
    assert rows[0] == {
        "row": "catch",
        "steps": "30,000",
        "seeds": "3 of 3",
        "IQM": "0.80 (0.70 to 0.90)",
        "worst": "0.70",
        "minutes": "1.0",
        "table": "0.5",
        "verdict": "above",
    }
    assert [row["verdict"] for row in rows[1:]] == ["failed", "-", "one seed", "-", "-"]
    assert (rows[5]["IQM"], rows[5]["worst"], rows[5]["table"]) == ("0.80 (0.70 to 0.90)", "0.70", "-")
    assert rows[3]["IQM"] == "0.90 (one run: no interval)"
    assert "catch: 2 of 3 runs have ended; the same command continues the others" in made.notes
    assert "catch, seed 2 failed: broken" in made.notes
    assert "none was not run: pip install 'no_such_module'" in made.notes
    assert "1 of 2 rows are at or above the table" in made.notes
    assert made.figures["zoo"][0]["runs"][1] == {"seed": 2, "score": 0.7, "minutes": 1.0, "error": ""}


def test_a_table_of_one_seed_each_has_no_verdicts(tmp_path: Path) -> None:
    made = zoo.report([ended_runs(tmp_path / "alone", {1: 0.9})])
    assert made.rows[0][-1] == "one seed"
    assert not [note for note in made.notes if "at or above the table" in note]


def test_unknown_rows_and_options_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=r"zoo has no row 'cartpole-pp'; did you mean cartpole-ppo\?"):
        zoo.zoo(SuiteRequest("", (), 1, 1.0, names=("cartpole-pp",)))
    assert "does not take --at-once" in refused("bench", "memory", "--at-once", "2")
    assert "does not take --score or --whole" in refused("bench", "zoo", "--score", "2")
    assert not [*tmp_path.iterdir()]


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_killed_or_interrupted_zoo_is_continued_and_does_each_run_once(tmp_path: Path) -> None:
    columns = ZooRow.__struct_fields__
    values = ",".join(str(getattr(CATCH, column)) for column in columns)
    (tmp_path / "zoo.csv").write_text(f"{','.join(columns)}\n{values}\n")
    state = tmp_path / "runs" / "zoo" / "catch" / "runs" / STATE_FILE
    interrupted = tmp_path / "stderr"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def starts() -> int:
        return state.read_text().count('"started"') if state.exists() else 0

    for number, sent in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), start=1):
        with interrupted.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND], cwd=tmp_path, env=environment, stderr=said, start_new_session=True
            )
        until_s = time.monotonic() + 60
        while starts() < number and process.poll() is None and time.monotonic() < until_s:
            time.sleep(0.05)
        time.sleep(1.0)
        if sent == signal.SIGINT:
            os.killpg(process.pid, sent)  # as a terminal does
        else:
            process.send_signal(sent)
        process.wait(60)
        with state.open() as file:  # the sweep of a killed command first saves its runs
            fcntl.flock(file, fcntl.LOCK_SH)
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["zoo"]
    assert len(row["runs"]) == 2
    assert {*read_history(state).ended} == {RunId(0, run["seed"]) for run in row["runs"]}
    assert "ends now" not in interrupted.read_text(), "a second signal ends runs without saving them"
    evaluated = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs/zoo/catch/evaluations").iterdir()}
    again = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert json.loads(again.stdout)["zoo"] == json.loads(done.stdout)["zoo"]
    assert evaluated == {path: path.stat().st_mtime_ns for path in evaluated} and len(evaluated) == 2
