"""Recipes: the calls that make an environment as in a run, the parts of its observations, and missing recipes."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv

from actorlearn.envs.interface import empty_row
from actorlearn.envs.recipe import recipe
from tests import named
from tests.envs.playing import opened
from tests.envs.spaces import of


def test_the_parts_of_an_observation_are_named_with_the_conversion_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Tuple((Box(0, 255, (2,), np.uint8), Discrete(3, start=1)))
    found = recipe(of(monkeypatch, Dict({"said": Text(3), "pair": pair}), Discrete(2)))
    assert found.parts == (
        {"keys": ("pair", 0), "shape": (2,), "scale": 1 / 255},
        {"keys": ("pair", 1), "shape": (), "sizes": [3], "least": [1]},
    )


def test_environments_of_other_kinds_have_no_recipe() -> None:
    assert recipe(named.env("ALE/Pong-v5")).missing == "only actorlearn makes environments of kind atari"
    assert "not registered" in recipe(named.env("NoSuchGame-v0")).missing


@pytest.mark.parametrize("keys", [{}, {"id": "a-label", "vector": f"{__name__}:Together"}], ids=["id", "vector"])
def test_a_recipe_of_a_vector_class_has_its_spaces_and_no_calls(keys: dict[str, str]) -> None:
    found = recipe(named.env(**{"id": f"{__name__}:Together", **keys}))
    assert found.missing.startswith(
        "training used a vector environment, and a single environment of this id cannot be made: env.id: "
    )
    assert found.calls == () and found.channels_last and found.action_space == Discrete(2, start=1)


def test_a_recipe_of_an_id_that_has_a_vector_class_makes_one_environment() -> None:
    found = recipe(named.env("CartPole-v1"))
    assert found.calls == (("gymnasium:make", {"id": "CartPole-v1"}),) and not found.missing


def test_an_argument_that_only_the_vector_class_takes_is_named() -> None:
    found = recipe(named.env("CartPole-v1", kwargs={"max_episode_steps": 50}))
    assert "unexpected keyword argument 'max_episode_steps'" in found.missing and not found.calls


def test_a_recipe_makes_an_environment_in_its_wrappers() -> None:
    wrappers = ["gymnasium.wrappers:RescaleObservation"]
    settings = named.env(
        "MountainCarContinuous-v0",
        kwargs={"goal_velocity": 0.1},
        wrappers=[{"name": wrappers[0], "kwargs": {"min_obs": 0, "max_obs": 1}}],
        time_limit_steps=20,
    )
    assert recipe(settings).calls == (
        ("gymnasium:make", {"id": "MountainCarContinuous-v0", "goal_velocity": 0.1, "max_episode_steps": -1}),
        (wrappers[0], {"min_obs": 0, "max_obs": 1}),
        ("gymnasium.wrappers:TimeLimit", {"max_episode_steps": 20}),
    )


@pytest.mark.parametrize("limit", [0, 150, 300])
def test_games_of_a_recipe_are_as_long_as_those_of_the_run(limit: int) -> None:
    settings = named.env("MountainCar-v0", wrappers=["tests.envs.test_recipe:Twice"], time_limit_steps=limit)
    env: Any = None
    for code, kwargs in recipe(settings).calls:
        module, _, name = code.partition(":")
        env = getattr(import_module(module), name)(*(() if env is None else (env,)), **kwargs)
    env.reset(seed=0)
    steps = next(step for step in count(1) if any(env.step(1)[2:4]))
    with opened(settings, [0]) as run:
        row = empty_row(run.spec, 1)
        run.reset(row)
        for _ in range(steps):
            assert not row.truncated.any()
            run.step(np.ones(1, np.int64), row)
        assert row.truncated.all()


class Together(VectorEnv[Any, Any, Any]):
    """Environments that can only be stepped together; their observations are images."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Box(0, 255, (12, 12, 3), np.uint8)
        self.single_action_space = Discrete(2, start=1)


class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes each action twice."""

    def step(self, action: Any) -> Any:
        """Take the action twice; MountainCar's games end by the time limit alone."""
        self.env.step(action)
        return self.env.step(action)
