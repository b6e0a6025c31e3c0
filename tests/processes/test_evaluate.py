"""Which checkpoints an evaluation plays: the run's newest, or the newest of each learner that is still there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint import CheckpointError
from actorlearn.processes.evaluate import newest


def save(folder: Path, env_steps: int) -> None:
    weights = {"weights.w": torch.full((2,), float(env_steps))}
    checkpoint.save(folder, env_steps, weights, {"env_steps": env_steps, "policy_version": 1}, keep=3)


def steps(folder: Path, behind_steps: int | None) -> dict[str, int]:
    return {name: own.state["env_steps"] for name, own in newest(folder, behind_steps).items()}


def test_the_newest_of_each_learner_and_none_that_has_left(tmp_path: Path) -> None:
    for folder, env_steps in (("", 100), ("", 900), ("learner-1", 1000), ("learner-2", 300), ("learner-3", 850)):
        save(tmp_path / folder, env_steps)
    assert steps(tmp_path, 200) == {"trainer-0": 900, "trainer-1": 1000, "trainer-3": 850}
    assert steps(tmp_path, 100) == {"trainer-0": 900, "trainer-1": 1000}
    assert steps(tmp_path, None) == {"trainer-0": 900}


def test_a_learner_without_a_valid_checkpoint_is_left_out_and_all_without_are_an_error(tmp_path: Path) -> None:
    save(tmp_path / "learner-1", 500)
    (tmp_path / "learner-2" / "000000000700").mkdir(parents=True)
    assert steps(tmp_path, 100) == {"trainer-1": 500}
    with pytest.raises(CheckpointError, match="none found"):
        newest(tmp_path / "empty", 100)
    with pytest.raises(CheckpointError, match="none found"):
        newest(tmp_path, None)
