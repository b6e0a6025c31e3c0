"""Before a run starts, a restored environment is compared with the original: a false claim of exactness is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from actorlearn.envs.catch import Catch
from actorlearn.envs.interface import empty_row
from actorlearn.tasks.describe import difference_after_restore
from launch.plan import probe
from launch.plan.exactness import choose_exact
from launch.spawning.prepared import prepared
from launch.topology.load import parse
from tests import named
from tests.envs.playing import opened

HERE = __name__


class Chance(Catch):
    """Draws from a generator that its state does not contain."""

    def step(self, action: Any) -> Any:
        observation, _, *flags = super().step(action)
        return observation, float(np.random.default_rng().random()), *flags


class Forgets(Catch):
    """Leaves out a number of its state."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, _, *flags = super().step(action)
        return observation, float(self.steps), *flags


class Unreadable(Catch):
    """Has no state at all times."""

    def state(self) -> dict[str, Any]:
        raise KeyError("ball")


class Unwritable(Catch):
    """Does not accept its own state."""

    def restore(self, state: dict[str, Any]) -> None:
        raise OSError("no such game")


class OnlyOnce(Catch):
    """Holds what only one environment of a process can have."""

    taken = False

    def __init__(self) -> None:
        if OnlyOnce.taken:
            raise OSError("port 4000 is in use")
        OnlyOnce.taken = True
        super().__init__()


class Stuck(Catch):
    """Cannot take a step after its state was restored."""

    restored = False

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.restored = True

    def step(self, action: Any) -> Any:
        if self.restored:
            raise OSError("not connected")
        return super().step(action)


class Slow(Catch):
    """Takes longer for a step than a slow environment's bound."""

    def step(self, action: Any) -> Any:
        time.sleep(0.006)
        return super().step(action)


@pytest.fixture(scope="module", autouse=True)
def fork_server() -> Iterator[None]:
    """A process that has imported torch, of which each trial is a fork."""
    with prepared():
        yield


def description(id: str) -> probe.Description:
    return probe.describe(parse(f"env: {{id: {id}}}\nalgorithm: {{name: ppo}}\ntotal_steps: 1000\n"))


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (Chance, "an environment that was restored from its state plays another game: reward differs after 1 steps; "),
        (Forgets, "an environment that was restored from its state plays another game: reward differs after 1 steps; "),
        (Unreadable, "its state cannot be saved: KeyError: 'ball' (test_restored_games.py, line "),
        (Unwritable, "its state cannot be restored: ValueError: "),
        (Stuck, "once restored, it cannot take a step: "),
    ],
)
def test_an_environment_that_does_not_go_on_as_it_stood_is_not_exact(env: type[Catch], says: str) -> None:
    found = description(f"{HERE}:{env.__name__}")
    assert found.inexact.startswith(says)
    choice = choose_exact(parse("env: {id: CartPole-v1}\ntotal_steps: 1000\n"), found)
    assert choice.value is False and choice.why == f"env.id: {found.inexact}"


def test_a_slow_environment_is_said_not_to_be_verified() -> None:
    found = description(f"{HERE}:Slow")
    assert found.inexact == "" and found.unverified.startswith("the environment is slow")


def test_an_environment_that_can_be_made_only_once_is_said_not_to_be_verified() -> None:
    found = description(f"{HERE}:OnlyOnce")
    assert found.inexact == "" and found.unverified.startswith("a second environment cannot be made: ")
    assert "port 4000 is in use" in found.unverified and "\n" not in found.unverified


@pytest.mark.parametrize("id", ["actorlearn.envs.catch:Catch", "CartPole-v1", f"{HERE}:Slow"])
def test_an_environment_with_its_whole_state_is_exact(id: str) -> None:
    settings = named.env(id=id)
    with opened(settings, [1]) as env, opened(settings, [2]) as other:
        env.reset(empty_row(env.spec, 1))
        assert difference_after_restore(env, other) == ""
