"""A policy loaded from a run folder: it acts as the run's would, alone and with memory, and refuses what is no run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import actorlearn
from actorlearn.parameters.checkpoint_folders import CheckpointError
from tests.acting.policies import policy_settings, remembering, run_folder


def test_it_acts_with_the_weights_of_the_checkpoint(tmp_path: Path) -> None:
    trained = run_folder(tmp_path, policy_settings())
    loaded = actorlearn.load_policy(tmp_path, seed=5)
    assert (loaded.env_steps, loaded.checkpoint.name) == (500, "000000000500")
    games = loaded.environments(3, seed=1)
    assert games.count == 3 and games.spec.observation_shape == (4,)
    observation = np.random.default_rng(0).normal(size=(64, 4))
    expected = trained.choose(torch.from_numpy(observation).float(), 0, greedy=True)["action"]
    assert loaded.act(observation, greedy=True).tolist() == expected.tolist()
    sampled = [actorlearn.load_policy(str(tmp_path), seed=seed).act(observation).tolist() for seed in (5, 5, 6)]
    assert sampled[0] == sampled[1] != sampled[2]
    assert set(loaded.network(torch.zeros(2, 4))) == {"logits", "value"}


def test_memory_is_carried_from_call_to_call_and_cleared_where_a_game_begins(tmp_path: Path) -> None:
    trained = run_folder(tmp_path, remembering())
    loaded = actorlearn.load_policy(tmp_path)
    random, state = np.random.default_rng(0), torch.full((8, 4), torch.nan)
    for moment in range(6):
        observation = random.normal(size=(8, 4)).astype(np.float32)
        begins = np.full(8, moment == 0) | (np.arange(8) == moment)
        chosen = trained.choose(torch.from_numpy(observation), moment, True, state, torch.from_numpy(begins))
        state = chosen["state"]
        found = loaded.act(observation, greedy=True, first=None if moment == 0 else begins)
        assert found.tolist() == chosen["action"].tolist(), f"call {moment}"


@pytest.mark.parametrize(
    ("observation", "error", "said"),
    [
        (np.zeros(4), ValueError, r"shape \[4\]; it must have N rows of shape \[4\]"),
        (np.zeros((2, 5)), ValueError, r"shape \[2, 5\]"),
        (0.0, ValueError, r"shape \[\]"),
        (np.zeros((2, 4), complex), TypeError, "float32"),
    ],
)
def test_other_observations_are_refused(tmp_path: Path, observation: Any, error: type[Exception], said: str) -> None:
    run_folder(tmp_path, policy_settings())
    with pytest.raises(error, match=said):
        actorlearn.load_policy(tmp_path).act(observation)


def test_folders_without_a_policy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the folder of a run: it has no settings"):
        actorlearn.load_policy(tmp_path)
    run_folder(tmp_path, policy_settings())
    with pytest.raises(CheckpointError, match="learner-1: no valid checkpoint"):
        actorlearn.load_policy(tmp_path, learner=1)
    (tmp_path / "settings" / "simulator-0.0.json").write_text("{}")
    with pytest.raises(ValueError, match="simulator-0.0.json.*env"):
        actorlearn.load_policy(tmp_path)


def test_importing_the_package_loads_no_torch() -> None:
    program = "import sys, actorlearn; assert actorlearn.load_policy and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
