"""Recipes of environments, with which a trained policy can be played where actorlearn is not installed.

A recipe is a list of calls that make the environment of a run with only gymnasium and the environment's own package.
Only environments of gymnasium have a recipe.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.spaces import Space

from actorlearn import imports
from actorlearn.envs import pickled
from actorlearn.envs.construct import construct, spaces_of
from actorlearn.envs.dm_env import is_converted
from actorlearn.envs.observations import Whole
from actorlearn.envs.spaces import Spaces
from actorlearn.envs.specs import STORED, STORED_FILE, STORED_HASH, EnvSettings, GymnasiumSettings

Call = tuple[str, dict[str, Any]]
"""A function or class, and its keyword arguments; the name is package.module:name, or file@sha256 for a stored one."""


@dataclass(frozen=True)
class Recipe:
    """Calls that make an environment, and how its observations and actions differ from those of the policy.

    An environment of dm_env, or of a vector class, has no calls, because actorlearn makes it, but its observations and
    actions are known.
    """

    calls: tuple[Call, ...] = ()
    """The first call makes the environment; each further call wraps the result of the previous one."""
    parts: tuple[dict[str, Any], ...] = ()
    """Parts of an observation, without a mask, from which the policy's observation is made, in the form of
    `observations.Vector.parts`; empty if they are not known."""
    channels_last: bool = False
    """Whether observations are images [height, width, channels]; the policy needs the channels first."""
    action_space: Space[Any] | None = None
    """Action space of the environment; None if it is not known."""
    missing: str = ""
    """Reason why there is no recipe; empty if there is one."""


def recipe(settings: EnvSettings) -> Recipe:
    """Return the recipe of an environment, or one with the reason why there is none in ``missing``.

    It makes environments and closes them. ``action_mask`` of the settings must not be "auto".
    """
    if not isinstance(settings, GymnasiumSettings):
        return Recipe(missing=f"only actorlearn makes environments of kind {settings.kind}")
    try:
        spaces = Spaces.of(settings.id, *spaces_of(settings), action_mask=settings.action_mask)
    except ValueError as error:
        return Recipe(missing=str(error))
    calls, missing = _calls(settings)
    layout = spaces.layout
    last = isinstance(layout, Whole) and layout.channels_last
    return Recipe(tuple(calls), tuple(layout.parts), last, spaces.actions.space, missing)


def stored(settings: EnvSettings) -> Path | None:
    """Return the file that stores the environment's class or function (``envs/pickled.py``); None for other ids."""
    if isinstance(settings, GymnasiumSettings) and settings.id.startswith(STORED):
        return Path(settings.kwargs[STORED_FILE])
    return None


def _calls(settings: GymnasiumSettings) -> tuple[list[Call], str]:
    """Return the calls of a recipe, or an empty list and the reason why there are none.

    In a run, actorlearn counts the time limit outside all wrappers, so a recipe has a TimeLimit as the last wrapper.
    """
    try:
        env, limit = construct(settings)
    except ValueError as error:  # although `spaces_of` could make a vector environment
        return [], f"training used a vector environment, and a single environment of this id cannot be made: {error}"
    with closing(env):
        if is_converted(env):
            return [], "only actorlearn makes environments of dm_env"
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
    return [made, *around], ""
