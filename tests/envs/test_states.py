"""States of environments and wrappers: which can be saved and restored, and the reason given for the others."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from actorlearn.envs import states
from actorlearn.envs.catch import Catch
from actorlearn.envs.make import make, spec
from actorlearn.envs.specs import EnvSettings, WrapperSettings
from actorlearn.testing.environment import assert_same, play, poisoned_row, random_actions
from tests import named
from tests.envs.playing import opened

HERE = __name__


class Forgetful(Catch):
    """Catch with a value of the test in its state."""

    own: Any = None

    def state(self) -> dict[str, Any]:
        return {"own": self.own, **super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.own = state.pop("own")
        super().restore(state)


class Speechless(gymnasium.Env[Any, Any]):
    """Has its state in an attribute ``state``, where other environments have a method."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self.state = np.zeros(1)

    def reset(self, **_: Any) -> Any:
        return self.state, {}

    def step(self, action: Any) -> Any:
        return self.state, 0.0, False, False, {}


class Counts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts steps, and has them in its state."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, _, *flags = super().step(action)
        return observation, float(self.steps), *flags

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


class Remembers(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Might remember anything."""


@pytest.mark.parametrize(
    "value",
    [
        {"int128": 2**127 + 1, "nothing": None, "word": "π", "nested": [{"deep": [1.5, -0.0, float("inf")]}, []]},
        {"array": np.arange(6, dtype=np.uint16).reshape(2, 3), "number": np.float32(0.1), "empty": np.zeros((0, 2))},
        {"<array>": 3, "other": True},
        {"generator": np.random.Generator(np.random.MT19937(3)).bit_generator.state},
    ],
)
def test_values_of_a_state_are_restored_unchanged(value: dict[str, Any]) -> None:
    env, other = Forgetful(), Forgetful()
    for each in (env, other):
        each.reset(seed=1)
    env.own = value
    states.put_back([other], states.read([env]))
    np.testing.assert_equal(other.own, value)
    assert str(other.own) == str(value)


def test_a_saved_state_does_not_change_with_the_environment() -> None:
    env, other = Forgetful(), Forgetful()
    for each in (env, other):
        each.reset(seed=1)
    env.own = np.zeros(3)
    taken = states.read([env])
    env.own += 1
    states.put_back([other], taken)
    other.own += 5
    states.put_back([env], taken)
    assert env.own.tolist() == [0, 0, 0]


@pytest.mark.parametrize("value", [{1: 2}, {1, 2}, np.array([object()]), object()])
def test_a_state_with_a_value_that_cannot_be_saved_is_refused(value: Any) -> None:
    env = Forgetful()
    env.reset(seed=1)
    env.own = value
    with pytest.raises(TypeError, match=rf"{HERE}:Forgetful contains .* it may contain numbers, strings"):
        states.read([env])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (named.env(id=f"{HERE}:Speechless"), f"the environment {HERE}:Speechless cannot be saved: its class has no"),
        (named.env(id="Taxi-v4"), "the environment gymnasium.envs.toy_text.taxi:TaxiEnv cannot be saved"),
        (
            named.env(
                id="actorlearn.envs.catch:Catch",
                wrappers=(WrapperSettings(name=f"{HERE}:Counts"), WrapperSettings(name=f"{HERE}:Remembers")),
            ),
            f"the wrapper {HERE}:Remembers cannot be saved: its class has no methods state",
        ),
        (
            named.env(
                id="CartPole-v1",
                wrappers=(
                    WrapperSettings(name="gymnasium.wrappers:FlattenObservation"),
                    WrapperSettings(name="gymnasium.wrappers:NormalizeReward"),
                ),
            ),
            "the wrapper gymnasium.wrappers.stateful_reward:NormalizeReward cannot be saved",
        ),
    ],
)
def test_an_environment_or_wrapper_that_cannot_be_saved_is_named(settings: EnvSettings, says: str) -> None:
    assert spec(settings).inexact.startswith(says)
    with opened(settings, [0]) as env, pytest.raises(RuntimeError, match="cannot be saved"):
        env.state()


def test_wrappers_with_state_and_restore_or_without_memory_can_be_saved() -> None:
    wrappers = (
        WrapperSettings(name="gymnasium.wrappers:DtypeObservation", kwargs={"dtype": "float32"}),
        WrapperSettings(name=f"{HERE}:Counts"),
    )
    settings = named.env(id="actorlearn.envs.catch:Catch", wrappers=wrappers)
    with opened(settings, [3]) as env, opened(settings, [4]) as other:
        assert env.spec.inexact == ""
        play(env, random_actions(env.spec, 1, 30))
        other.restore(env.state())
        rows = [poisoned_row(env.spec, 1) for _ in range(2)]
        for each, row in zip((env, other), rows, strict=True):
            each.step(np.array([1]), row)
        assert rows[0].reward == rows[1].reward == 28.0, "27 steps before, because three of 30 were resets"


def test_the_environment_of_the_ledger_continues_from_a_restored_state() -> None:
    settings = named.env(id="tests.ledger.env:Ledger")
    with opened(settings, [3]) as env, opened(settings, [4]) as other:
        play(env, random_actions(env.spec, 1, 30))
        other.restore(env.state())
        for action in random_actions(env.spec, 1, 30, seed=1):
            rows = [poisoned_row(env.spec, 1) for _ in range(2)]
            for each, row in zip((env, other), rows, strict=True):
                each.step(action, row)
            assert_same(rows[:1], rows[1:])


def test_a_state_of_other_wrappers_is_refused() -> None:
    bare = named.env(id="actorlearn.envs.catch:Catch")
    wrapped = named.env(id=bare.id, wrappers=(WrapperSettings(name=f"{HERE}:Counts"),))
    with opened(bare, [1]) as env, opened(wrapped, [1]) as other:
        play(env, random_actions(env.spec, 1, 3))
        with pytest.raises(ValueError, match=r"\(1\) or their wrappers differ from those of the saved state"):
            other.restore(env.state())


def test_closed_environments_have_no_state() -> None:
    env = make(named.env(id="actorlearn.envs.catch:Catch"), [0])
    env.reset(poisoned_row(env.spec, 1))
    state = env.state()
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.state()
    with pytest.raises(RuntimeError, match="closed"):
        env.restore(state)


def test_restoring_a_state_sets_only_known_attributes() -> None:
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    state = states.read([env])
    text = state["text"].tobytes().replace(b'"_elapsed_steps"', b'"render": 7, "_elapsed_steps"')
    states.put_back([env], {**state, "text": np.frombuffer(text, np.uint8)})
    layers = [env, env.unwrapped, *(layer for layer in (getattr(env, "env", None),) if layer is not None)]
    assert all(vars(layer).get("render") is None for layer in layers)
    env.close()
