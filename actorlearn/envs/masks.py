"""Finds and reads the masks of valid actions that environments give, in info or in a Dict observation.

``observation_parts.py`` describes masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Dict, Space, Tuple

from actorlearn.actions import Actions, MultiDiscrete, choices, describe_actions
from actorlearn.envs.mask_cells import cells_of, describe_cells, length_of
from actorlearn.envs.observations import MisfitError, short
from actorlearn.observation_parts import MASK

Valid = npt.NDArray[np.bool_]
_WAY_OUT = "write env.action_mask: none"


@dataclass(frozen=True)
class Masks:
    """Reads the masks of one environment's actions."""

    source: str
    """The part of an environment's result that has the mask: "info" or "observation"."""
    actions: int | MultiDiscrete

    @property
    def length(self) -> int:
        """Number of elements of a mask: one for each choice."""
        return length_of(self.actions)

    def read(
        self, observation: Any, info: Any, batch: tuple[int, ...] = (), ended: bool | npt.NDArray[np.bool_] = False
    ) -> Valid:
        """Return the mask [*batch, n] in an environment's observation or info.

        Where a game has ``ended`` [*batch] the next action is ignored, so a mask may be missing there; all actions then
        count as valid. Raises MisfitError if the mask is missing elsewhere or has a wrong form.
        """
        held, name = (info if self.source == "info" else observation), f"{self.source}[{MASK!r}]"
        try:
            mask = held[MASK]
        except Exception:  # an environment may return anything
            mask = None
        if mask is None and np.all(ended):
            return np.ones((*batch, self.length), np.bool_)
        if mask is None:
            rule = f"it must contain {MASK!r} after each reset and step (env.action_mask: {self.source})"
            raise MisfitError(self.source, held, f"{rule}; or {_WAY_OUT}")
        if isinstance(mask, np.ndarray) and mask.dtype == object and mask.shape == batch != ():  # of a vector env
            over = np.broadcast_to(ended, batch)
            mask = [[1] * self.length if own is None and over[i] else own for i, own in enumerate(mask)]
        try:
            return cells_of(mask, self.actions, batch)
        except ValueError as error:
            raise MisfitError(name, mask, f"{error}; or {_WAY_OUT}") from None


def find_masks(
    env_id: str, setting: str, space: Space[Any], actions: Actions, first_info: Callable[[], Any]
) -> tuple[Space[Any], Masks | None]:
    """Return the observation space without the mask, and an object that reads masks; None if there are no masks.

    ``setting`` is the key ``env.action_mask``. ``first_info`` begins a game and returns its info; it is called only for
    the setting "auto", if observations have no mask. Raises ValueError if the environment does not support the setting,
    or if its observations have a key `MASK` that is no mask, and its info has none.
    """
    length = length_of(actions)
    if setting == "none" or (setting == "auto" and not length):
        return space, None
    if not length or isinstance(actions, tuple):
        raise ValueError(
            f"env.action_mask: {setting!r}: only choices can be masked, but {env_id!r} has {describe_actions(actions)};"
            f" {_WAY_OUT}"
        )
    parts = dict(space.items()) if isinstance(space, Dict) else {}
    if setting != "info" and MASK in parts and _holds_mask(parts[MASK], actions) and len(parts) > 1:
        rest = Dict([(key, part) for key, part in parts.items() if key != MASK])
        return rest, Masks("observation", actions)
    if setting == "info" or (setting == "auto" and _has_mask(first_info)):
        return space, Masks("info", actions)
    if setting == "auto" and MASK not in parts:
        return space, None
    or_parts = ", or a Tuple with one mask for each part" if isinstance(actions, MultiDiscrete) else ""
    raise ValueError(
        f"env.action_mask: {setting!r}: the observations of {env_id!r} are {short(space)}; they must be a Dict with "
        f"other keys and {MASK!r} of shape {(length,)}{or_parts}: {describe_cells(actions)}; change the environment, "
        f"or {_WAY_OUT}"
    )


def _holds_mask(space: Space[Any], actions: int | MultiDiscrete) -> bool:
    """Whether the values of a space have the form of a mask: one vector, or a Tuple with a vector of each part."""
    if isinstance(space, Tuple):
        return [part.shape for part in space] == [(size,) for size in np.ravel(choices(actions))]
    return space.shape == (length_of(actions),)


def _has_mask(first_info: Callable[[], Any]) -> bool:
    """Whether the info of a reset has a mask; if the reset fails, a later reset will report the error."""
    try:
        info = first_info()
        return isinstance(info, Mapping) and MASK in info
    except Exception:
        return False
