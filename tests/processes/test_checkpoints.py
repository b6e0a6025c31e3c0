"""A trainer's checkpoints: on order, at the end, after the best score, and on a full disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from actorlearn.address import Shm
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import newest, steps_of
from actorlearn.parameters.chosen_checkpoints import Best, choose_of_all, write_best
from actorlearn.parameters.settings import AsyncExchangeSettings
from actorlearn.processes.checkpoints import Checkpoints
from actorlearn.wire.identity import trainer_id
from actorlearn.wire.messages import Warned
from tests.learning.made import trainer_settings
from tests.processes.told import Told


class Scene:
    """Checkpoints of a learner that has one weight and whose simulators take no snapshots."""

    def __init__(self, folder: Path, keep: int = 5, **more: Any) -> None:
        """Make it in the run folder ``folder``; ``more``: other settings of the trainer."""
        numbers = {"run_dir": str(folder), "checkpoint_keep": keep, **more}
        self.settings, self.control = msgspec.structs.replace(trainer_settings(), **numbers), Told()
        self.counts = SimpleNamespace(env_steps=0, updates=0)
        state: Any = SimpleNamespace(
            counts=self.counts,
            members=SimpleNamespace(rollouts=SimpleNamespace(open=1)),
            learning=SimpleNamespace(
                beat=lambda: None,
                save=lambda _folder: {},
                tensors=lambda: {"weights": torch.ones(1)},
                exchange=SimpleNamespace(shared_changes=lambda: 0),
            ),
            plain=lambda: {"env_steps": self.counts.env_steps},
        )
        nothing = dict.fromkeys(("take", "close"), lambda: None)
        snapshots: Any = SimpleNamespace(**nothing, inexact=True, complaint=lambda: "", put=lambda _folder: {})
        self.checkpoints = Checkpoints(self.settings, self.control, state, snapshots)

    def at(self, env_steps: int) -> Checkpoints:
        self.counts.env_steps = env_steps
        return self.checkpoints


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def full_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room for the first checkpoint."""
    save, tried = checkpoint.save, []

    def full_at_first(*arguments: Any) -> Path:
        tried.append(arguments)
        if len(tried) == 1:
            raise OSError(28, "No space left on device")
        return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", full_at_first)


def test_an_ordered_checkpoint_is_saved_once_and_reported_with_its_order(scene: Scene) -> None:
    for saves in (0, 1, 1, 3):
        scene.at(7).save_as_ordered(saves)
    assert scene.control.saved == [(7, 1), (7, 3)]


def test_the_last_checkpoint_is_not_saved_again_unless_something_has_changed(scene: Scene) -> None:
    scene.at(7).save_now()
    scene.checkpoints.save_last()
    assert scene.control.saved == [(7, 0)]
    scene.checkpoints.note_weights_changed()
    scene.checkpoints.save_last()
    scene.at(9).save_last()
    assert scene.control.saved == [(7, 0), (7, 0), (9, 0)]
    scene.counts.updates += 1  # it has only changed the statistics of observations
    scene.checkpoints.save_last()
    scene.checkpoints.save_last()
    assert scene.control.saved[3:] == [(9, 0)]


@pytest.mark.usefixtures("full_once")
def test_a_checkpoint_that_finds_the_disk_full_is_warned_of_and_saved_at_the_end(scene: Scene) -> None:
    scene.at(7).save_now()
    (warned,) = scene.control.said
    assert isinstance(warned, Warned)
    assert warned.text.startswith("the checkpoint at 7 steps could not be written: ") and warned.text.endswith(
        "the run continues"
    )
    scene.checkpoints.save_last()
    assert scene.control.saved == [(7, 0)]
    assert newest(scene.settings.checkpoints).state["env_steps"] == 7


def test_a_learner_with_central_weights_keeps_the_checkpoint_from_which_it_resumes_at_the_best(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"keep": 1, "learners": 2, "exchange": AsyncExchangeSettings(store=Shm("s"))}
    first, second = Scene(tmp_path, **shared), Scene(tmp_path, **shared, id=trainer_id(1))
    second.at(10).save()
    first.at(20).save()
    for scene in (first, second):
        scene.checkpoints.keep_best(15)
    for env_steps in (30, 40, 50):
        second.at(env_steps).save()
        first.at(env_steps + 5).save()
    write_best(tmp_path / "checkpoints", Best(15, 1.0, "evaluation"))
    chosen = choose_of_all(tmp_path / "checkpoints", "best", in_step=False, central=True)
    assert {learner: steps_of(folder) for learner, folder in chosen.items()} == {0: 20, 1: 10}


def test_the_first_checkpoint_after_the_best_score_is_due_and_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, keep=1)

    def kept() -> list[int]:
        return sorted(int(path.name) for path in (tmp_path / "checkpoints").iterdir() if path.name.isdecimal())

    scene.at(10).save()
    scene.at(20).keep_best(30)
    assert not scene.checkpoints.due  # another learner is ahead
    assert scene.at(40).due
    scene.checkpoints.save()
    assert not scene.at(50).due
    for env_steps in (60, 70):
        scene.at(env_steps).save()
    assert kept() == [40, 70]
    scene.checkpoints.keep_best(65)
    assert not scene.checkpoints.due
    scene.at(80).save()
    assert kept() == [70, 80]
