"""Algorithms in whole runs: they learn, and runs repeat themselves."""

from __future__ import annotations

import pytest

from tests.system.conftest import Start
from tests.system.launched import finished, learned
from tests.system.ways import CATCH, LEARNS

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def test_catch_is_learned_by_impala(launched: Start) -> None:
    """test_whole_runs.py and test_replay_runs.py do the same with other algorithms.

    Many seeds stay at 0.75, where a policy has given up a column. With the weights of rollouts a run repeats itself,
    and this one is at 0.98 after 49,000 steps.
    """
    learned(launched("catch", *CATCH, *LEARNS["impala"], "seed=2", "simulators.weights=rollout"), 0.8)


@pytest.mark.nightly
def test_catch_is_learned_by_pqn(launched: Start) -> None:
    """A twentieth of its actions is random to the end. Seeds 1 to 3 are at 0.96 or more after all 100,000 steps."""
    learned(launched("catch-pqn"), 0.8)


OWN, SERVER = ["inference.count=0"], ["inference.count=1", "simulators.groups=2"]


@pytest.mark.parametrize(
    ("topology", "way"),
    [("cartpole", ["env.id=Pendulum-v1", *OWN]), ("classic/pendulum", SERVER)],
    ids=["a2c", "ppo"],
)
def test_box_actions_pass_through_a_run_that_repeats_itself(launched: Start, topology: str, way: list[str]) -> None:
    keys = ["total_steps=3000", "algorithm.horizon=16", "simulators.blocks=1", *way]
    one, again = (finished(launched(topology, *keys)) for _ in range(2))
    assert one["episodes"] > 0
    assert one["weights_sha256"] == again["weights_sha256"]


@pytest.mark.parametrize(
    ("topology", "way"),
    [
        ("cartpole", ["inference.count=0"]),
        ("cartpole", ["inference.count=1", "model.recurrence=gru"]),
        ("classic/pendulum", ["inference.count=1"]),
        ("classic/pendulum", ["inference.count=0", "model.recurrence=gru"]),
    ],
)
def test_the_trainer_recomputes_the_probabilities_that_acting_recorded(
    launched: Start, topology: str, way: list[str]
) -> None:
    """On-policy, before the first step of a batch, acting and learning have the same weights: PPO's ratios are 1."""
    keys = ["algorithm.name=ppo", "algorithm.epochs=1", "algorithm.minibatches=1", "algorithm.horizon=32"]
    keys += ["model.normalize_observation=false"]  # learning has newer statistics than acting had
    run = launched(topology, "total_steps=3000", "simulators.count=1", *keys, *way)
    finished(run)
    assert max(row["divergence"] for row in run.rows()) < 1e-6
    assert max(row["clipped_share"] for row in run.rows()) == 0.0


def test_ppo_solves_pendulum(launched: Start) -> None:
    run = launched("classic/pendulum", "simulators.envs=8", "checkpoint.every_steps=1_000_000")
    run.end(timeout_s=200)  # takes half a minute on two idle cores
    finished(run)
    assert run.rows()[-1]["episode_return_mean"] > -300
