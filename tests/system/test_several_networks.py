"""Runs of SAC, which has several networks: in each mode, by each way of acting and replaying, and to a score."""

from __future__ import annotations

import json

import pytest

from tests.system.conftest import Command, Start
from tests.system.launched import finished

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

SMALL = [
    *("model.hidden_sizes=[16, 16]", "replay.batch_size=16", "replay.ratio=8", "replay.capacity_steps=5000"),
    *("replay.learning_starts_steps=200", "algorithm.random_steps=200", "total_steps=2000"),
]
TWO = ["learners.count=2", "simulators.count=1"]


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_two_learners_with_parameter_groups_learn_in_each_mode(launched: Start, mode: str) -> None:
    groups = ["optimizer.groups.temperature.learning_rate=1e-2", "optimizer.groups.critic_1.clip_norm=5"]
    run = launched("pendulum-sac", *SMALL, *TWO, *groups, f"mode={mode}")
    assert finished(run)["updates"] > 0
    row = run.rows()[-1]
    assert row["learning_rate_temperature"] == 10 * row["learning_rate"]
    assert 0.0 < row["temperature"] < 1.0


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(["replay.prioritised=true", "algorithm.n_step=3"], id="prioritised, three steps"),
        pytest.param(
            ["simulators.weights=rollout", "simulators.blocks=2", "algorithm.horizon=5"], id="one rollout behind"
        ),
        pytest.param(["inference.count=1", "simulators.groups=2"], id="a server"),
        pytest.param(["replay.secondary_batch_size=32"], id="a secondary learner"),
    ],
)
def test_sac_learns_with_each_way_of_acting_and_replaying(launched: Start, way: list[str]) -> None:
    run = launched("pendulum-sac", *SMALL, *way)
    assert finished(run)["updates"] > 0
    row = run.rows()[-1]
    assert row["entropy"] < 3.0 and row["error_mean"] > 0.0


def test_sac_learns_pendulum(launched: Start, command: Command) -> None:
    smaller = ["model.hidden_sizes=[64, 64]", "replay.batch_size=128", "replay.ratio=128", "total_steps=8000"]
    run = launched("pendulum-sac", *smaller)
    run.end(timeout_s=200)
    finished(run)
    played = json.loads(command("eval", run.run_dir, "--episodes", "20", "--greedy", "--json").stdout)
    assert played["mean"] > -700.0, played  # at random -1,200; -418 with this seed
