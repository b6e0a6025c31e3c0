"""Snapshots of all simulators in a checkpoint: all of them, or none and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from actorlearn.address import Shm
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import FAR, Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes import simulator_snapshots
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator_snapshots import SimulatorSnapshots, rekey_to_first, simulators_of
from actorlearn.wire.messages import Member
from actorlearn.worker.settings import snapshot_of
from tests.blocks import block_shape
from tests.identities import process

SHAPE = block_shape(horizon=3, envs_per_group=2)
NAMES = ["simulator-0", "simulator-1"]


class Stage:
    """Two simulators as their trainer sees them, and what they do while it waits for their snapshots."""

    def __init__(self, folder: Path, begun: bool = True) -> None:
        """Both have joined the first rollout, if it has begun."""
        self.folder = folder / "checkpoints" / ".states"
        self.checkpoint = folder / "checkpoint"
        self.checkpoint.mkdir()
        self.rollouts = Rollouts(Segment.create(folder / "rollouts", rollouts_fields()))
        account = Account(Segment.create(folder / "account", account_fields()))
        self.trained = RolloutMembers(self.rollouts, account, Episodes(), 1)
        self.members = [Member(id=process(name, 2), segment=Shm(str(folder / f"{name}.2"))) for name in NAMES]
        self.blocks = [Blocks(make_segment(folder / f"{name}.2", SHAPE)) for name in NAMES]
        self.trained.follow(self.members, [])
        if begun:
            for blocks in self.blocks:
                blocks.mark_ready()
            self.trained.unblock()
        self.snapshots = SimulatorSnapshots(str(self.folder), self.trained, lambda: None, self._wait)
        self.doings: Sequence[Callable[[], object]] = ()
        self.waits = 0

    def answer(self, number: int, taken: bool = True) -> None:
        """Let a simulator write its file, or refuse, and answer."""
        if taken:
            (self.folder / snapshot_of(NAMES[number])).write_text(f"{NAMES[number]} at {self.rollouts.hold_from}")
        self.blocks[number].mark_held(self.rollouts.hold, taken)

    def take(self, *doings: Callable[[], object]) -> str:
        """Ask for snapshots of rollout 7, with one of ``doings`` at each look; return why they are not exact."""
        self.doings, self.waits = doings, 0
        self.trained.account.rollouts_learned = 7
        self.snapshots.take()
        return self.snapshots.inexact

    def _wait(self) -> bool:
        self.waits += 1
        return self.doings[self.waits - 1]() is not False if self.waits <= len(self.doings) else True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_snapshots, "PATIENCE_S", 0.05)


def test_the_snapshots_of_all_simulators_are_moved_into_the_checkpoint(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for _ in range(2):
        assert stage.take(lambda: stage.answer(1), lambda: stage.answer(0)) == ""
        assert stage.waits == 2
        state = stage.snapshots.put(stage.checkpoint)
        assert state["inexact"] == "" and simulators_of(state) == [process(name, 2) for name in NAMES]
        stage.snapshots.close()
        assert not stage.folder.exists()
        said = [(stage.checkpoint / snapshot_of(name)).read_text() for name in NAMES]
        assert said == ["simulator-0 at 7", "simulator-1 at 7"]
    assert stage.rollouts.hold == 2


@pytest.mark.usefixtures("impatient")
def test_if_one_simulator_does_not_answer_no_snapshot_is_taken_and_its_late_answer_is_ignored(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.take(lambda: stage.answer(0)) == "simulator-1 did not answer within 0.05 s"
    assert "is not exact: simulator-1 did not answer" in stage.snapshots.complaint()
    assert stage.snapshots.complaint() == ""  # once is enough
    assert stage.snapshots.put(stage.checkpoint) == {"inexact": stage.snapshots.inexact, "simulators": []}
    stage.snapshots.close()
    assert list(stage.checkpoint.iterdir()) == []
    stage.blocks[1].mark_held(1, True)  # the answer to the request before
    assert stage.take(lambda: stage.answer(0)).startswith("simulator-1 did not answer")
    assert stage.take(lambda: stage.answer(0), lambda: stage.answer(1)) == ""


def test_a_simulator_that_refuses_dies_leaves_or_has_not_begun_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.take(lambda: stage.answer(0, taken=False)) == "simulator-0 could not take a snapshot"
    died = stage.take(lambda: stage.trained.follow(stage.members[1:], [], stage.members[:1]))
    assert died == "simulator-0 has ended"
    stage.trained.gone.clear()
    stage.trained.follow(stage.members[1:], ["simulator-1"])
    assert stage.take() == "simulator-1 is leaving"
    new = Member(id=process("simulator-2"), segment=Shm(str(tmp_path / "simulator-2.0")))
    make_segment(new.segment.file, SHAPE).close()
    stage.trained.follow([new], [])
    stage.trained.gone.clear()
    assert stage.take() == "simulator-2 has not begun yet"
    stage.trained.follow([], [])
    assert stage.take() == "no simulator is running"


def test_snapshots_missing_because_simulators_come_or_leave_are_not_warned_of(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    new = Member(id=process("simulator-2"), segment=Shm(str(tmp_path / "simulator-2.0")))
    make_segment(new.segment.file, SHAPE).close()
    stage.trained.follow([*stage.members, new], [])
    assert stage.take() == "simulator-2 has not begun yet" and stage.snapshots.complaint() == ""
    stage.trained.follow(stage.members, [])
    stage.trained.gone.clear()
    attempts: tuple[Callable[[], object], ...] = (
        lambda: stage.trained.follow(stage.members, ["simulator-1"]),  # it is detached meanwhile
    )
    assert stage.take(*attempts) == "simulator-1 is leaving" and stage.snapshots.complaint() == ""


def test_a_snapshot_that_fails_is_warned_of_also_after_a_simulator_has_left(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.blocks[0].leave(9)
    assert stage.take() == "simulator-0 is leaving" and stage.snapshots.complaint() == ""
    stage.blocks[0].leave(FAR)
    stage.take(lambda: stage.answer(0, taken=False))
    assert "is not exact: simulator-0 could not take a snapshot" in stage.snapshots.complaint()


def test_a_trainer_that_is_told_to_end_does_not_wait_for_snapshots(tmp_path: Path) -> None:
    assert Stage(tmp_path).take(lambda: False) == "the trainer was told to end"


def test_before_the_first_rollout_no_snapshots_are_asked_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, begun=False)
    assert stage.take() == "" and stage.waits == stage.rollouts.hold == 0
    assert stage.snapshots.put(stage.checkpoint) == {"inexact": "", "simulators": []}


def test_without_a_folder_no_snapshots_are_asked_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    none = SimulatorSnapshots("", stage.trained, lambda: None, lambda: True)
    none.take()
    assert stage.rollouts.hold == 0
    assert none.put(stage.checkpoint) == {"inexact": "checkpoint.exact is false", "simulators": []}


def test_a_folder_that_cannot_be_made_or_a_missing_file_is_the_reason_for_no_snapshots(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.take(lambda: stage.answer(0), lambda: stage.blocks[1].mark_held(1, True)) == ""
    said = stage.snapshots.put(stage.checkpoint)
    assert "No such file" in said["inexact"] and said["simulators"] == []
    assert list(stage.checkpoint.iterdir()) == []
    stage.snapshots.close()
    stage.folder.write_text("in the way")
    assert "File exists" in stage.take()


def test_values_of_restarted_simulators_are_renamed_to_their_first_incarnations() -> None:
    values = {"simulator-0.2/0": 1, "simulator-0.2/1": 2, "simulator-11.0/0": 3, "simulator-4.0/0": 4}
    found = rekey_to_first(values, [process("simulator-0", 2), process("simulator-11")])
    assert found == {"simulator-0.0/0": 1, "simulator-0.0/1": 2, "simulator-11.0/0": 3}
