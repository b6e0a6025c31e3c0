"""Actions of gymnasium's spaces: as policies choose them, and as environments take them.

============================  =========================  ===========================================================
space                         chosen as                  taken by the environment
============================  =========================  ===========================================================
Discrete                      an integer from 0          counted from the space's start
MultiDiscrete, MultiBinary    one integer for each part  in the space's shape, counted from its start
Box                           floats                     clipped to the bounds; or, chosen from -1 to 1, stretched
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
    """The actions of one space, of an environment with this id."""

    def __init__(self, env_id: str, space: Space[Any], scales: bool) -> None:
        """``scales``: numbers from -1 to 1 are stretched to a Box's bounds; raises ValueError where none are near."""
        self.actions = actions_of(env_id, space)
        self.space = space
        self._scales = scales
        if scales and isinstance(space, Box) and not _can_be_stretched(space):
            raise ValueError(
                f"env.scale_actions: true, and {env_id!r} has {short(space)}: its bounds are too far apart"
            )
        start = getattr(space, "start", 0)  # a Box and a MultiBinary have none
        self._start: Any = int(start) if np.ndim(start) == 0 else start
        self._shifted = bool(np.any(start))

    def taken(self, action: npt.NDArray[Any], count: int) -> list[Any]:
        """Return ``count`` chosen actions [B, …] as environments take them; raises ActionError for others."""
        together = self.taken_together(action, count)
        return together.tolist() if isinstance(self.space, Discrete) else list(together)

    def taken_together(self, action: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Return the same actions as one array [B, …], of the space's dtype; raises ActionError."""
        check_actions(action, count, self.actions)
        space: Any = self.space
        taken: npt.NDArray[Any] = action
        if isinstance(space, Box):
            if self._scales:
                taken = space.low + (action + 1.0) / 2.0 * (space.high - space.low)
            taken = np.clip(taken, space.low, space.high)
        elif not isinstance(space, Discrete):
            taken = action.reshape(count, *space.shape)
        taken = taken.astype(space.dtype, copy=False)
        return taken + self._start if self._shifted else taken

    def draw(self, count: int, random: np.random.Generator) -> npt.NDArray[Any]:
        """Draw ``count`` actions as policies choose them, uniformly."""
        space = self.space
        if isinstance(space, Box):
            low, high = (-1.0, 1.0) if self._scales else (space.low, space.high)
            return random.uniform(low, high, (count, *space.shape)).astype(np.float32)
        return draw(self.actions, (count,), random)


def actions_of(env_id: str, space: Space[Any]) -> Actions:
    """The actions of a space as policies choose them; raises ValueError, one line, for a space that has none."""
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
    raise ValueError(f"env.id: {env_id!r} has action space {short(space)}; {rule}: wrap it (env.wrappers)")


def _can_be_stretched(space: Box) -> bool:
    """Whether numbers from -1 to 1 reach each number between the bounds: the distance of these is finite."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(space.high - space.low).all())
