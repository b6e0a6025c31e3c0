"""Vector environments of gymnasium give the rows of single environments, in every autoreset mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.envs import registered
from actorlearn.envs.construct import construct_vector
from actorlearn.envs.gymnasium_env import Gymnasium, make, make_rendered, spec
from actorlearn.envs.gymnasium_vector import GymnasiumVector
from actorlearn.envs.interface import MalformedStepError, Row
from actorlearn.envs.interface import VectorEnv as OurVectorEnv
from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.testing.environment import assert_same, column, play, poisoned_row, random_actions
from tests.envs.games import Counter, Safe, Walk

SEEDS = (3, 11, 5)
STEPS = 120
ENVIRONMENTS: Mapping[str, Callable[[], gymnasium.Env]] = {
    "counter": Counter,
    "walk": Walk,
    "safe": Safe,
    "cartpole": CartPoleEnv,
}
ZERO = {"counter": -1, "walk": np.zeros(2), "safe": np.array([1, 1, 0]), "cartpole": 0}
"""Environment -> its own action for the action 0 of a policy."""
CARTPOLE_OF_GYMNASIUM = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"


class BegunTwice(gymnasium.Wrapper):
    """Plays a step of another game before each game but the first, as the modes SAME_STEP and DISABLED do."""

    def __init__(self, env: gymnasium.Env, zero: Any) -> None:
        super().__init__(env)
        self.zero = zero

    def reset(self, *, seed=None, options=None):
        if seed is None:
            self.env.reset()
            self.env.step(self.zero)
        return self.env.reset(seed=seed)


def one_by_one(name: str, monkeypatch: pytest.MonkeyPatch, twice: bool = False) -> Gymnasium:
    def construct(settings: GymnasiumSettings) -> tuple[gymnasium.Env, int | None]:
        env = ENVIRONMENTS[name]()
        return (BegunTwice(env, ZERO[name]) if twice else env), None

    monkeypatch.setattr("actorlearn.envs.gymnasium_env.construct", construct)
    return Gymnasium(GymnasiumSettings(id=name), SEEDS)


def together(name: str, mode: AutoresetMode) -> GymnasiumVector:
    return GymnasiumVector(name, SyncVectorEnv([ENVIRONMENTS[name]] * len(SEEDS), autoreset_mode=mode), SEEDS)


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("mode", AutoresetMode)
def test_rows_equal_those_of_environments_stepped_one_after_the_other(
    name: str, mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = together(name, mode)
    single = one_by_one(name, monkeypatch, twice=mode is not AutoresetMode.NEXT_STEP)
    actions = random_actions(vector.spec, len(SEEDS), STEPS)
    assert single.spec.observation_from == vector.spec.observation_from
    rows = play(single, actions)
    assert_same(rows, play(vector, actions))
    assert column(rows, "first").sum() > 2 * len(SEEDS), "too few games for a proof"


Event = tuple[int, list[bool]]


@given(st.lists(st.tuples(st.integers(0, 2**31), st.lists(st.booleans(), min_size=3, max_size=3)), max_size=40))
def test_restarts_at_any_time_give_the_same_rows_in_a_vector_and_singly(events: list[Event]) -> None:
    def history(env: OurVectorEnv) -> list[Row]:
        rows = [poisoned_row(env.spec, env.count)]
        env.reset(rows[0])
        for number, chosen in events:
            rows.append(poisoned_row(env.spec, env.count))
            env.step(env.random_actions(np.random.default_rng(number)), rows[-1])
            env.restart(np.array(chosen), rows[-1])
        return rows

    with pytest.MonkeyPatch.context() as patch:
        single = one_by_one("counter", patch)
    assert_same(history(single), history(together("counter", AutoresetMode.NEXT_STEP)))


# What env.vector means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "stepped_together"),
    [
        ({}, True),
        ({"kwargs": {"sutton_barto_reward": True}}, True),
        ({"vector": "none"}, False),
        ({"wrappers": ("gymnasium.wrappers:RecordEpisodeStatistics",)}, False),
        ({"id": "MountainCar-v0"}, False),
        ({"id": "tests.envs.test_gymnasium_vector:Two"}, True),
        ({"id": "many-poles", "vector": CARTPOLE_OF_GYMNASIUM}, True),
        ({"vector": CARTPOLE_OF_GYMNASIUM}, True),
    ],
)
def test_env_vector_and_the_other_keys_decide_whether_environments_step_together(
    keys: dict[str, Any], stepped_together: bool
) -> None:
    settings = GymnasiumSettings(**{"id": "CartPole-v1", **keys})
    env = make(settings, [0, 1])
    assert isinstance(env, GymnasiumVector) == stepped_together
    assert spec(settings) == env.spec
    env.close()


@pytest.mark.parametrize("vector", ["auto", "none", CARTPOLE_OF_GYMNASIUM])
@pytest.mark.parametrize("env_id", ["CartPole-v0", "gymnasium:CartPole-v0"])
def test_the_registered_time_limit_holds_in_each_form_of_the_id(env_id: str, vector: str) -> None:
    """The actions balance the pole, so that only the limit of 200 steps ends a game."""
    env = make(GymnasiumSettings(id=env_id, vector=vector), [0, 1])
    row = poisoned_row(env.spec, 2)
    env.reset(row)
    ends = []
    for step in range(1, 202):
        env.step((row.observation[:, 2] + row.observation[:, 3] > 0).astype(np.int64), row)
        ends += [step] * int((row.terminated | row.truncated).any())
    assert ends == [200] and row.first.all()
    env.close()


@pytest.mark.parametrize(("own", "limit", "expected"), [(50, 7, 7), (5, 7, 5), (50, 0, 50), (900, 0, 900)])
@pytest.mark.parametrize("vector", ["auto", CARTPOLE_OF_GYMNASIUM])
def test_the_shorter_of_the_limits_of_kwargs_and_of_time_limit_steps_holds(
    vector: str, own: int, limit: int, expected: int
) -> None:
    kwargs = {"max_episode_steps": own}
    made = construct_vector(
        GymnasiumSettings(id="CartPole-v1", vector=vector, kwargs=kwargs, time_limit_steps=limit), 2
    )
    assert made is not None
    vectors, more = made
    assert (vectors.unwrapped.max_episode_steps, more) == (expected, 0)


def test_the_registered_time_limit_holds_if_only_the_module_of_the_id_registers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "registering_poles.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Poles-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=7)\n"
    )
    made, _ = construct_vector(GymnasiumSettings(id="registering_poles:Poles-v0", vector=CARTPOLE_OF_GYMNASIUM), 2)
    assert made.unwrapped.max_episode_steps == 7


def test_packages_that_register_ids_are_not_loaded_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(registered, "load_entry_points", refuse)
    env_id = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    assert construct_vector(GymnasiumSettings(id=env_id, vector=CARTPOLE_OF_GYMNASIUM), 2)


class Two(VectorEnv):
    """Counts steps; ends all games after 3; takes one seed for all."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, step: Any = None, reset: Any = None, mode: str = "NextStep") -> None:
        self.num_envs = num_envs
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = Discrete(2)
        self.metadata = {"autoreset_mode": mode} if mode else {}
        self.answer, self.first = step, reset

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = np.zeros(self.num_envs)
        return self.first or (self.seen(), {})

    def step(self, actions):
        self.steps = np.where(self.steps == 3, 0, self.steps + 1)
        none = np.zeros(self.num_envs, bool)
        whole = {"observation": self.seen(), "reward": self.steps, "terminated": self.steps == 3, "truncated": none}
        return self.answer if isinstance(self.answer, tuple) else (*(whole | (self.answer or {})).values(), {})

    def seen(self):
        return np.stack([self.steps, np.full(self.num_envs, self.np_random.random())], 1).astype(np.float32)


SECTION = {"id": "two", "vector": "tests.envs.test_gymnasium_vector:Two"}


def test_a_vector_that_takes_one_seed_gets_one_that_depends_on_all_seeds() -> None:
    actions = np.zeros((9, 2), np.int64)
    plays = [play(make(GymnasiumSettings(**SECTION), seeds), actions) for seeds in ([0, 1], [0, 1], [0, 2])]
    assert_same(plays[0], plays[1])
    assert (column(plays[0], "observation") != column(plays[2], "observation")).any()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"vector": "tests.envs.games:Absent"},
            "env.vector: 'tests.envs.games:Absent': tests.envs.games has no 'Absent'",
        ),
        (
            {"vector": "tests.envs.games:Counter"},
            "with kwargs .* unexpected keyword argument 'num_envs'",
        ),
        ({"vector": "builtins:dict"}, "makes {'num_envs': 2}; it must make a gymnasium.vector.VectorEnv"),
        (
            {"wrappers": ("gymnasium.wrappers:TimeLimit",)},
            "cannot be used with env.wrappers: env.wrappers wrap single environments; leave them",
        ),
        (
            {"id": SECTION["vector"], "vector": "auto", "wrappers": ("gymnasium.wrappers:TimeLimit",)},
            "env.id: '.*:Two' cannot be used with env.wrappers: env.wrappers wrap single environments; leave them out$",
        ),
        ({"kwargs": {"mode": ""}}, r'metadata\["autoreset_mode"\] of .*:Two is None; it must be one of gymnasium'),
        ({"kwargs": {"mode": "Never"}}, r"is 'Never'; it must be one of gymnasium"),
        (
            {"time_limit_steps": 2},
            r"limit of 2 steps \(env\.time_limit_steps, or that of env\.id\) cannot be .*:Two cannot .* max_episode_",
        ),
        ({"kwargs": {"size": 1}}, "it takes num_envs, step=None, reset=None, mode='NextStep'"),
        ({"scale_actions": False, "id": "absent"}, ""),
    ],
)
def test_keys_that_do_not_fit_are_refused_in_one_line(keys: dict[str, Any], says: str) -> None:
    settings = GymnasiumSettings(**{**SECTION, **keys})
    if not says:
        make(settings, [0, 1]).close()
        return
    with pytest.raises(ValueError, match=says) as caught:
        make(settings, [0, 1])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((1, 2), r"all environments of 'two': step\(\) is \(1, 2\); it must return 5 values"),
        ({"reward": np.zeros(3)}, r"reward is array\(\[0., 0., 0.\]\); it must be 2 numbers"),
        ({"reward": None}, "reward is None; it must be 2 numbers"),
        ({"reward": np.array([0.0, np.nan])}, "environment 1 of 'two': reward is nan; it must be finite in float32"),
        ({"terminated": np.zeros(2)}, "terminated is .*; it must be 2 values, each True or False"),
        ({"truncated": [False]}, "truncated is .*; it must be 2 values, each True or False"),
        ({"observation": np.zeros((2, 3))}, r"the shape of observation is \(2, 3\); by its space it must be \(2, 2\)"),
        ({"observation": np.full((2, 2), np.inf)}, r"environment 0 of 'two': observation\[0\] is inf"),
    ],
)
def test_a_malformed_step_is_refused_and_changes_no_row(answer: Any, says: str) -> None:
    env = make(GymnasiumSettings(**SECTION, kwargs={"step": answer}), [0, 1])
    row, untouched = (poisoned_row(env.spec, 2) for _ in range(2))
    env.reset(poisoned_row(env.spec, 2))
    with pytest.raises(MalformedStepError, match=says):
        env.step(np.zeros(2, np.int64), row)
    assert_same([row], [untouched])


def test_a_malformed_reset_is_refused() -> None:
    env = make(GymnasiumSettings(**SECTION, kwargs={"reset": (1, 2, 3)}), [0, 1])
    with pytest.raises(MalformedStepError, match=r"reset\(\) is \(1, 2, 3\); it must return 2 values"):
        env.reset(poisoned_row(env.spec, 2))


def test_a_final_observation_that_is_missing_is_refused() -> None:
    env = make(GymnasiumSettings(**SECTION, kwargs={"mode": "SameStep"}), [0, 1])
    row = poisoned_row(env.spec, 2)
    env.reset(row)
    with pytest.raises(
        MalformedStepError,
        match='environment 0 of .*: info is {}; with autoreset mode SAME_STEP it must have the key "final_',
    ):
        for _ in range(3):
            env.step(np.zeros(2, np.int64), row)


def test_a_vector_that_renders_itself_gives_one_picture_for_each_game() -> None:
    pytest.importorskip("pygame")
    env = make_rendered(GymnasiumSettings(id="CartPole-v1"), [0, 1])
    env.reset(poisoned_row(env.spec, 2))
    first, second = env.render()
    assert first.shape == second.shape == (400, 600, 3) and (first != second).any()
    env.close()


class Painted(Two):
    """Renders the pictures of all games as one array [B, height, width, 3]."""

    def __init__(self, num_envs: int, render_mode: str) -> None:
        super().__init__(num_envs)
        self.render_mode = render_mode

    def render(self):
        return np.arange(2, dtype=np.uint8)[:, None, None, None].repeat(3, axis=3)


def test_the_pictures_of_a_vector_may_be_one_array() -> None:
    env = make_rendered(GymnasiumSettings(id="two", vector="tests.envs.test_gymnasium_vector:Painted"), [0, 1])
    assert [picture.tolist() for picture in env.render()] == [[[[0, 0, 0]]], [[[1, 1, 1]]]]
    env.close()


def test_rendering_a_vector_without_pictures_is_refused() -> None:
    env = make(GymnasiumSettings(**SECTION), [0, 1])
    with pytest.raises(ValueError, match="env.id: 'two' cannot be rendered: NotImplementedError"):
        env.render()
