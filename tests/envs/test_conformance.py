"""What every environment owes the rest of the system; a new implementation adds one line to CASES."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from actorlearn.envs.interface import ActionError, EnvSettings, Row, VectorEnv
from actorlearn.envs.make import make, spec
from tests.envs.playing import assert_same, column, opened, play, poisoned_row, random_actions

STOOKE_ABBEEL = EnvSettings(
    id="ALE/MsPacman-v5", preset="stooke-abbeel", time_limit_steps=25, repeat_action_probability=0.25, stack=1
)
CASES = {  # settings, and steps enough for a game to end in every environment
    "dqn": (EnvSettings(id="ALE/Breakout-v5", time_limit_steps=40), 90),
    "paac": (EnvSettings(id="ALE/Pong-v5", preset="paac", time_limit_steps=20, stack=2), 50),
    "stooke-abbeel": (STOOKE_ABBEEL, 60),
    "cartpole": (EnvSettings(id="CartPole-v1", time_limit_steps=20), 300),
    "registered-limit": (EnvSettings(id="MountainCar-v0"), 450),
    "catch": (EnvSettings(id="actorlearn.envs.catch:Catch"), 100),
    "box-actions": (EnvSettings(id=f"{__name__}:Walk", time_limit_steps=9), 40),
    "recall": (EnvSettings(id="actorlearn.envs.recall:Recall", time_limit_steps=5), 40),
    "start-and-float64": (EnvSettings(id=f"{__name__}:Counter", time_limit_steps=5), 40),
}
SEEDS = (3, 11)


class Counter(gymnasium.Env):
    """Adds up its actions -1, 0 and 1, of a Discrete that does not start at 0; ends at 3."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([0.0, self.np_random.random()])
        return self.state, {}  # the same array each step: it must be copied

    def step(self, action):
        assert action in (-1, 0, 1)
        self.state[0] += action
        return self.state, np.float32(action), np.bool_(self.state[0] == 3), False, {}


class Walk(gymnasium.Env):
    """Adds up two numbers within -1 … 0.5 and -0.5 … 1, which it trusts its caller to give; ends far from the start."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(np.array([-1.0, -0.5]), np.array([0.5, 1.0]), (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random(2).astype(np.float32)
        return self.place, {}

    def step(self, action):
        assert action in self.action_space, action
        self.place = (self.place + action).astype(np.float32)
        return self.place, float(action.sum()), bool(np.abs(self.place).max() > 4), False, {}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[EnvSettings, int]:
    return CASES[request.param]


@pytest.fixture(scope="module")
def settings(case: tuple[EnvSettings, int]) -> EnvSettings:
    return case[0]


@pytest.fixture(scope="module")
def steps(case: tuple[EnvSettings, int]) -> int:
    return case[1]


@pytest.fixture(scope="module")
def env(settings: EnvSettings) -> Iterator[VectorEnv]:
    """One for all tests of a case: each begins with reset."""
    with opened(settings, SEEDS) as env:
        yield env


@pytest.fixture(scope="module")
def actions(env: VectorEnv, steps: int) -> npt.NDArray[Any]:
    return random_actions(env.spec, env.count, steps)


@pytest.fixture(scope="module")
def rows(env: VectorEnv, actions: npt.NDArray[np.int64]) -> list[Row]:
    """A whole play."""
    return play(env, actions)


def test_the_row_rules_hold(env: VectorEnv, rows: list[Row]) -> None:
    terminated, truncated, life_lost, first = (
        column(rows, name) for name in ("terminated", "truncated", "life_lost", "first")
    )
    over = terminated | truncated
    assert over.any(axis=0).all(), "the case is too short to see a game end in every environment"
    assert first[0].all()
    np.testing.assert_array_equal(first[1:], over[:-1])
    assert not (terminated & truncated).any()
    assert not (first & over).any()
    assert not (life_lost & (first | over)).any()
    reward = column(rows, "reward")
    assert np.isfinite(reward).all()
    assert not reward[first].any()
    if env.spec.observation_dtype == "float32":
        assert np.isfinite(column(rows, "observation")).all()


def test_the_time_limit_truncates_after_that_many_steps(settings: EnvSettings, rows: list[Row]) -> None:
    limit = 200 if settings.id == "MountainCar-v0" else settings.time_limit_steps
    for first, truncated, terminated in zip(
        *(column(rows, name).T for name in ("first", "truncated", "terminated")), strict=True
    ):
        starts, cuts = np.flatnonzero(first), np.flatnonzero(truncated)
        assert set(cuts - limit) <= set(starts)
        for start, following in itertools.pairwise(starts):
            assert following - 1 - start <= limit
            assert truncated[following - 1] == (not terminated[following - 1])
    if settings.id != "actorlearn.envs.catch:Catch":
        assert column(rows, "truncated").any()


def test_the_spec_says_what_rows_hold(env: VectorEnv, settings: EnvSettings) -> None:
    assert spec(settings) == env.spec
    assert env.count == len(SEEDS)
    assert env.spec.observation_dtype in ("uint8", "float32")
    assert env.spec.frames_per_step == (settings.frame_skip if settings.id.startswith("ALE/") else 1)
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    assert not (row.observation == 0xA5).all()


def test_reset_replays_the_same_games(env: VectorEnv, actions: npt.NDArray[np.int64], rows: list[Row]) -> None:
    assert_same(rows, play(env, actions))


def test_seeds_and_not_neighbours_make_the_games(env: VectorEnv, settings: EnvSettings, steps: int) -> None:
    actions = np.repeat(random_actions(env.spec, 1, steps), 2, axis=1)
    rows = play(env, actions)
    observation = column(rows, "observation")
    assert (observation[:, 0] != observation[:, 1]).any()
    with opened(settings, SEEDS[1:]) as alone:
        rows_alone = play(alone, actions[:, :1])
    for name in ("observation", "reward", "terminated", "truncated", "first"):
        np.testing.assert_array_equal(column(rows_alone, name)[:, 0], column(rows, name)[:, 1])


def test_the_action_after_a_game_is_ignored(env: VectorEnv, actions: npt.NDArray[np.int64], rows: list[Row]) -> None:
    ignored = column(rows, "first")[1:]  # the action before a first row
    assert ignored.any()
    if isinstance(env.spec.actions, int):
        others = np.where(ignored, (actions + 1) % env.spec.actions, actions)
    else:
        others = np.where(ignored[..., None], actions + 1, actions)
    assert_same(rows, play(env, others))


def test_a_written_row_is_left_alone(env: VectorEnv) -> None:
    row, copy = (poisoned_row(env.spec, env.count) for _ in range(2))
    env.reset(row)
    for action in random_actions(env.spec, env.count, 8):
        copy.observation[...] = row.observation
        env.step(action, poisoned_row(env.spec, env.count))
        np.testing.assert_array_equal(copy.observation, row.observation)


def test_any_dtype_of_the_kind_will_do_for_actions(env: VectorEnv) -> None:
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    for dtype in (np.uint8, np.int32, np.int64) if isinstance(env.spec.actions, int) else (np.float32, np.float64):
        env.step(np.ones_like(random_actions(env.spec, env.count, 1)[0], dtype), row)
        assert np.isfinite(row.reward).all()


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (lambda actions: np.array([0, actions]), "environment 1: action {actions} must be in 0 … {last}"),
        (lambda actions: np.array([-1, 0]), "environment 0: action -1 must be in 0 … {last}"),
        (lambda actions: np.array([0]), r"action is int64\[1\]; it must be one integer for each of 2"),
        (lambda actions: np.array([0.0, 0.0]), "action is float64"),
    ],
)
def test_a_wrong_action_is_refused_and_does_no_harm(env: VectorEnv, action, says: str) -> None:
    actions = env.spec.actions
    if not isinstance(actions, int):
        actions, says = 2, r"action is .*; it must be floats of shape \[2, 2\]"  # which none of them is
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    with pytest.raises(ActionError, match=says.format(actions=actions, last=actions - 1)):
        env.step(action(actions), row)
    env.step(np.zeros_like(random_actions(env.spec, env.count, 1)[0]), row)
    assert np.isfinite(row.reward).all()


def test_closing_twice_is_harmless_and_stepping_after_it_is_not(settings: EnvSettings) -> None:
    env = make(settings, [0])
    row = poisoned_row(env.spec, 1)
    env.reset(row)
    env.close()
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.step(random_actions(env.spec, 1, 1)[0], row)
    with pytest.raises(RuntimeError, match="closed"):
        env.reset(row)
