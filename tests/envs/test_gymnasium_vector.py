"""Vector environments of gymnasium give the rows of the one-by-one path, in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from actorlearn.envs.gymnasium_env import Gymnasium
from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.testing.environment import assert_same, play, random_actions
from tests.envs.games import Counter, Safe, Walk

SEEDS = (3, 11, 5)
STEPS = 120
ENVIRONMENTS = {"counter": Counter, "walk": Walk, "safe": Safe, "cartpole": CartPoleEnv}
ZERO = {"counter": -1, "walk": np.zeros(2), "safe": np.array([1, 1, 0]), "cartpole": 0}
"""Action of each that the policy's zero means."""


class BegunTwice(gymnasium.Wrapper):
    """An environment whose games begin after one that is dropped after a step: the games of SAME_STEP and DISABLED."""

    def __init__(self, env: gymnasium.Env, zero: Any) -> None:
        super().__init__(env)
        self.zero = zero

    def reset(self, *, seed=None, options=None):
        if seed is None:
            self.env.reset()
            self.env.step(self.zero)
        return self.env.reset(seed=seed)


def one_by_one(name: str, limit: int, monkeypatch: pytest.MonkeyPatch, twice: bool) -> Gymnasium:
    def construct(settings: GymnasiumSettings) -> tuple[gymnasium.Env, int | None]:
        env = ENVIRONMENTS[name]()
        return (BegunTwice(env, ZERO[name]) if twice else env), None

    monkeypatch.setattr("actorlearn.envs.gymnasium_env.construct", construct)
    return Gymnasium(GymnasiumSettings(id=name, time_limit_steps=limit), SEEDS)


def together(name: str, limit: int, mode: AutoresetMode) -> GymnasiumVector:
    vector = SyncVectorEnv([ENVIRONMENTS[name]] * len(SEEDS), autoreset_mode=mode)
    return GymnasiumVector(name, vector, SEEDS, time_limit_steps=limit)


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("mode", AutoresetMode)
def test_rows_equal_those_of_environments_stepped_one_after_the_other(
    name: str, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = together(name, 0, mode)
    single = one_by_one(name, 0, monkeypatch, twice=mode is not AutoresetMode.NEXT_STEP)
    actions = random_actions(vector.spec, len(SEEDS), STEPS)
    assert single.spec.observation_from == vector.spec.observation_from
    rows = play(single, actions)
    assert_same(rows, play(vector, actions))
    assert sum(row.first.sum() for row in rows) > 2 * len(SEEDS), "too few games for a proof"
