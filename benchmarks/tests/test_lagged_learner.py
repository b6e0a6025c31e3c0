"""Learning with a fixed policy lag: the lag is the requested one, and the result depends only on the settings."""

from __future__ import annotations

import json

import pytest

from benchmarks import lagged_learner
from benchmarks.lagged import loaded, settings_of
from benchmarks.lagged_learner import Lagged, LaggedSettings
from launch.errors import RunError
from launch.plan.probe import describe

KEYS = ("algorithm.name=ppo", "algorithm.horizon=8", "algorithm.epochs=2", "simulators.envs=4", "total_steps=200")
CATCH = "configs/catch.yaml"


def settings(*lags: int) -> LaggedSettings:
    topology = loaded(CATCH, KEYS)
    description = describe(topology)
    return LaggedSettings(runs=[settings_of(topology, description, lag) for lag in lags])


def test_the_first_rollouts_are_of_the_initial_weights_and_the_others_as_old_as_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lagged_learner.run(settings(0, 2, 0))
    lock_step, late, again = map(json.loads, capsys.readouterr().out.splitlines())
    updates = lock_step["updates"]
    assert 200 <= lock_step["env_steps"] < 200 + 4 * 8 and updates == late["updates"]
    assert lock_step["metrics"]["policy_lag_mean"] == 0.0
    assert late["metrics"]["policy_lag_mean"] == pytest.approx((0 + 1 + 2 * (updates - 2)) / updates)
    assert lock_step == again
    assert lock_step["weights_sha256"] != late["weights_sha256"]
    assert lock_step["score"] == lock_step["curve"][-1][1] and len(lock_step["curve"]) > 5


def test_what_has_memory_or_learns_from_a_replay_is_refused() -> None:
    topology = loaded(CATCH, (*KEYS, "model.recurrence=gru"))
    with pytest.raises(ValueError, match="need an algorithm without replay"):
        Lagged(settings_of(topology, describe(topology), 1))
    with pytest.raises(RunError, match="'dqn' learns from a replay"):
        loaded(CATCH, ("algorithm.name=dqn",))
