"""Start-state decorrelation: how many actions each environment takes, and that only the seeds decide it."""

from __future__ import annotations

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from actorlearn.envs.interface import Row
from actorlearn.processes.simulator import decorrelate
from actorlearn.testing.environment import FLAGS, poisoned_row
from tests import named
from tests.envs.playing import opened

MOST = 12
SEEDS = tuple(range(500))


class Steps(gymnasium.Env):
    """Shows how many steps the running game has had, and the sum of its actions; ends when told to."""

    ends_at = 10**9

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(2, np.float32)
        return self.state, {}

    def step(self, action):
        self.state = self.state + np.array([1, action], np.float32)
        return self.state, 1.0, bool(self.state[0] == self.ends_at), False, {}


class ShortGames(Steps):
    """Games of 5 steps."""

    ends_at = 5


def decorrelated(env_id: str, most_steps: int, seeds: tuple[int, ...] = SEEDS, generator_seed: int = 0) -> Row:
    with opened(named.env(id=env_id), seeds) as env:
        row = poisoned_row(env.spec, env.count)
        for _ in decorrelate(env, row, most_steps, [generator_seed, *seeds]):
            pass
    return row


def steps_of(row: Row) -> npt.NDArray[np.int64]:
    return row.observation[:, 0].astype(np.int64)


def test_each_environment_has_taken_a_number_of_actions_drawn_uniformly() -> None:
    row = decorrelated(f"{__name__}:Steps", MOST)
    counts = np.bincount(steps_of(row), minlength=MOST + 1)
    assert len(counts) == MOST + 1, "more actions than asked for"
    assert counts.min() > 0.4 * len(SEEDS) / (MOST + 1)
    np.testing.assert_array_equal(row.first, steps_of(row) == 0)
    assert abs(row.observation[:, 1].sum() / steps_of(row).sum() - 1.0) < 0.1, "the mean of actions 0, 1 and 2"


def test_only_the_seeds_decide_where_the_environments_stand() -> None:
    one, again, other = (decorrelated(f"{__name__}:Steps", MOST, generator_seed=seed) for seed in (1, 1, 2))
    for name in ("observation", "reward", *FLAGS):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name), err_msg=name)
    assert (one.observation != other.observation).any()


def test_decorrelation_by_no_steps_is_a_reset() -> None:
    row = decorrelated(f"{__name__}:Steps", 0)
    assert not row.observation.any()
    assert row.first.all() and not (row.reward.any() or row.terminated.any() or row.truncated.any())


def test_no_rollout_begins_with_a_game_that_is_over() -> None:
    row = decorrelated(f"{__name__}:ShortGames", 5)
    assert not (row.terminated | row.truncated).any()
    assert set(steps_of(row)) == {0, 1, 2, 3, 4}
    np.testing.assert_array_equal(row.first, steps_of(row) == 0)


def test_decorrelation_returns_to_its_caller_after_every_step() -> None:
    with opened(named.env(id=f"{__name__}:Steps"), (1,)) as env:
        row = poisoned_row(env.spec, 1)
        seen = [int(row.observation[0, 0]) for _ in decorrelate(env, row, 1000, [3])]
    assert len(seen) > 1 and seen == list(range(1, len(seen) + 1))


@pytest.mark.nightly
@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", "actorlearn.envs.catch:Catch"])
def test_decorrelation_of_breakout_and_catch_is_reproducible_and_differs_by_environment(env_id: str) -> None:
    rows = [decorrelated(env_id, 30, (3, 11, 12)) for _ in range(2)]
    np.testing.assert_array_equal(rows[0].observation, rows[1].observation)
    assert len({picture.tobytes() for picture in rows[0].observation}) == 3
