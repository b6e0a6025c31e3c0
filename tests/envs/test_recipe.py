"""Recipes: calls that make an environment as a run has it, and who has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Space, Text

from actorlearn.envs.recipe import recipe
from tests import named
from tests.envs.spaces import of


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        (Dict({"said": Text(3), "b": Box(-1, 1, (2,))}), "combines parts of its observations"),
        (Dict({"a": Box(0, 255, (2,), np.uint8), "b": Box(-1, 1, (2,))}), "combines parts of its observations"),
        (Box(0, 1, (3,), np.bool_), "combines parts of its observations"),
    ],
)
def test_observations_that_gymnasium_puts_together_otherwise_have_no_recipe(
    monkeypatch: pytest.MonkeyPatch, observations: Space[Any], said: str
) -> None:
    found = recipe(of(monkeypatch, observations, Discrete(2)))
    assert said in found.missing and not found.calls


def test_environments_of_other_kinds_have_no_recipe() -> None:
    assert recipe(named.env("ALE/Pong-v5")).missing == "environments of kind atari are made by actorlearn"
    assert "not registered" in recipe(named.env("NoSuchGame-v0")).missing


def test_a_recipe_makes_an_environment_in_its_wrappers() -> None:
    wrappers = ["gymnasium.wrappers:RescaleObservation"]
    settings = named.env(
        "MountainCarContinuous-v0",
        kwargs={"goal_velocity": 0.1},
        wrappers=[{"name": wrappers[0], "kwargs": {"min_obs": 0, "max_obs": 1}}],
        time_limit_steps=20,
    )
    assert recipe(settings).calls == (
        ("gymnasium:make", {"id": "MountainCarContinuous-v0", "goal_velocity": 0.1}),
        (wrappers[0], {"min_obs": 0, "max_obs": 1}),
        ("gymnasium.wrappers:TimeLimit", {"max_episode_steps": 20}),
    )
