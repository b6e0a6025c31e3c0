"""Recipes of environments: calls that make an environment as in a run, with only gymnasium and its own package.

Reads settings, and makes one environment to read its spaces. An environment has no recipe if no such calls give the
observations of ``envs/observations.py``, or if gymnasium does not make it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space, flatten

from actorlearn import imports
from actorlearn.envs.construct import construct
from actorlearn.envs.observations import ObservationLayout, channels_come_last, layout_of
from actorlearn.envs.specs import EnvSettings, GymnasiumSettings, WrapperSettings

_SAMPLES = 8
"""Number of observations drawn from a space to compare the recipe's observations with a run's."""

Call = tuple[str, dict[str, Any]]
"""Function or class, package.module:name, and its keyword arguments."""


@dataclass(frozen=True)
class Recipe:
    """Calls, and how their environment differs from the observations and actions of the policy."""

    calls: tuple[Call, ...] = ()
    """The first call makes the environment; each further call wraps the result of the previous one."""
    channels_last: bool = False
    """Whether observations are images [lines, columns, channels]; the policy needs channels first."""
    action_space: Space[Any] | None = None
    """Actions that the environment accepts; None if there is no recipe."""
    missing: str = ""
    """Reason why there is no recipe; empty if there is one."""


def recipe(settings: EnvSettings) -> Recipe:
    """Return the recipe of an environment."""
    if not isinstance(settings, GymnasiumSettings):
        return Recipe(missing=f"environments of kind {settings.kind} are made by actorlearn")
    try:
        env, _ = construct(settings)
        space, actions = env.observation_space, env.action_space
        env.close()
        layout, _ = layout_of(settings.id, space)
    except ValueError as error:
        return Recipe(missing=str(error))
    last = isinstance(space, Box) and channels_come_last(space.shape)
    if not all(_alike(space, layout, last) for _ in range(_SAMPLES)):
        return Recipe(missing=f"actorlearn combines parts of its observations: {layout.words}")
    return Recipe(tuple(_calls(settings, space)), last, actions)


def _calls(settings: GymnasiumSettings, space: Space[Any]) -> list[Call]:
    module, colon, name = settings.id.partition(":")
    own = colon and isinstance(getattr(imports.module(module, "env.id"), name, None), type)
    made = (settings.id, settings.kwargs) if own else ("gymnasium:make", {"id": settings.id, **settings.kwargs})
    wrappers = [each if isinstance(each, WrapperSettings) else WrapperSettings(name=each) for each in settings.wrappers]
    around = [(wrapper.name, wrapper.kwargs) for wrapper in wrappers]
    if not isinstance(space, Box):
        around.append(("gymnasium.wrappers:FlattenObservation", {}))
    if settings.time_limit_steps:
        around.append(("gymnasium.wrappers:TimeLimit", {"max_episode_steps": settings.time_limit_steps}))
    return [made, *around]


def _alike(space: Space[Any], layout: ObservationLayout, last: bool) -> bool:
    """Whether a random observation is the same in a row and by the recipe, apart from the order of its axes."""
    drawn = space.sample()
    row = np.zeros((1, *layout.shape), layout.dtype)
    try:
        layout.store(drawn, row, 0)
        seen = np.asarray(drawn if isinstance(space, Box) else flatten(space, drawn))
    except (NotImplementedError, ValueError):  # the space cannot be flattened
        return False
    seen = np.moveaxis(seen, -1, 0) if last else seen
    kind = np.uint8 if layout.dtype == np.uint8 else np.float32
    return seen.shape == row.shape[1:] and np.array_equal(seen.astype(kind), row[0].astype(kind))
