"""The runner without processes: consoles and disks that fail, resumes, evaluations, and learners that join or leave."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save_file

from actorlearn.parameters.checkpoint_folders import TENSORS, seal
from actorlearn.parameters.chosen_checkpoints import Best, read_best, write_best
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Evaluated, Finished
from launch.commands import run
from launch.desk.curves import GrowingCurve
from launch.errors import FailedError, RunError
from launch.plan.plan import Start
from launch.plan.segments import replay_shape
from launch.reports import evaluations
from launch.runs import find
from launch.runs.curves import read_curve
from launch.runs.jsonl import Lines, read_object
from launch.runs.view import RunReader
from launch.runtime import loop
from launch.runtime.loop import Runner
from launch.runtime.reporter import ROWS_REMEMBERED
from launch.supervision import events as ev
from launch.sweeps.folders import read_outcome
from launch.topology.load import load, parse
from tests.failing_disk import TROUBLES, FailingDisk
from tests.launch.described import DESCRIPTION
from tests.launch.opened import opened, ready
from tests.launch.runs.folders import write_lines

FILES = ("events.jsonl", "metrics.jsonl")


class Broken:
    """A console whose terminal fails after the number of calls given to ``breaks_after``."""

    def __init__(self, number: int = errno.EIO) -> None:
        self.left, self.number = sys.maxsize, number
        self.called = 0

    def breaks_after(self, calls: int) -> None:
        self.called, self.left = 0, calls

    def _call(self) -> None:
        self.called += 1
        if self.called > self.left:
            raise OSError(self.number, os.strerror(self.number))

    def event(self, _note: ev.Note) -> None:
        self._call()

    def row(self, _row: Mapping[str, Any]) -> None:
        self._call()

    def processes(self, _processes: Sequence[Mapping[str, Any]]) -> None:
        self._call()

    def close(self) -> None:
        self._call()


@contextmanager
def runner(folder: Path, console: ev.Console | None, resume: bool = False, *overrides: str) -> Iterator[Runner]:
    topology = parse("env: {id: CartPole-v1}", ["simulators.count=2", *overrides])
    with ready(folder, topology, console, resume) as run:
        yield run


Step = ev.Action | Callable[[], object]


@pytest.fixture
def lead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[ev.Event]]:
    """Run to the end under a supervisor that returns these actions, one each turn; return the events it was given.

    A step that is no action is called instead. ``look`` gets each event at once.
    """
    monkeypatch.setattr(loop, "TURN_S", 0.0)

    def live(run: Runner, *steps: Step, status: str = "stopped", look: Callable[[ev.Event], object] = id) -> Any:
        told: list[ev.Event] = []
        left = deque([*steps, ev.Done(status, 0)])

        def handle(event: ev.Event, _now_s: float) -> list[ev.Action]:
            told.append(event)
            look(event)
            if not isinstance(event, ev.Begin | ev.Tick):
                return []
            step = left.popleft()
            return [step] if not callable(step) else [a for a in (step(),) if isinstance(a, Start)]

        monkeypatch.setattr(run.supervisor, "handle", handle)
        assert run.run() == 0
        return told

    return live


Lead = Callable[..., list[ev.Event]]


def saved(folder: Path, **state: Any) -> None:
    """Write a complete checkpoint without tensors."""
    folder.mkdir(parents=True)
    seal(folder, int(folder.name), state)


def notes(folder: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [(row["kind"], row.get("cause", "")) for row in rows]


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE, errno.ENOSPC])
def test_a_run_continues_without_a_console_that_fails(tmp_path: Path, lead: Lead, number: int) -> None:
    console = Broken(number)
    with runner(tmp_path / "run", console) as run:
        one, two = (ev.Note("stopping", cause=cause) for cause in ("one", "two"))
        lead(run, lambda: console.breaks_after(1), one, ev.MetricsRow("trainer", {"env_steps": 5}), two)
    assert console.called == 2
    said = notes(tmp_path / "run")
    assert said[said.index(("stopping", "one")) :] == [
        ("stopping", "one"),
        ("warned", f"the display has failed: [Errno {number}] {os.strerror(number)}; the run continues without it"),
        ("stopping", "two"),
    ]
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text())["env_steps"] == 5


def test_a_removed_run_folder_is_made_again_and_reported_once(tmp_path: Path, lead: Lead) -> None:
    """The folder is removed before two reports, and topology.yaml alone later; later reports are in files again."""
    console, folder = Heard(), tmp_path / "run"
    rows = [ev.MetricsRow("trainer", {"env_steps": steps}) for steps in range(6)]
    (tmp_path / "run").mkdir()
    (folder / "environment.pickle").write_bytes(b"game")

    def lone() -> None:
        (folder / "topology.yaml").unlink()

    with runner(folder, console) as run:
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        lead(run, rows[0], lambda: shutil.rmtree(folder), *rows[1:3], lone, *rows[3:5])
        with pytest.raises(RunError, match="another run uses this folder"), runner(folder, None):
            pass
    for name in ("topology.yaml", "policy.json", "environment.pickle"):
        assert (folder / name).read_bytes() == before[name]
    assert read_object(folder / "meta.json") == {
        **json.loads(before["meta.json"]),
        "ended": read_object(folder / "meta.json")["ended"],
        "supervisor_pid": None,
    }
    assert {"logs", "settings", "checkpoints"} <= {path.name for path in folder.iterdir()}
    said = [note.cause for note in console.notes if note.kind == "warned"]
    assert len(said) == 2
    assert said[0].startswith(f"{folder} was removed or renamed while the run is alive") and said[1].startswith(
        "topology.yaml"
    )
    assert [cause for kind, cause in notes(folder) if kind == "warned"] == said
    written = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["env_steps"] for line in written] == [1, 2, 3, 4]


def test_a_removed_run_folder_that_cannot_be_made_again_is_reported_once(tmp_path: Path, lead: Lead) -> None:
    console, folder = Heard(), tmp_path / "run"
    rows = [ev.MetricsRow("trainer", {"env_steps": steps}) for steps in range(4)]

    def in_the_way() -> None:
        shutil.rmtree(folder)
        folder.touch()

    with runner(folder, console) as run:
        lead(run, in_the_way, *rows)
    said = [note.cause for note in console.notes if note.kind == "warned"]
    assert len([cause for cause in said if "cannot be made again" in cause]) == 1, said


@pytest.mark.parametrize("number", TROUBLES)
def test_a_run_survives_a_full_disk_and_a_failing_console_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead: Lead, number: int
) -> None:
    console, disk = Broken(number), FailingDisk(monkeypatch, tmp_path, number)

    def both() -> None:
        disk.room = 0
        console.breaks_after(0)

    with runner(tmp_path / "run", console) as run:
        lead(run, both, *(ev.MetricsRow("trainer", {"env_steps": steps}) for steps in range(3)))
    assert console.called == 1


@pytest.mark.parametrize("number", TROUBLES)
def test_a_full_disk_is_reported_once_and_missed_lines_are_written_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead: Lead, number: int
) -> None:
    console, disk = Heard(), FailingDisk(monkeypatch, tmp_path, number)
    before: list[Any] = []

    def fill() -> None:
        before.extend(notes(tmp_path / "run"))
        console.notes.clear()
        disk.room = 30

    row = ev.MetricsRow("trainer", {"env_steps": 5})
    one, two, three = (ev.Note("stopping", cause=cause) for cause in ("one", "two", "three"))
    with runner(tmp_path / "run", console) as run:
        lead(run, fill, one, row, two, row, disk.heals, three, ev.MetricsRow("trainer", {"env_steps": 6}))
    written = (*FILES, "metrics for 'tensorboard'")
    lost = [f"{what} cannot be written: {os.strerror(number)}; the run continues" for what in written]
    again = [f"{what} can be written again" for what in written]
    said = [note.cause for note in console.notes if note.kind == "warned"]
    assert said == [*lost, *again]
    causes = [cause for _, cause in notes(tmp_path / "run")[len(before) :]]
    assert sorted(causes) == sorted(["one", "two", "three", *said])
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["env_steps"] for line in rows] == [5, 5, 6]
    assert read_object(tmp_path / "run" / "summary.json")["complaints"] == len(said)


def test_a_summary_that_cannot_be_written_is_reported_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead: Lead
) -> None:
    console, disk = Heard(), FailingDisk(monkeypatch, tmp_path)
    with runner(tmp_path / "run", console) as run:
        lead(run, lambda: setattr(disk, "room", 0))
    assert "summary.json cannot be written: No space left on device" in console.notes[-1].cause
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "for_good"), [(errno.ENOSPC, False), (errno.EDQUOT, True), (errno.EIO, False)])
def test_a_run_can_be_resumed_whichever_write_of_its_supervisor_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead: Lead, number: int, for_good: bool
) -> None:
    """Each write fails in turn, from the folder to the summary: alone, or with all that follow."""
    folder, disk = tmp_path / "run", FailingDisk(monkeypatch, tmp_path, number)

    def life(resume: bool) -> None:
        with runner(folder, None, resume) as run:
            monkeypatch.setattr(run.node.spawner, "spawn", lambda *_: 4711)
            attached, spawn = ev.Note("attached", "simulator-2"), Start(ProcessId("simulator"), 1)
            lead(run, attached, spawn, ev.MetricsRow("trainer", {"env_steps": 5}))

    life(False)
    saved(folder / "checkpoints" / "20")
    for call in range(200):
        disk.fails(lambda made, call=call: made >= call if for_good else made == call)  # type: ignore[misc]
        with suppress(FailedError, OSError):  # refused before anything was started
            life(True)
        calls = len(disk.calls)
        disk.heals()
        assert load(folder / "topology.yaml").env.id == "CartPole-v1"
        assert read_object(folder / "meta.json")["run_id"]
        for lines in FILES:
            assert all(json.loads(line) for line in (folder / lines).read_text().splitlines())
        assert list(folder.rglob(".*")) == []
        if call >= calls:
            break
    assert 15 < call < 200
    life(True)
    assert read_object(folder / "summary.json")["status"] == "stopped"


@pytest.mark.parametrize("number", TROUBLES)
def test_a_process_without_disk_space_for_its_settings_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lead: Lead, number: int
) -> None:
    started: list[str] = []
    disk = FailingDisk(monkeypatch, tmp_path, number)
    with runner(tmp_path / "run", None) as run:
        monkeypatch.setattr(run.node.spawner, "spawn", lambda name, *_: started.append(name) or 4711)
        before = sorted(run.workspace.addresses.shm.iterdir())

        def spawn(fails_from: int) -> Start:
            disk.fails(lambda made: made >= fails_from)
            return Start(ProcessId("simulator"), 1)

        def look(event: ev.Event) -> None:
            if isinstance(event, ev.NotSpawned):
                assert event.passing and os.strerror(number) in event.reason
                assert sorted(run.workspace.addresses.shm.iterdir()) == before
                assert list((tmp_path / "run" / "settings").iterdir()) == []

        told = lead(run, *(partial(spawn, call) for call in range(4)), look=look)
    came = [type(event) for event in told if isinstance(event, ev.Spawned | ev.NotSpawned)]
    assert came == [ev.NotSpawned] * 3 + [ev.Spawned]  # open, write, rename
    assert started == ["simulator-0"]


class Heard:
    """A console that remembers its events."""

    def __init__(self) -> None:
        self.notes: list[ev.Note] = []

    def event(self, note: ev.Note) -> None:
        self.notes.append(note)

    def row(self, _row: Mapping[str, Any]) -> None:
        pass

    def processes(self, _processes: Sequence[Mapping[str, Any]]) -> None:
        pass

    def close(self) -> None:
        pass


def evaluated(env_steps: int, *returns: float) -> ev.Note:
    message = Evaluated(policy_version=1, env_steps=env_steps, returns=list(returns))
    return ev.Note("evaluated", "evaluator-0", fields=evaluations.event_fields(message))


def test_the_end_reports_the_best_and_the_last_evaluation_of_all_lives(tmp_path: Path, lead: Lead) -> None:
    console, said = Heard(), []
    saved(tmp_path / "run" / "checkpoints" / "20")
    for life, returns in enumerate([(), (8.0, 9.0), (2.0, 3.0)]):
        with runner(tmp_path / "run", console, life > 0) as run:
            lead(run, *([evaluated(1_000 * life, *returns)] if returns else []), status="finished")
        saved(tmp_path / "run" / "checkpoints" / str(1_000 * (life + 1)))
        said.append(read_object(tmp_path / "run" / "summary.json")["evaluations"] or {})
    assert [told.get("count") for told in said] == [None, 1, 2]
    assert (said[-1]["best"]["mean"], said[-1]["best"]["env_steps"]) == (8.5, 1_000)
    assert (said[-1]["last"]["mean"], said[-1]["last"]["episodes"]) == (2.5, 2)
    assert [note.cause for note in console.notes if not note.process and note.kind == "evaluated"] == [
        "8.5 over 2 games at 1,000 steps, deviation 0.7",
        "best 8.5 over 2 games at 1,000 steps, last 2.5 over 2 games at 2,000 steps; 2 evaluations",
    ]


def test_evaluations_after_the_resumed_checkpoint_are_neither_the_best_nor_the_last(tmp_path: Path, lead: Lead) -> None:
    saved(tmp_path / "run" / "checkpoints" / "40000")
    with runner(tmp_path / "run", None) as run:
        lead(run, evaluated(20_000, 50.0), evaluated(60_000, 200.0), status="finished")
    with runner(tmp_path / "run", None, True) as run:
        lead(run)
    found = read_object(tmp_path / "run" / "summary.json")["evaluations"]
    assert (found["count"], found["best"]["mean"], found["last"]["mean"]) == (1, 50.0, 50.0)


@pytest.mark.parametrize("earlier", [None, evaluated(20, 1.0)])
def test_the_evaluation_of_the_final_weights_is_the_end_of_its_curve_and_the_score_of_a_sweep(
    tmp_path: Path, lead: Lead, earlier: ev.Note | None
) -> None:
    """Once sweeps had no score or an older one, because no report followed the end of the trainer."""
    folder, column = tmp_path / "run", "eval_return_mean"
    with runner(folder, None) as run:
        row = ev.MetricsRow("trainer", {"env_steps": 40, "time_s": 6.0, "episode_return_mean": 2.0})
        lead(run, *([earlier] if earlier else []), row, evaluated(40, 8.0, 9.0), status="finished")
    summary = read_object(folder / "summary.json")
    assert read_outcome(folder, column, 40).score == summary["evaluations"]["last"]["mean"] == 8.5
    assert read_curve(find.find(str(folder)), column).newest == [(40.0, 8.5)]
    shown = GrowingCurve(folder / "metrics.jsonl", column).points.that_count()
    assert (shown.steps.tolist(), shown.numbers.tolist()) == ([40.0], [8.5])
    assert RunReader(find.find(str(folder))).look().row["episode_return_mean"] == 2.0


def test_an_evaluation_that_a_report_contains_adds_no_report(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None) as run:
        lead(run, evaluated(20, 1.0), ev.MetricsRow("trainer", {"env_steps": 40}))
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


def test_the_reason_of_a_failure_is_the_last_line(tmp_path: Path, lead: Lead) -> None:
    console = Heard()
    message = Evaluated(policy_version=1, env_steps=1_000, returns=[8.0, 9.0])
    scored = ev.Note("evaluated", "evaluator-0", fields=evaluations.event_fields(message))
    with runner(tmp_path / "run", console) as run:
        lead(run, scored, ev.Note("failed", cause="a reason"), status="failed")
    assert [note.kind for note in console.notes if not note.process][-2:] == ["evaluated", "failed"]
    assert console.notes[-1].cause == "a reason"


def test_requested_simulators_that_were_never_started_are_removed_from_the_table(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None) as run:
        before = list(run.table.listed)

        def enlarge() -> None:
            assert run.table.listed == before
            run.table.add_simulators(2)  # asked for, and never started: the run was about to end

        lead(run, lambda: None, enlarge)
        assert run.table.listed == before


def test_a_resumed_run_names_the_attached_simulators_that_are_missing(tmp_path: Path, lead: Lead) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20")
    events = [("spawned", "trainer", 0), ("attached", "simulator-2", 0), ("attached", "simulator-3", 0)]
    rows = [{"kind": kind, "process": process, "incarnation": i} for kind, process, i in events]
    write_lines(tmp_path / "run" / "events.jsonl", rows)
    for resume in (False, True):
        with runner(tmp_path / "run", None, resume) as run:
            assert run.attached_before == (["simulator-2", "simulator-3"] if resume else [])
            lead(run)
    said = [cause for kind, cause in notes(tmp_path / "run")[len(events) :] if kind == "resumed"]
    assert said == [
        "at 20 steps, from checkpoints/20; simulators begin new games, because the checkpoint is not exact: "
        "it has no snapshots of simulators",
        "simulator-2, simulator-3: attached before the resume, and not started now; attach as many again if you need "
        "them",
    ]


def test_a_resumed_run_that_ends_before_its_first_report_counts_up_to_its_checkpoint(
    tmp_path: Path, lead: Lead
) -> None:
    """The run had reached 50,000 steps and is resumed at 10,000."""
    saved(tmp_path / "run" / "checkpoints" / "10000")
    rows = [{"time_s": steps / 100, "env_steps": steps, "frames": 4 * steps} for steps in (9_990, 20_000, 50_000)]
    write_lines(tmp_path / "run" / "metrics.jsonl", rows)
    with runner(tmp_path / "run", None, True) as run:
        lead(run)
    summary = read_object(tmp_path / "run" / "summary.json")
    assert (summary["env_steps"], summary["frames"], summary["wall_time_s"]) == (10_000, 39_960, 99.9)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with runner(tmp_path / "run", None, True) as run:
        lead(run)
    assert read_object(tmp_path / "run" / "summary.json")["env_steps"] == 10_000
    with runner(tmp_path / "run", None, True) as run:
        lead(run, ev.MetricsRow("trainer", {"env_steps": 10_050, "frames": 40_200}))
    assert read_object(tmp_path / "run" / "summary.json")["env_steps"] == 10_050


def test_events_of_a_resumed_run_count_time_from_the_start_of_the_run_as_its_reports_do(
    tmp_path: Path, lead: Lead
) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20", elapsed_s=3600.0)
    events = find.RunFolder(tmp_path / "run", {}).events()
    for resume, least_s in ((False, 0.0), (True, 3600.0)):
        with runner(tmp_path / "run", None, resume) as run:
            lead(run)
        times_s = [event["time_s"] for event in events.new()]
        assert times_s and all(least_s <= time_s < least_s + 60.0 for time_s in times_s)


@pytest.mark.parametrize("learners", [1, 2])
def test_a_resumed_run_knows_each_reward_of_its_earlier_lives(tmp_path: Path, lead: Lead, learners: int) -> None:
    """Only some of its 6,000 reports are judged again, and the one with a reward is not among them."""
    folder, keys = tmp_path / "run", ("total_steps=700_000", f"learners.count={learners}", "mode=sync")
    for own in ("", "learner-1")[:learners]:
        saved(folder / "checkpoints" / own / "600000")

    def report(update: int, rewards: float) -> dict[str, Any]:
        own = {"rewards_nonzero": rewards}
        each = {f"trainer-{number}": own for number in range(learners)} if learners > 1 else {}
        return {"env_steps": 100 * update, "updates": update, **own, **({"learners": each} if each else {})}

    def write(rewarded: int) -> set[int]:
        rows = [report(update, float(update == rewarded)) for update in range(1, 6_001)]
        text = "".join(json.dumps({**row, "padding": "x" * 400}) + "\n" for row in rows)
        (folder / "metrics.jsonl").write_text(text)
        return {row["updates"] for row in Lines(folder / "metrics.jsonl").sample(ROWS_REMEMBERED)}

    read = write(0)
    rewarded = next(update for update in range(3_000, 6_000) if update not in read)
    assert rewarded not in write(rewarded)
    later = [
        ev.MetricsRow(f"trainer-{number}" if learners > 1 else "trainer", report(6_000 + 100 * update, 0.0))
        for update in range(1, 9)
        for number in range(learners)
    ]
    with runner(folder, None, True, *keys) as run:
        lead(run, *later)
    assert not [cause for kind, cause in notes(folder) if kind in ("ill", "well again")]
    assert "health" not in RunReader(find.RunFolder(folder, {})).look().row


def test_a_resumed_run_says_and_records_which_keys_have_changed(tmp_path: Path, lead: Lead) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20")
    for resume, seed in ((False, 1), (True, 1), (True, 2)):
        with runner(tmp_path / "run", None, resume, f"seed={seed}") as run:
            lead(run)
    assert [cause for kind, cause in notes(tmp_path / "run") if "changed keys" in cause] == [
        "with changed keys: seed: 1 → 2"
    ]
    rows = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [row["changed"] for row in rows if "changed" in row] == [{"seed": {"was": 1, "is": 2}}]
    meta = read_object(tmp_path / "run" / "meta.json")
    assert [life["changed"] for life in (*meta["earlier"], meta)] == [{}, {}, {"seed": {"was": 1, "is": 2}}]
    with runner(tmp_path / "run", None, True, "seed=2", "algorithm.name=ppo") as run:
        lead(run)
    said = "ppo continues with the weights and the state of the optimizer of a2c"
    assert notes(tmp_path / "run").count(("resumed", said)) == 1


def test_scores_begin_anew_when_a_resume_changes_the_environment(tmp_path: Path, lead: Lead) -> None:
    root = tmp_path / "run" / "checkpoints"
    saved(root / "20")
    with runner(tmp_path / "run", None) as run:
        lead(
            run,
            ev.Note(
                "evaluated", "evaluator", fields={"mean": 90.0, "returns": [90.0], "env_steps": 10, "policy_version": 1}
            ),
        )
    write_best(root, Best(10, 90.0, "evaluation"))
    with runner(tmp_path / "run", None, True, "seed=2") as run:
        assert run.supervisor.best == Best(10, 90.0, "evaluation")
        lead(run)
    with runner(tmp_path / "run", None, True, "seed=2", "env.time_limit_steps=50") as run:
        assert run.supervisor.best is None
        lead(
            run,
            ev.Note(
                "evaluated", "evaluator", fields={"mean": 9.0, "returns": [9.0], "env_steps": 20, "policy_version": 2}
            ),
        )
    assert read_best(root) is None and (root / "aside" / "best.json").is_file()
    said = "the best score and the mean of training games start anew: env.* has changed"
    assert [cause for _, cause in notes(tmp_path / "run")].count(said) == 1
    found = read_object(tmp_path / "run" / "summary.json")["evaluations"]
    assert (found["count"], found["best"]["mean"]) == (1, 9.0)


def test_a_learner_is_resumed_without_the_scores_of_a_checkpoint_of_another_environment(tmp_path: Path) -> None:
    """As in a run that was resumed with another environment, stopped before it saved, and is resumed again."""
    root, keys = tmp_path / "run" / "checkpoints", ("learners.count=2", "env.time_limit_steps=50")
    games: dict[str, Any] = {"episodes_finished": 9, "recent_returns": [4.0], "recent_lengths": [4]}
    with runner(tmp_path / "run", None, False, *keys):
        saved(root / "20", depends_on={"env.time_limit_steps": 50, "seed": 5}, **games)
        saved(root / "learner-1" / "20", depends_on={"env.time_limit_steps": 60}, **games)
    with runner(tmp_path / "run", None, True, *keys) as run:
        assert run.plan.resumption.changed == {}
        rows = run.plan.resumption.rows
    assert [rows[name]["episode_return_mean"] for name in ("trainer-0", "trainer-1")] == [4.0, None]
    assert [rows[name]["episodes_in_mean"] for name in ("trainer-0", "trainer-1")] == [1, 0]
    assert [rows[name]["episodes"] for name in ("trainer-0", "trainer-1")] == [9, 9]


def test_a_learner_that_does_not_report_after_a_resume_counts_in_the_summary_as_in_its_checkpoint(
    tmp_path: Path,
) -> None:
    root, keys = tmp_path / "run" / "checkpoints", ("learners.count=2", "evaluator.count=0")
    with runner(tmp_path / "run", None, False, *keys):
        saved(root / "20", episodes_finished=250)
        saved(root / "learner-1" / "20", episodes_finished=90)
    with runner(tmp_path / "run", None, True, *keys) as run:
        ends = [ev.Exited(process.name, 0, 0) for process in run.table.listed]
        starts = [ev.Begin(), *(ev.Spawned(end.name, 0, 100, None) for end in ends)]
        done = ev.Received("trainer-0", 0, Finished(reason="total_steps", summary={"episodes": 300}))
        actions = [action for event in (*starts, done, *ends) for action in run.supervisor.handle(event, 1.0)]
    assert [action.summary["episodes"] for action in actions if isinstance(action, ev.Done)] == [390]


def test_a_best_score_whose_weights_were_never_saved_is_forgotten_at_a_resume(tmp_path: Path, lead: Lead) -> None:
    """As after a power cut between the score and the checkpoint that keeps its weights."""
    root = tmp_path / "run" / "checkpoints"
    saved(root / "20")
    with runner(tmp_path / "run", None) as run:
        lead(run)
    write_best(root, Best(21, 90.0, "evaluation"))
    with runner(tmp_path / "run", None, True) as run:
        assert run.supervisor.best is None
        lead(run)
    assert read_best(root) is None and (root / "aside" / "best.json").is_file()


def test_a_resume_of_a_run_that_has_reached_its_stop_at_steps_says_why_it_ends_at_once(
    tmp_path: Path, lead: Lead
) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20")
    said = "stop_at_steps: 20: the run has already learned from this many steps, and ends at once; "
    said += "resume with stop_at_steps=null to go on"
    for resume, keys, expected in (
        (False, "stop_at_steps=20", 0),
        (True, "stop_at_steps=20", 1),
        (True, "stop_at_steps=21", 1),
    ):
        with runner(tmp_path / "run", None, resume, keys) as run:
            lead(run)
        assert notes(tmp_path / "run").count(("warned", said)) == expected


def test_the_best_mean_covers_only_games_of_the_present_environment(tmp_path: Path, lead: Lead) -> None:
    root, best = tmp_path / "run" / "checkpoints", []
    saved(root / "20")
    lives: list[tuple[tuple[str, ...], float | None]] = [
        ((), 90.0),
        (("env.time_limit_steps=50",), None),  # ends before its first report
        (("env.time_limit_steps=50", "seed=2"), 9.0),
        (("env.time_limit_steps=50", "seed=3"), 8.0),
        (("env.time_limit_steps=60", "seed=3"), 7.0),
    ]
    for resume, (keys, score) in enumerate(lives):
        with runner(tmp_path / "run", None, bool(resume), *keys) as run:
            rows = [{"env_steps": 20 + steps, "episode_return_mean": score} for steps in range(2)]
            lead(run, *(ev.MetricsRow("trainer", row) for row in rows if score is not None))
        view = RunReader(find.find(str(tmp_path / "run"))).look()
        best.append((view.best_return, {score for _, score in view.trend}))
    assert best == [(90.0, {90.0}), (None, set()), (9.0, {9.0}), (9.0, {8.0}), (7.0, {7.0})]


def test_an_error_about_tensor_shapes_does_not_blame_a_key_that_the_saved_topology_lacks(tmp_path: Path) -> None:
    folder, keys = tmp_path / "run", ["model.name=mixed"]
    with opened(folder, parse("env: {id: CartPole-v1}", keys)):
        pass
    written = (folder / "topology.yaml").read_text()
    (folder / "topology.yaml").write_text(re.sub(r"\n  layer_norm:.*", "", written))
    there = folder / "checkpoints" / "20"
    there.mkdir(parents=True)
    save_file({"weights.a": np.zeros(3, np.float32)}, there / TENSORS)
    seal(there, 20, {})
    described = msgspec.structs.replace(DESCRIPTION, tensors={"weights": {"a": (4,)}})
    for change, said in (
        ([], "topology.yaml has the same keys, so the code of the environment, network or algorithm has changed"),
        (["model.layer_norm=true"], "model.layer_norm was false and is true; resume without this change"),
    ):
        topology = parse("env: {id: CartPole-v1}", [*keys, *change])
        with pytest.raises(RunError, match=re.escape(said)), opened(folder, topology, True, described):
            pass


def test_a_resumed_run_names_the_schedules_that_new_total_steps_stretch(tmp_path: Path, lead: Lead) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20")
    keys = ["optimizer.learning_rate=4.0e-3", "optimizer.learning_rate_final=1.0e-3"]
    for resume, steps in ((False, "total_steps=100"), (True, "total_steps=100"), (True, "total_steps=300")):
        with runner(tmp_path / "run", None, resume, *keys, steps) as run:
            lead(run)
    with runner(tmp_path / "run", None, True, *keys, "total_steps=900", "schedule_steps=300") as run:
        lead(run)
    said = [cause for kind, cause in notes(tmp_path / "run") if kind == "resumed" and "schedules" in cause]
    assert [cause.partition("; schedules")[2] for cause in said] == [
        " end at 300 steps instead of 100: optimizer.learning_rate (0.004 to 0.001); resume with schedule_steps=100 to "
        "keep them as they were"
    ]


def test_a_resumed_run_does_not_name_a_constant_learning_rate(tmp_path: Path, lead: Lead) -> None:
    saved(tmp_path / "run" / "checkpoints" / "20")
    for resume, steps in ((False, "total_steps=100"), (True, "total_steps=300")):
        with runner(tmp_path / "run", None, resume, "optimizer.schedule=constant", steps) as run:
            lead(run)
    said = [cause for kind, cause in notes(tmp_path / "run") if kind == "resumed"]
    assert said and not any("schedules end" in cause for cause in said)


def test_a_run_reports_each_chosen_value_with_its_reason(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None) as run:
        lead(run)
        assert run.plan.choices
    chosen = [cause for kind, cause in notes(tmp_path / "run") if kind == "chosen"]
    assert chosen == [str(choice) for choice in run.plan.choices]
    assert any(said.startswith("trainer.threads: 1, because ") for said in chosen)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_learner_that_was_detached_does_not_come_back_with_its_old_weights(
    tmp_path: Path, lead: Lead, all_of_them: bool
) -> None:
    (tmp_path / "run").mkdir()
    events = [
        *(("spawned", f"trainer-{k}") for k in range(3)),
        *(("detached", name) for name in ("trainer-0", "trainer-2", "inference-2", "trainer-7")),
        *(("spawned", f"trainer-{k}") for k in range(2)),  # another life, which started trainer-0 again
        *((("detached", "trainer-0"), ("detached", "trainer-1")) if all_of_them else ()),
    ]
    rows = [{"kind": kind, "process": process, "incarnation": 0} for kind, process in events]
    write_lines(tmp_path / "run" / "events.jsonl", rows)
    gossip = ("mode=gossip", "learners.count=3", "evaluator.count=1")
    saved(tmp_path / "run" / "checkpoints" / "20")
    with runner(tmp_path / "run", None, True, *gossip) as run:
        lead(run)
        there = [0, 1, 2] if all_of_them else [0, 1]
        assert [p.id.learner for p in run.table.listed if p.id.role == "trainer"] == there
        assert {p.id.learner for p in run.table.listed if p.id.role == "simulator"} == set(there)
        assert any(p.id.role == "evaluator" for p in run.table.listed)
        assert (run.workspace.addresses.shm / "weights-2").exists() == all_of_them
    began, *said = [cause for kind, cause in notes(tmp_path / "run")[len(events) :] if kind == "resumed"]
    left_out = (
        "trainer-2: detached or removed before the resume, and not started now; attach as many again if you need them"
    )
    assert began.startswith("at 20 steps, from checkpoints/20; simulators begin new games, because mode: gossip: ")
    assert said == ([] if all_of_them else [left_out])


def test_a_learner_that_was_removed_because_it_failed_comes_back_with_a_resume(tmp_path: Path, lead: Lead) -> None:
    """The supervisor removed learner 0 when its simulators had failed; a person detached the others."""
    (tmp_path / "run").mkdir()
    events = [
        *(("spawned", f"trainer-{k}", "") for k in range(4)),
        ("gave up", "trainer-0", "the learner is removed, because simulator-0 has failed"),
        ("gave up", "trainer-1", "died more often than supervision.restarts (5) allows"),
        ("gave up", "trainer-2", "the learner is removed, because simulator-2 has failed"),
        ("detached", "trainer-0", "drained"),
        ("detached", "trainer-1", "fatal"),
        ("spawned", "trainer-2", ""),  # another life
        ("detached", "trainer-2", "drained"),
    ]
    rows = [dict(zip(("kind", "process", "cause"), event, strict=True)) | {"incarnation": 0} for event in events]
    write_lines(tmp_path / "run" / "events.jsonl", rows)
    saved(tmp_path / "run" / "checkpoints" / "20")
    for newest, resumed in ((30, [0, 3]), (900, [3])):  # those of learner 0 are then too old
        saved(tmp_path / "run" / "checkpoints" / "learner-3" / f"{newest}")
        with runner(
            tmp_path / "run", None, True, "mode=gossip", "learners.count=4", "checkpoint.every_steps=10"
        ) as run:
            lead(run)
            assert [p.id.learner for p in run.table.listed if p.id.role == "trainer"] == resumed


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("replay.capacity_steps=3000", "replay.capacity_steps: the replay would have size 1500, and the one saved in "),
        ("simulators.envs=3", "simulators.count x simulators.envs: the replay would have rings 3, and "),
        ("algorithm.horizon=9", "algorithm.horizon: the replay would have margin 10, and "),
        ("replay.prioritised=true", "replay.prioritised: the replay would have prioritised True, and "),
        ("replay.secondary_batch_size=64", "replay.secondary_batch_size: 64, but "),
    ],
)
def test_a_run_with_a_saved_replay_is_not_resumed_with_a_replay_of_another_shape(
    tmp_path: Path, override: str, said: str
) -> None:
    keys = ["algorithm.name=dqn", "replay.capacity_steps=2000", "simulators.count=1", "simulators.envs=2"]
    own, other = (parse("env: {id: CartPole-v1}", [*keys, *more]) for more in ((), (override,)))
    for steps, topology in ((20, other), (30, own)):  # a resume reads only the newest
        shape = msgspec.to_builtins(replay_shape(topology, DESCRIPTION, topology.replay))
        saved(tmp_path / "run" / "checkpoints" / f"{steps:012}", replay={"shape": shape}, draws={})
    with opened(tmp_path / "run", own, True):
        pass
    with pytest.raises(RunError, match=said) as refused, opened(tmp_path / "run", other, True):
        pass
    assert str(refused.value).endswith(", or start a new run")


def test_a_closed_standard_output_does_not_change_the_exit_status() -> None:
    code = (
        "import contextlib, sys; from launch.commands import run\n"
        "with contextlib.suppress(OSError): print('x', flush=True)\n"
        "run.close_screen(None); sys.exit(3)"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")


def test_a_console_that_fails_to_close_raises_nothing() -> None:
    console = Broken()
    console.breaks_after(0)
    run.close_screen(console)


def test_segments_of_a_learner_exist_before_it_starts_and_go_if_it_is_never_started(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=gossip") as run:
        before = sorted(path.name for path in run.workspace.addresses.shm.iterdir())

        def look(event: ev.Event) -> None:
            if isinstance(event, ev.Enlarged):
                assert [process.name for process in event.processes] == ["trainer-1", "simulator-2", "simulator-3"]
                assert [process.name for process in event.processes if process.env] == ["simulator-2", "simulator-3"]
                assert run.workspace.addresses.own("weights", 1).file.exists()

        def left() -> None:  # the learner was requested and never started
            assert sorted(path.name for path in run.workspace.addresses.shm.iterdir()) == before

        enlarge = ev.Enlarge("cli-1", 0, ("env.time_limit_steps=200",), learners=1)
        row, other = (
            ev.MetricsRow("trainer-1", {"env_steps": 5, "episodes": 2}),
            ev.MetricsRow("trainer-0", {"env_steps": 4, "episodes": 1}),
        )
        told = lead(run, enlarge, row, left, other, look=look)
        assert [event for event in told if isinstance(event, ev.Enlarged)]
        assert (run.reporter.last_row["env_steps"], run.reporter.last_row["episodes"]) == (5, 3)


def test_a_row_has_the_metrics_of_all_parameter_servers(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=async", "learners.count=2", "parameter_servers.count=2") as run:
        said = [
            ev.MetricsRow(f"parameter_server-{number}", {"staleness_0": share}, learner=False)
            for number, share in ((1, 1.0), (0, 0.0), (0, 0.5))
        ]
        lead(run, *said, *(ev.MetricsRow(f"trainer-{number}", {"env_steps": 5}) for number in (0, 1)))
        assert run.reporter.last_row["staleness_0"] == 0.75


def test_the_last_row_has_the_steps_of_the_learner_that_ended_last(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=async", "learners.count=2") as run:
        lead(run, *(ev.MetricsRow(f"trainer-{number}", {"env_steps": 5 + number}) for number in (0, 1)))
    rows = [json.loads(line)["env_steps"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows == [5, 6]
    assert read_object(tmp_path / "run" / "summary.json")["env_steps"] == 6


def test_the_last_row_has_nothing_of_a_learner_that_has_left(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=async", "learners.count=3") as run:
        said = [ev.MetricsRow(f"trainer-{number}", {"env_steps": 5, f"of_{number}": 1.0}) for number in (2, 0, 1, 2)]
        lead(run, *said, lambda: [run.reporter.forget_learner(f"trainer-{number}") for number in (0, 1)])
    *_, before, last = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert "of_0" in before
    assert "of_2" in last
    assert last.keys().isdisjoint({"learners", "of_0", "of_1"})


def test_an_invalid_last_row_does_not_prevent_the_summary(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=async", "learners.count=2") as run:
        said = ev.MetricsRow("trainer-0", {"env_steps": 5}), ev.MetricsRow("trainer-1", {"loss": 1.0})
        lead(run, *said, lambda: run.reporter.forget_learner("trainer-0"))
    summary = read_object(tmp_path / "run" / "summary.json")
    assert (summary["status"], summary["env_steps"], summary["complaints"]) == ("stopped", 5, 1)
    assert any(kind == "warned" and "last report was not written" in cause for kind, cause in notes(tmp_path / "run"))


def test_overrides_of_an_attached_learner_may_change_only_keys_of_env(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None, False, "mode=gossip") as run:
        told = lead(run, ev.Enlarge("cli-1", 0, ("simulators.count=4",), learners=1))
        (refused,) = (event for event in told if isinstance(event, ev.NotEnlarged))
        assert "only keys of env can be changed" in refused.reason
        assert len(run.table.listed) == 3


def test_the_example_in_the_error_of_an_attach_without_a_key_can_be_attached(tmp_path: Path, lead: Lead) -> None:
    with runner(tmp_path / "run", None) as run:
        (refused,) = (e for e in lead(run, ev.Enlarge("cli-1", 1, ("evaluator",))) if isinstance(e, ev.NotEnlarged))
    said, _, example = refused.reason.partition("; write for example ")
    assert said == "attach: 'evaluator': an override is key=value"
    with runner(tmp_path / "other", None) as run:
        assert any(isinstance(event, ev.Enlarged) for event in lead(run, ev.Enlarge("cli-1", 1, (example,))))


def test_a_resumed_run_starts_at_the_newest_checkpoint_and_reuses_no_learner_number(tmp_path: Path) -> None:
    for name, seconds in (("500", 3.0), ("learner-1/700", 5.0), ("learner-4/90", 1.0)):
        saved(tmp_path / "run" / "checkpoints" / name, elapsed_s=seconds)
    with runner(tmp_path / "run", None, True, "mode=gossip", "learners.count=2") as run:
        assert run.plan.resumption.env_steps == 700
        assert run.plan.resumption.checkpoints == ("checkpoints/500", "checkpoints/learner-1/700")
        assert run.table.add_learners(1)[0].name == "trainer-5"


def test_a_resumed_run_in_sync_keeps_the_steps_after_a_learner_was_given_up(tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoints"
    for name in ("0", "100", "learner-1/0", "learner-1/100"):
        saved(root / name, learners=[0, 1])
    for name in ("800", "900", "1000"):
        saved(root / name, learners=[0])
    with runner(tmp_path / "run", None, True, "mode=sync", "learners.count=2") as run:
        assert run.plan.resumption.env_steps == 1000
        assert run.plan.resumption.checkpoints == ("checkpoints/1000", "checkpoints/learner-1/100")


def test_a_resumed_run_records_the_newest_undamaged_checkpoint_from_which_it_starts(tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoints"
    for steps in (0, 20, 30):
        saved(root / str(steps), elapsed_s=steps)
    (root / "30" / "manifest.json").write_text("{}")
    with runner(tmp_path / "run", None, True) as run:
        assert (run.plan.resumption.env_steps, run.plan.resumption.checkpoints) == (20, ("checkpoints/20",))
        assert read_object(tmp_path / "run" / "meta.json")["resumed_at"] == 20
        assert read_object(tmp_path / "run" / "meta.json")["resumed_from"] == ["checkpoints/20"]


def test_a_resume_does_not_start_at_step_0_because_newer_checkpoints_are_damaged(tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoints"
    for steps in (0, 30):
        saved(root / str(steps))
    (root / "30" / "manifest.json").write_text("{}")
    with pytest.raises(
        RunError, match=r"checkpoints/30: manifest.json is damaged.*remove the damaged ones to start at"
    ):
        runner(tmp_path / "run", None, True).__enter__()
    shutil.rmtree(root / "30")
    with runner(tmp_path / "run", None, True) as run:
        assert run.plan.resumption.env_steps == 0


def test_a_run_with_more_steps_than_total_steps_is_not_resumed(tmp_path: Path) -> None:
    saved(tmp_path / "run" / "checkpoints" / "30")
    with pytest.raises(
        RunError, match=r"total_steps = 20: run has already learned from 30 steps; write a larger number"
    ):
        runner(tmp_path / "run", None, True, "total_steps=20").__enter__()


@pytest.mark.parametrize(
    ("summary", "resumed"),
    [
        ({}, True),
        ({"status": "finished", "unscored": True}, True),
        ({"status": "finished", "unscored": False}, False),
        ({"status": "stopped", "unscored": False}, True),  # the resume that only evaluates was stopped too
        ({"status": "failed", "lacks_nodes": True, "unscored": False}, True),
    ],
)
def test_a_run_that_has_learned_all_steps_is_resumed_only_if_its_final_weights_may_not_have_been_evaluated(
    summary: dict[str, Any], resumed: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with runner(folder, None, False, "total_steps=20"):
        saved(folder / "checkpoints" / "30")
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    if resumed:
        with runner(folder, None, True, "total_steps=20") as run:
            assert (run.plan.resumption.env_steps, run.plan.topology.total_steps) == (30, 20)
    else:
        with pytest.raises(RunError, match="total_steps = 20: run has already learned from 30 steps"):
            runner(folder, None, True, "total_steps=20").__enter__()


@pytest.mark.parametrize("at", ["newest", "best", 30_000])
def test_fewer_total_steps_are_refused_before_the_environment_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str | int
) -> None:
    folder = tmp_path / "run"
    with runner(folder, None):
        saved(folder / "checkpoints" / "000000030000")
    write_best(folder / "checkpoints", Best(env_steps=20_000, score=1.0, by="training"))
    monkeypatch.setattr(loop, "describe", lambda _: pytest.fail("the environment is tried"))
    fewer = parse("env: {id: CartPole-v1}", ["simulators.count=2", "total_steps=1000"])
    said = (
        "^total_steps = 1_000: run has already learned from 30,000 steps; write a larger number, for example "
        "total_steps=60_000$"
    )
    with pytest.raises(RunError, match=said):
        loop.run(fewer, folder, resume_at=at)


def test_a_run_does_not_go_back_to_before_the_first_checkpoint_of_a_learner_with_common_weights(tmp_path: Path) -> None:
    root = tmp_path / "run" / "checkpoints"
    of = parse("env: {id: CartPole-v1}", ["mode=async", "learners.count=2", "simulators.count=2"])
    with runner(tmp_path / "run", None, False, "mode=async", "learners.count=2"):
        for name in ("100", "200", "learner-1/110", "learner-1/210"):
            saved(root / name)
    said = (
        r"^run: at 100: these learners have no checkpoint that old, so their counts and their replay would be lost: "
        r"learner 1 \(first at 110 steps\); write newest instead of 100, or steps at which all have one: 200; if these "
        r"learners were added later, you can also move their folders, such as .*/checkpoints/learner-1, out of the "
        r"run: they then start anew$"
    )
    with pytest.raises(RunError, match=said):
        loop.run(of, tmp_path / "run", resume_at=100)
    assert {path.name for path in (root / "learner-1").iterdir()} == {"110", "210"}, "nothing was set aside"


def test_the_summary_of_a_resumed_run_has_the_deaths_of_all_its_lives(tmp_path: Path, lead: Lead) -> None:
    folder, died = tmp_path / "run", ev.Note("died", "trainer", cause="signal 9")
    with runner(folder, None) as run:
        lead(run, died, died)
    assert read_object(folder / "summary.json")["deaths"] == 2
    saved(folder / "checkpoints" / "20")
    with runner(folder, None, True) as run:
        lead(run, died)
    assert read_object(folder / "summary.json")["deaths"] == 3


def test_the_restart_of_a_trainer_is_reported_with_its_checkpoint_and_the_lost_steps(
    tmp_path: Path, lead: Lead
) -> None:
    saved_at = ev.Note("saved", "trainer", fields={"env_steps": 41_217})
    again = ev.Note("restarted", "trainer", 1)
    simulator = ev.Note("restarted", "simulator-0", 1)
    row = ev.MetricsRow("trainer", {"env_steps": 48_369})
    with runner(tmp_path / "run", None) as run:
        lead(run, saved_at, row, again, again, simulator)
    assert [cause for kind, cause in notes(tmp_path / "run") if kind == "restarted"] == [
        "from its checkpoint at 41,217 steps; at least 7,152 steps are rolled back",
        "from its checkpoint at 41,217 steps",
        "",
    ]
    with runner(tmp_path / "two", None, False, "mode=async", "learners.count=2") as run:
        lead(run, saved_at, row, again)
    assert ("restarted", "") in notes(tmp_path / "two"), "its weights are in the store"
