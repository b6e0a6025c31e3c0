"""Converts the actions of policies to the form that gymnasium's environments accept.

============================  =========================  ===========================================================
space                         the policy chooses         the environment gets
============================  =========================  ===========================================================
Discrete                      an integer from 0          plus the space's start
MultiDiscrete, MultiBinary    one integer for each part  in the space's shape, plus its start
Box                           floats                     clipped to the bounds, or scaled from [-1, 1] to the bounds
============================  =========================  ===========================================================
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete, MultiBinary, Space
from gymnasium.spaces import MultiDiscrete as MultiDiscreteSpace

from actorlearn.actions import Actions, MultiDiscrete, draw
from actorlearn.envs.interface import check_actions
from actorlearn.envs.observations import short


class ActionSpace:
    """Converts, checks and draws the actions of one space."""

    def __init__(self, env_id: str, space: Space[Any], scales: bool) -> None:
        """Set the gymnasium space; ``scales``: actions from -1 to 1 are scaled to the bounds of a Box.

        ``env_id`` is for errors. Raises ValueError for an unsupported space, and for bounds too far apart to scale.
        """
        self.actions = actions_of(env_id, space)
        self.space = space
        self._scales = scales
        if scales and isinstance(space, Box) and not _can_be_scaled(space):
            raise ValueError(
                f"env.scale_actions: true cannot scale {env_id!r}: the bounds of {short(space)} are too far apart"
            )
        start = getattr(space, "start", 0)  # a Box and a MultiBinary have none
        self._start: Any = int(start) if np.ndim(start) == 0 else start
        self._shifted = bool(np.any(start))

    def taken(self, action: npt.NDArray[Any], count: int) -> list[Any]:
        """Convert ``count`` actions [B, …] of a policy to a list of actions for single environments.

        Raises ActionError if one is invalid.
        """
        together = self.taken_together(action, count)
        return together.tolist() if isinstance(self.space, Discrete) else list(together)

    def taken_together(self, action: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Convert ``count`` actions [B, …] of a policy to a new array for a vector environment.

        An environment may change or keep the array, because it shares no memory with ``action``. Raises ActionError if
        an action is invalid.
        """
        check_actions(action, count, self.actions)
        space: Any = self.space
        taken: npt.NDArray[Any] = action
        if isinstance(space, Box):
            if self._scales:
                taken = space.low + (action + 1.0) / 2.0 * (space.high - space.low)
            taken = np.clip(taken, space.low, space.high)
        elif not isinstance(space, Discrete):
            taken = action.reshape(count, *space.shape)
        taken = taken.astype(space.dtype)  # a copy
        return taken + self._start if self._shifted else taken

    def draw(
        self, count: int, random: np.random.Generator, valid: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[Any]:
        """Draw ``count`` actions uniformly, in the form of a policy's actions.

        ``valid`` [B, n]: masks of valid actions, from which they are drawn; None: all are valid.
        """
        space = self.space
        if isinstance(space, Box):
            low, high = (-1.0, 1.0) if self._scales else (space.low, space.high)
            return random.uniform(low, high, (count, *space.shape)).astype(np.float32)
        return draw(self.actions, (count,), random, valid)


def actions_of(env_id: str, space: Space[Any]) -> Actions:
    """Convert an action space of gymnasium to the type `Actions`; raises ValueError for an unsupported space."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, MultiDiscreteSpace):
        return MultiDiscrete(tuple(space.nvec.ravel().tolist()))
    if isinstance(space, MultiBinary):
        return MultiDiscrete((2,) * prod(space.shape))
    rule = "only Discrete, MultiDiscrete, MultiBinary and Box are supported"
    if isinstance(space, Box):
        if len(space.shape) == 1 and space.shape[0] and space.dtype.kind == "f" and space.is_bounded():
            return tuple(int(size) for size in space.shape)
        rule = "a Box must have one dimension of one or more floats, all with bounds, to which actions are clipped"
    raise ValueError(f"env.id: {env_id!r} has action space {short(space)}; {rule}; wrap the environment (env.wrappers)")


def _can_be_scaled(space: Box) -> bool:
    """Whether the distance between the bounds is finite, so that [-1, 1] can be scaled to the bounds."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(space.high - space.low).all())
