"""The vector of CartPole plays the games of gymnasium's class of one pole, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from actorlearn.envs.gymnasium_env import Gymnasium, make
from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.interface import Row
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.testing.environment import assert_same, play, poisoned_row, random_actions

SEEDS = tuple(range(33))


@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}])
@pytest.mark.parametrize("limit", [0, 20])
def test_rows_equal_those_of_single_poles(kwargs: dict[str, object], limit: int) -> None:
    settings = GymnasiumSettings(id="CartPole-v1", kwargs=kwargs, time_limit_steps=limit)
    together, singly = make(settings, SEEDS), Gymnasium(settings, SEEDS)
    assert isinstance(together, GymnasiumVector)
    actions = random_actions(singly.spec, len(SEEDS), 200)
    assert_same(play(singly, actions), play(together, actions))
    random = np.random.default_rng(1)
    rows: list[list[Row]] = [[], []]
    for action in actions[:60]:
        chosen = random.random(len(SEEDS)) < 0.1
        for env, played in zip((singly, together), rows, strict=True):
            played.append(poisoned_row(env.spec, env.count))
            env.step(action, played[-1])
            env.restart(chosen, played[-1])
    assert_same(*rows)


def test_the_registered_limit_ends_the_game_of_a_balanced_pole() -> None:
    env = make(GymnasiumSettings(id="CartPole-v1"), [0])
    row = poisoned_row(env.spec, 1)
    env.reset(row)
    for step in range(1, 501):
        _, speed, angle, turn = row.observation[0]
        env.step(np.array([int(angle + 0.3 * turn + 0.05 * speed > 0)]), row)
        assert row.truncated[0] == (step == 500)
        assert not row.terminated[0]
