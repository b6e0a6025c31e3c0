"""Recipes of environments: calls that make an environment as in a run, with only gymnasium and its own package.

Reads settings, and makes one environment to read its spaces. Only environments of gymnasium have a recipe.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.spaces import Space

from actorlearn import imports
from actorlearn.envs import pickled
from actorlearn.envs.construct import construct
from actorlearn.envs.dm_env import is_converted
from actorlearn.envs.observations import Whole
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import STORED, STORED_FILE, STORED_HASH, EnvSettings, GymnasiumSettings

Call = tuple[str, dict[str, Any]]
"""Function or class, package.module:name, or file@sha256 if a file holds it, and its keyword arguments."""


@dataclass(frozen=True)
class Recipe:
    """Calls, and how their environment differs from the observations and actions of the policy."""

    calls: tuple[Call, ...] = ()
    """The first call makes the environment; each further call wraps the result of the previous one."""
    parts: tuple[dict[str, Any], ...] = ()
    """Parts of an observation, without a mask, that make a row (`Vector.parts`); empty if there is no recipe."""
    channels_last: bool = False
    """Whether observations are images [lines, columns, channels]; the policy needs channels first."""
    action_space: Space[Any] | None = None
    """Actions that the environment accepts; None if there is no recipe."""
    missing: str = ""
    """Reason why there is no recipe; empty if there is one."""


def recipe(settings: EnvSettings) -> Recipe:
    """Return the recipe of an environment; the settings of a policy name the source of its masks, so none is sought."""
    if not isinstance(settings, GymnasiumSettings):
        return Recipe(missing=f"environments of kind {settings.kind} are made by actorlearn")
    try:
        env, limit = construct(settings)
        with closing(env):
            if is_converted(env):
                return Recipe(missing="environments of dm_env are made by actorlearn")
            spaces = Spaces.of(settings.id, env.observation_space, env.action_space, action_mask=settings.action_mask)
    except ValueError as error:
        return Recipe(missing=str(error))
    layout = spaces.layout
    last = isinstance(layout, Whole) and layout.channels_last
    return Recipe(tuple(_calls(settings, limit)), tuple(layout.parts), last, spaces.actions.space)


def stored(settings: EnvSettings) -> Path | None:
    """Return the file that holds the class or function of an environment (``envs/pickled.py``); None if none does."""
    if isinstance(settings, GymnasiumSettings) and settings.id.startswith(STORED):
        return Path(settings.kwargs[STORED_FILE])
    return None


def _calls(settings: GymnasiumSettings, limit: int | None) -> list[Call]:
    """Return the calls; ``limit``: the registered time limit, which a run counts outside all wrappers."""
    module, colon, name = settings.id.partition(":")
    own = colon and callable(getattr(imports.module(module, "env.id"), name, None))
    made = (settings.id, settings.kwargs) if own else ("gymnasium:make", {"id": settings.id, **settings.kwargs})
    if stored(settings):
        held = f"{pickled.FILE}@{settings.kwargs[STORED_HASH]}"
        made = held, {key: value for key, value in settings.kwargs.items() if key not in (STORED_FILE, STORED_HASH)}
    around = [(wrapper.name, wrapper.kwargs) for wrapper in settings.wrapper_settings]
    limits = [steps for steps in (settings.time_limit_steps, limit if around else 0) if steps]
    if limit and around and not own:
        made = made[0], {**made[1], "max_episode_steps": -1}
    if limits:
        around.append(("gymnasium.wrappers:TimeLimit", {"max_episode_steps": min(limits)}))
    return [made, *around]
