"""Runs with normalised observations and rewards: raw scores, statistics that are saved, resumed and played with."""

from __future__ import annotations

import json

import pytest
import torch

from tests.system.conftest import Command, Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

NORMALIZED = ["cartpole", "model.normalize_observation=true", "algorithm.normalize_reward=true", "total_steps=3000"]


def test_a_normalised_run_repeats_itself_and_is_evaluated_and_resumed(launched: Start, command: Command) -> None:
    run, again = launched(*NORMALIZED), launched(*NORMALIZED)
    summary = finished(run)
    assert summary["weights_sha256"] == finished(again)["weights_sha256"]
    assert summary["episode_return_mean"] == run.rows()[-1]["episode_length_mean"] >= 8, "1 a step, as CartPole pays"
    saved = run.checkpoint()
    mean, variance = saved.tensors["weights.mean"], saved.tensors["weights.variance"]
    assert summary["dropped_statistics"] >= 30, "a hundredth of the run"
    rows = summary["env_steps"] + summary["dropped_statistics"]
    assert saved.tensors["weights.number"] == rows, "every row that was acted upon, once"
    assert mean.shape == variance.shape == (4,) and not torch.equal(variance, torch.ones(4))
    assert saved.state["rewards"]["number"] == rows
    assert saved.state["rewards"]["variance"] > 1.0

    played = json.loads(command("eval", run.run_dir, "--episodes", "3", "--json").stdout)
    assert played["episodes"] == 3

    resumed = launched("resume", "total_steps=5000", run_dir=run.run_dir)
    after = finished(resumed)
    later = resumed.checkpoint()
    assert after["env_steps"] >= 5000
    rows = after["env_steps"] + after["dropped_statistics"]
    assert later.state["rewards"]["number"] == later.tensors["weights.number"] == rows
