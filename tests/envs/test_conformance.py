"""What every environment owes the rest of the system; a new implementation adds one line to CASES."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from actorlearn.actions import MultiDiscrete, cell, choices
from actorlearn.envs.interface import ActionError, Row, VectorEnv
from actorlearn.envs.make import make, spec
from actorlearn.envs.specs import EnvSettings, WrapperSettings
from tests import named
from tests.envs.playing import FLAGS, assert_same, column, opened, play, poisoned_row, random_actions

STOOKE_ABBEEL = named.env(
    id="ALE/MsPacman-v5", preset="stooke-abbeel", time_limit_steps=25, repeat_action_probability=0.25, stack=1
)
CLUMSY = (
    WrapperSettings(name="gymnasium.wrappers:TimeLimit", kwargs={"max_episode_steps": 4}),
    WrapperSettings(name="gymnasium.wrappers:RecordEpisodeStatistics"),
)
CASES = {  # settings, and steps enough for a game to end in every environment
    "dqn": (named.env(id="ALE/Breakout-v5", time_limit_steps=40), 90),
    "paac": (named.env(id="ALE/Pong-v5", preset="paac", time_limit_steps=20, stack=2), 50),
    "stooke-abbeel": (STOOKE_ABBEEL, 60),
    "cartpole": (named.env(id="CartPole-v1", time_limit_steps=20), 300),
    "registered-limit": (named.env(id="MountainCar-v0"), 450),
    "catch": (named.env(id="actorlearn.envs.catch:Catch"), 100),
    "box-actions": (named.env(id=f"{__name__}:Walk", time_limit_steps=9), 40),
    "recall": (named.env(id="actorlearn.envs.recall:Recall", time_limit_steps=5), 40),
    "start-and-float64": (named.env(id=f"{__name__}:Counter", time_limit_steps=5), 40),
    "acrobot": (named.env(id="Acrobot-v1", time_limit_steps=30), 90),
    "pendulum": (named.env(id="Pendulum-v1", time_limit_steps=30), 90),
    "continuous-mountain-car": (named.env(id="MountainCarContinuous-v0", time_limit_steps=30), 90),
    "cliff-walking": (named.env(id="CliffWalking-v1", kwargs={"is_slippery": True}, time_limit_steps=30), 90),
    "one-hot": (named.env(id="FrozenLake-v1", time_limit_steps=6), 60),
    "dict-and-several-choices": (named.env(id=f"{__name__}:Safe", time_limit_steps=7), 60),
    "kwargs-and-wrappers": (named.env(id=f"{__name__}:Safe", kwargs={"digits": 1}, wrappers=CLUMSY), 60),
}
SEEDS = (3, 11)


class Counter(gymnasium.Env):
    """Adds up its actions -1, 0 and 1, of a Discrete that does not start at 0; ends at 3."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = np.array([0.0, self.np_random.random()])
        return self.sum, {}  # the same array each step: it must be copied

    def step(self, action):
        assert action in (-1, 0, 1)
        self.sum[0] += action
        return self.sum, np.float32(action), np.bool_(self.sum[0] == 3), False, {}

    def state(self):
        return {"sum": self.sum, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.sum = state["sum"]
        self.np_random.bit_generator.state = state["generator"]


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

    def state(self):
        return {"place": self.place, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.place = state["place"]
        self.np_random.bit_generator.state = state["generator"]


class Safe(gymnasium.Env):
    """Opens when all its digits and its switch are as they were drawn; tells how many are, in words too."""

    def __init__(self, digits: int = 2) -> None:
        self.observation_space = gymnasium.spaces.Dict(
            right=gymnasium.spaces.Discrete(digits + 2),
            last=gymnasium.spaces.MultiDiscrete([3] * digits + [2], start=[1] * digits + [0]),
            noise=gymnasium.spaces.Box(-1, 1, (2, 2), np.float64),
            said=gymnasium.spaces.Text(40),
        )
        self.action_space = gymnasium.spaces.MultiDiscrete([3] * digits + [2], start=[1] * digits + [0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.secret = self.np_random.integers(self.action_space.nvec) + self.action_space.start
        return self._seen(self.action_space.start), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        right = int((action == self.secret).sum())
        return self._seen(action), float(right), right == len(action), False, {}

    def _seen(self, action):
        right = int((action == self.secret).sum())
        noise = self.np_random.uniform(-1, 1, (2, 2))
        return {"right": right, "last": action, "noise": noise, "said": f"{right} are right"}

    def state(self):
        return {"secret": self.secret, "generator": self.np_random.bit_generator.state}

    def restore(self, state):
        self.secret = state["secret"]
        self.np_random.bit_generator.state = state["generator"]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.nightly if name in ("dqn", "stooke-abbeel") else []) for name in CASES
    ],
)
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
    registered = {"MountainCar-v0": 200}
    own = registered.get(settings.id, settings.time_limit_steps or 2**62)  # 0: none
    limit = 4 if getattr(settings, "wrappers", ()) else own
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
    if isinstance(env.spec.actions, tuple):
        others = np.where(ignored[..., None], actions + 1, actions)
    else:
        several = isinstance(env.spec.actions, MultiDiscrete)
        where = ignored[..., None] if several else ignored
        others = np.where(where, (actions + 1) % choices(env.spec.actions), actions)
    assert_same(rows, play(env, others))


def test_a_written_row_is_left_alone(env: VectorEnv) -> None:
    row, copy = (poisoned_row(env.spec, env.count) for _ in range(2))
    env.reset(row)
    for action in random_actions(env.spec, env.count, 8):
        copy.observation[...] = row.observation
        env.step(action, poisoned_row(env.spec, env.count))
        np.testing.assert_array_equal(copy.observation, row.observation)


BOTH, SECOND = np.array([True, True]), np.array([False, True])


def test_a_restart_begins_the_chosen_games_and_leaves_the_others_alone(
    env: VectorEnv, actions: npt.NDArray[np.int64], rows: list[Row]
) -> None:
    """Whatever the chosen environment plays: a game's first row, its middle, its last."""
    played = play(env, actions[:0])
    ended = column(rows, "terminated") | column(rows, "truncated")
    moments = {0, 3, *np.flatnonzero(ended[:, 0])[:1].tolist(), *np.flatnonzero(ended[:, 1])[:2].tolist()}
    for t, action in enumerate(actions):
        if t in moments:
            begun = poisoned_row(env.spec, env.count)
            env.restart(SECOND, begun)
            assert np.isnan(begun.reward[0]) and begun.terminated[0], "a cell of the other environment was written"
            assert (begun.reward[1], begun.first[1]) == (0.0, True)
            assert not (begun.terminated | begun.truncated | begun.life_lost)[1]
            assert not (begun.observation[1] == 0xA5).all() and not np.isnan(begun.observation[1].astype(float)).any()
        played.append(poisoned_row(env.spec, env.count))
        env.step(action, played[-1])
        if t in moments:
            assert not played[-1].first[1], "the first action of a game that was restarted was ignored"
    for name in ("observation", "reward", *FLAGS):
        np.testing.assert_array_equal(column(played, name)[:, 0], column(rows, name)[:, 0], err_msg=name)


def test_restarts_are_repeated_by_the_same_seeds(env: VectorEnv, actions: npt.NDArray[np.int64]) -> None:
    def once() -> list[Row]:
        played = play(env, actions[:10])
        begun = [poisoned_row(env.spec, env.count) for _ in range(2)]
        env.restart(BOTH, begun[0])
        begun[1].take(begun[0], BOTH)
        env.restart(SECOND, begun[1])
        for action in actions[10:30]:
            played.append(poisoned_row(env.spec, env.count))
            env.step(action, played[-1])
        return [*played, *begun]

    assert_same(once(), once())


def test_a_time_limit_counts_from_the_restart(env: VectorEnv, settings: EnvSettings) -> None:
    limit = settings.time_limit_steps
    if not 0 < limit <= 100:
        pytest.skip("no game reaches the limit")
    played = limit // 2
    stay = np.zeros_like(random_actions(env.spec, env.count, played))
    row = play(env, stay)[-1]
    env.restart(SECOND, row)
    steps = 0
    while not (row.terminated | row.truncated)[1]:
        env.step(stay[0], row)
        steps += 1
    if row.terminated[1]:
        pytest.skip("games end before the limit")
    assert limit - played < steps <= limit  # no-ops count too, and are fewer than the steps before the restart


def through_a_file(state: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def played_on(env: VectorEnv, actions: npt.NDArray[Any]) -> list[Row]:
    """Rows of so many steps, with restarts among them."""
    rows = [poisoned_row(env.spec, env.count)]
    for t, action in enumerate(actions):
        rows.append(poisoned_row(env.spec, env.count))
        env.step(action, rows[-1])
        if t % 11 == 5:
            env.restart(SECOND if t % 2 else BOTH, rows[-1])
    return rows[1:]


def test_whoever_has_its_state_goes_on_as_it_does(
    env: VectorEnv, settings: EnvSettings, actions: npt.NDArray[Any], rows: list[Row]
) -> None:
    """From a first row, from within games, from last rows and from restarts; into environments that played others."""
    assert env.spec.inexact == ""
    over = column(rows, "terminated") | column(rows, "truncated")
    moments = {7, *np.flatnonzero(over[:, 1])[-1:].tolist()}
    if not settings.id.startswith("ALE/"):  # a seed takes these 0.1 s
        moments |= {0, 1, *np.flatnonzero(over[:, 0])[:1].tolist()}
    on = np.concatenate([actions[-20:], actions[:30]])
    with opened(settings, [1000, 1001]) as other:
        play(other, actions[:3])
        for moment in sorted(moments):
            play(env, actions[:moment])
            if moment == 7:
                env.restart(SECOND, poisoned_row(env.spec, env.count))
            state = through_a_file(env.state())
            went_on = played_on(env, on)
            other.restore(state)
            again = through_a_file(other.state())
            assert state.keys() == again.keys() and all((state[name] == again[name]).all() for name in state)
            assert_same(went_on, played_on(other, on))


def test_a_state_of_others_is_refused(env: VectorEnv, settings: EnvSettings) -> None:
    play(env, random_actions(env.spec, env.count, 2))
    state = env.state()
    with opened(settings, [1, 2, 3]) as three, pytest.raises(ValueError, match="3"):
        three.restore(state)
    for name in [*state][:3]:
        with pytest.raises(ValueError, match=settings.id):
            env.restore({other: array for other, array in state.items() if other != name})
    play(env, random_actions(env.spec, env.count, 2))


def test_random_actions_are_uniform_and_the_generators_own(env: VectorEnv) -> None:
    drawn = [np.stack([env.random_actions(np.random.default_rng(seed)) for seed in range(600)]) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    dtype, shape = cell(env.spec.actions)
    assert drawn[0].shape == (600, env.count, *shape) and drawn[0].dtype == dtype
    if isinstance(env.spec.actions, tuple):
        return
    parts = drawn[0].reshape(600 * env.count, -1).T
    for part, number in zip(parts, np.ravel(choices(env.spec.actions)), strict=True):
        counts = np.bincount(part, minlength=number)
        assert len(counts) == number
        assert counts.min() > 0.7 * len(part) / number


def test_any_dtype_of_the_kind_will_do_for_actions(env: VectorEnv) -> None:
    row = poisoned_row(env.spec, env.count)
    env.reset(row)
    floats = isinstance(env.spec.actions, tuple)
    for dtype in (np.float32, np.float64) if floats else (np.uint8, np.int32, np.int64):
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
        actions, says = 2, r"action is .*; it must be (floats|integers) of shape \[2, \d\]"  # which none of them is
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
    with pytest.raises(RuntimeError, match="closed"):
        env.restart(np.array([True]), row)
