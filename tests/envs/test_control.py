"""The environments of the shipped topologies for continuous control and Box2D give finite rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make
from launch.topology.load import load
from tests.sizes import ROOT

CONTROL = sorted((ROOT / "configs" / "control").glob("*.yaml"))
BROUGHT_BY = {
    "Ant-v5": ("mujoco", "mujoco"),
    "HalfCheetah-v5": ("mujoco", "mujoco"),
    "Hopper-v5": ("mujoco", "mujoco"),
    "Swimmer-v5": ("mujoco", "mujoco"),
    "LunarLander-v3": ("Box2D", "box2d"),
    "shimmy:dm_control/cheetah-run-v0": ("dm_control", "dm-control"),
}
"""Id -> module without which it cannot be made, and the extra that installs it."""


@pytest.mark.parametrize("path", CONTROL, ids=lambda path: path.stem)
def test_a_shipped_environment_gives_finite_rows_and_rewards(path: Path) -> None:
    settings = load(path).env
    module, extra = BROUGHT_BY[settings.id]
    pytest.importorskip(module, reason=f"{module} is not installed: pip install 'actorlearn[{extra}]'")
    env = make(settings, [1, 2])
    random, row = np.random.default_rng(3), empty_row(env.spec, 2)
    env.reset(row)
    assert row.first.all()
    rewards = []
    for _ in range(150):
        env.step(env.random_actions(random), row)
        assert np.isfinite(row.observation).all()
        rewards.append(row.reward.copy())
    assert np.any(rewards)
    env.close()


@pytest.mark.parametrize("path", CONTROL, ids=lambda path: path.stem)
def test_algorithms_with_a_policy_normalize_observations(path: Path) -> None:
    topology = load(path)
    module, extra = BROUGHT_BY[topology.env.id]
    pytest.importorskip(module, reason=f"{module} is not installed: pip install 'actorlearn[{extra}]'")
    assert topology.model.normalize_observation == (topology.algorithm.name != "dqn")
