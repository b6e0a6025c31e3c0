"""What a trainer restores: its own state, and with a store the shared state of the newest checkpoint of any learner."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from actorlearn.address import Folders
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import CheckpointError
from actorlearn.parameters.modes import MODES, LearnersAsked
from actorlearn.parameters.settings import GossipSettings, LearnersSettings
from actorlearn.processes.checkpoints import open_checkpoint
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import TrainerSettings
from tests import named
from tests.learning.made import trainer_settings

ASKED = LearnersAsked(LearnersSettings(count=2), GossipSettings(), "adam", 0)


def settings(run_dir: Path, learner: int, mode: str) -> TrainerSettings:
    exchange = MODES.spec(mode).exchange(learner, 0, ASKED, Folders(run_dir, run_dir, run_dir))
    changed: dict[str, Any] = {
        "run_dir": str(run_dir),
        "id": ProcessId("trainer", learner, learner),
        "exchange": exchange,
        "resume": True,
    }
    made = trainer_settings()
    return msgspec.structs.replace(made, **changed, optimizer=named.optimizer(name="adam"))


def save(run_dir: Path, learner: int, env_steps: int, replay: bool = False) -> Path:
    names = ("weights.a", "optimizer.mean", "optimizer.square", "optimizer.steps", "target.a", "replay.counters")
    tensors = {name: torch.full((2,), float(env_steps)) for name in names}
    state: dict[str, Any] = dict.fromkeys(("env_steps", "updates", "rollouts_learned", "policy_version"), env_steps)
    state |= {"replay": {"shape": {}}} if replay else {}
    directory = settings(run_dir, learner, "alone").checkpoints
    return checkpoint.save(directory, env_steps, tensors, state, keep=9)


def test_whoever_fills_a_store_takes_the_newest_checkpoint_of_any_learner(tmp_path: Path) -> None:
    save(tmp_path, 0, 40), save(tmp_path, 1, 50)
    for learner, own in ((0, 40), (1, 50)):
        saved, warnings = open_checkpoint(settings(tmp_path, learner, "async"), lambda: None)
        assert warnings == []
        of = {name: float(tensor[0]) for name, tensor in saved.tensors.items()}
        shared = dict.fromkeys(("weights.a", "optimizer.mean", "optimizer.square"), 50)
        assert of == {**dict.fromkeys(("optimizer.steps", "target.a", "replay.counters"), own), **shared}
        learned = dict.fromkeys(("env_steps", "updates"), 50)
        assert saved.state == {**dict.fromkeys(("rollouts_learned", "policy_version"), own), **learned}
        assert int(saved.path.name) == own  # where its replay lies


@pytest.mark.parametrize("mode", ["alone", "sync", "gossip"])
def test_learners_without_a_store_resume_from_their_own_checkpoints(tmp_path: Path, mode: str) -> None:
    save(tmp_path, 0, 40), save(tmp_path, 1, 50)
    saved, _ = open_checkpoint(settings(tmp_path, 0, mode), lambda: None)
    assert saved.state["env_steps"] == float(saved.tensors["weights.a"][0]) == 40


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_a_learner_without_a_checkpoint_takes_the_weights_of_the_first_and_none_of_its_counts(
    tmp_path: Path, mode: str
) -> None:
    save(tmp_path, 0, 40, replay=True)
    saved, _ = open_checkpoint(settings(tmp_path, 1, mode), lambda: None)
    assert "replay" not in saved.state, "each step is stored in the replay of one learner"
    assert saved.state["env_steps"] == float(saved.tensors["weights.a"][0]) == 40
    assert (saved.state["rollouts_learned"], saved.state["in_flight"], saved.state["account"]) == (0, 0, {})
    assert (saved.state["episodes_finished"], saved.state["recent_returns"]) == (0, [])
    assert saved.tensors["replay.counters"].tolist() == [-1, 0]


def test_a_learner_that_only_saved_its_first_weights_takes_those_of_the_first_learner(tmp_path: Path) -> None:
    save(tmp_path, 0, 0), save(tmp_path, 1, 0)
    saved, _ = open_checkpoint(settings(tmp_path, 1, "gossip"), lambda: None)
    assert saved.path.parent == settings(tmp_path, 1, "gossip").checkpoints, "no learner has learned yet"
    save(tmp_path, 0, 500)
    saved, _ = open_checkpoint(settings(tmp_path, 1, "gossip"), lambda: None)
    assert saved.state["env_steps"] == float(saved.tensors["weights.a"][0]) == 500
    assert (saved.state["rollouts_learned"], saved.state["account"]) == (0, {})


def test_a_damaged_checkpoint_is_named_and_a_restart_at_step_0_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 0, 0), save(tmp_path, 0, 20)
    beats: list[int] = []
    (save(tmp_path, 0, 30) / "tensors.safetensors").write_bytes(b"")
    saved, (warning,) = open_checkpoint(settings(tmp_path, 0, "alone"), lambda: beats.append(1))
    assert saved.state["env_steps"] == 20 and beats
    assert warning == (
        "checkpoints/000000000030 is damaged, so checkpoints/000000000020 is used instead: "
        "tensors.safetensors has 0 bytes, but the manifest says 456"
    )
    (tmp_path / "checkpoints" / "000000000020" / "manifest.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"only the checkpoint of step 0 is valid .*30: tensors.*20: .*No such file"
    ):
        open_checkpoint(settings(tmp_path, 0, "alone"), lambda: None)


def test_another_checkpoint_is_taken_if_a_peer_removes_the_chosen_one(tmp_path: Path) -> None:
    """A running learner that keeps one checkpoint saves the next while this learner reads its own."""
    save(tmp_path, 0, 40)
    chosen = save(tmp_path, 1, 50)
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:  # the peer's has been looked at, and our own is
            shutil.rmtree(chosen)
            save(tmp_path, 1, 60)

    saved, warnings = open_checkpoint(settings(tmp_path, 0, "async"), beat)
    assert saved.state["env_steps"] == float(saved.tensors["weights.a"][0]) == 60
    assert warnings == [] and not chosen.exists()
