"""Snapshots of all simulators in a checkpoint: all of them, or none and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actorlearn.address import Shm
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes import gathering
from actorlearn.processes.batches import Batches
from actorlearn.processes.gathering import Gathering, of_the_first, simulators_of
from actorlearn.wire.messages import Member
from actorlearn.worker.settings import snapshot_of
from tests.identities import process

SHAPE = BlockShape(
    groups=1, blocks=1, horizon=3, envs_per_group=2, observation_shape=(2,), observation_dtype="float32", actions=2
)
NAMES = ["simulator-0", "simulator-1"]


class Stage:
    """Two simulators at work, as far as their trainer can see, and what they do when it waits for them."""

    def __init__(self, folder: Path, begun: bool = True) -> None:
        """Both have joined the first rollout, if it has begun."""
        self.folder = folder / "checkpoints" / ".states"
        self.checkpoint = folder / "checkpoint"
        self.checkpoint.mkdir()
        self.rollouts = Rollouts(Segment.create(folder / "rollouts", rollouts_fields()))
        account = Account(Segment.create(folder / "account", account_fields()))
        self.batches = Batches(self.rollouts, account, 1, "cpu", (), Episodes())
        self.members = [Member(id=process(name, 2), segment=Shm(str(folder / f"{name}.2"))) for name in NAMES]
        self.blocks = [Blocks(make_segment(folder / f"{name}.2", SHAPE)) for name in NAMES]
        self.batches.follow(self.members, [])
        if begun:
            for blocks in self.blocks:
                blocks.mark_ready()
            self.batches.unblock()
        self.gathering = Gathering(str(self.folder), self.batches)
        self.waits = 0

    def answer(self, number: int, taken: bool = True) -> None:
        """A simulator writes its file and says so."""
        if taken:
            (self.folder / snapshot_of(NAMES[number])).write_text(f"{NAMES[number]} at {self.rollouts.hold_from}")
        self.blocks[number].mark_held(self.rollouts.hold, taken)

    def gather(self, *doings: Callable[[], object]) -> str:
        """Ask for snapshots of rollout 7, with one deed at each look; what is said of them."""

        def wait() -> bool:
            self.waits += 1
            return doings[self.waits - 1]() is not False if self.waits <= len(doings) else True

        self.waits = 0
        self.batches.account.rollouts_learned = 7
        self.gathering.gather(lambda: None, wait)
        return self.gathering.inexact


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PATIENCE_S", 0.05)


def test_all_of_them_are_moved_into_the_checkpoint(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for _ in range(2):
        assert stage.gather(lambda: stage.answer(1), lambda: stage.answer(0)) == ""
        assert stage.waits == 2
        state = stage.gathering.put(stage.checkpoint)
        assert state["inexact"] == "" and simulators_of(state) == [process(name, 2) for name in NAMES]
        stage.gathering.close()
        assert not stage.folder.exists()
        said = [(stage.checkpoint / snapshot_of(name)).read_text() for name in NAMES]
        assert said == ["simulator-0 at 7", "simulator-1 at 7"]
    assert stage.rollouts.hold == 2


@pytest.mark.usefixtures("impatient")
def test_of_one_that_does_not_answer_none_are_taken_and_a_late_answer_is_none_to_the_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.gather(lambda: stage.answer(0)) == "simulator-1 did not answer within 0.05 s"
    assert "is not exact: simulator-1 did not answer" in stage.gathering.complaint()
    assert stage.gathering.complaint() == ""  # once is enough
    assert stage.gathering.put(stage.checkpoint) == {"inexact": stage.gathering.inexact, "simulators": []}
    stage.gathering.close()
    assert list(stage.checkpoint.iterdir()) == []
    stage.blocks[1].mark_held(1, True)  # the one before
    assert stage.gather(lambda: stage.answer(0)).startswith("simulator-1 did not answer")
    assert stage.gather(lambda: stage.answer(0), lambda: stage.answer(1)) == ""


def test_who_refuses_dies_leaves_or_has_not_begun_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.gather(lambda: stage.answer(0, taken=False)) == "simulator-0 could take no snapshot"
    died = stage.gather(lambda: stage.batches.follow(stage.members[1:], [], stage.members[:1]))
    assert died == "simulator-0 has ended"
    stage.batches.gone.clear()
    stage.batches.follow(stage.members[1:], ["simulator-1"])
    assert stage.gather() == "simulator-1 is leaving"
    new = Member(id=process("simulator-2"), segment=Shm(str(tmp_path / "simulator-2.0")))
    make_segment(new.segment.file, SHAPE).close()
    stage.batches.follow([new], [])
    stage.batches.gone.clear()
    assert stage.gather() == "simulator-2 has not begun yet"
    stage.batches.follow([], [])
    assert stage.gather() == "no simulator is at work"


def test_a_trainer_that_is_told_to_end_waits_for_nobody(tmp_path: Path) -> None:
    assert Stage(tmp_path).gather(lambda: False) == "it was saved on being told to end"


def test_before_anybody_begins_there_is_nothing_to_take(tmp_path: Path) -> None:
    stage = Stage(tmp_path, begun=False)
    assert stage.gather() == "" and stage.waits == stage.rollouts.hold == 0
    assert stage.gathering.put(stage.checkpoint) == {"inexact": "", "simulators": []}


def test_without_a_folder_nobody_is_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    none = Gathering("", stage.batches)
    none.gather(lambda: None, lambda: True)
    assert stage.rollouts.hold == 0
    assert none.put(stage.checkpoint) == {"inexact": "checkpoint.exact is false", "simulators": []}


def test_a_folder_that_cannot_be_made_or_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.gather(lambda: stage.answer(0), lambda: stage.blocks[1].mark_held(1, True)) == ""
    said = stage.gathering.put(stage.checkpoint)
    assert "No such file" in said["inexact"] and said["simulators"] == []
    assert list(stage.checkpoint.iterdir()) == []
    stage.gathering.close()
    stage.folder.write_text("in the way")
    assert "File exists" in stage.gather()


def test_what_belongs_to_a_simulator_goes_on_with_its_first_incarnation() -> None:
    values = {"simulator-0.2/0": 1, "simulator-0.2/1": 2, "simulator-11.0/0": 3, "simulator-4.0/0": 4}
    found = of_the_first(values, [process("simulator-0", 2), process("simulator-11")])
    assert found == {"simulator-0.0/0": 1, "simulator-0.0/1": 2, "simulator-11.0/0": 3}
