"""Wrappers, for the key ``env.wrappers``, that convert observations of some packages to a form that networks can use.

Only gymnasium is imported, not these packages.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict

SYMBOLS = ("", "|-", ".", "#", "+", "<", ">", "")
"""Characters of NetHack's map for each kind of cell; the index in this tuple is the kind.

The kinds are: unseen, walls and open doors, floor, corridors, closed doors, stairs up, stairs down, and monsters
(``MONSTER``: letters and @). All other characters are objects (``THING``)."""
MONSTER = len(SYMBOLS) - 1
THING = len(SYMBOLS)


class DictEntry(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Replaces Dict observations by one of their entries, such as VizDoom's screen."""

    def __init__(self, env: gymnasium.Env[Any, Any], key: str) -> None:
        """Select the entry ``key``; raises ValueError if observations do not have it."""
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Dict) or key not in space.spaces:
            has = f"a Dict of {', '.join(space.spaces)}" if isinstance(space, Dict) else str(space)
            raise ValueError(f"key: {key!r} is not an entry of the observations, which are {has}")
        self._key = key
        self.observation_space = space[key]

    def observation(self, observation: Any) -> Any:
        """Return the entry."""
        return observation[self._key]


class Smaller(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shrinks uint8 images [height, width] or [height, width, channels]: each new pixel is the mean of a square."""

    def __init__(self, env: gymnasium.Env[Any, Any], by: int = 2) -> None:
        """Make each pixel the mean of ``by`` x ``by`` pixels.

        Raises ValueError if observations are not such images, or if ``by`` does not divide height and width.
        """
        super().__init__(env)
        space, self._by = env.observation_space, by
        if not isinstance(space, Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise ValueError(f"observations are {space}; they must be images of bytes, channels last")
        if by < 1 or any(side % by for side in space.shape[:2]):
            raise ValueError(f"by: {by} must divide the sides of the images, {list(space.shape[:2])}")
        lines, columns, *channels = space.shape
        self._shape = (lines // by, columns // by, *channels)
        self.observation_space = Box(0, 255, self._shape, np.uint8)

    def observation(self, observation: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Return the smaller image."""
        total = np.zeros(self._shape, np.uint32)
        for line in range(self._by):  # ten times as fast as a mean over two axes
            for column in range(self._by):
                total += observation[line :: self._by, column :: self._by]
        return (total // self._by**2).astype(np.uint8)


class NetHackWindow(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Replaces NetHack's observations by an image of the map around the hero: bool [height, width, kinds].

    Each kind of cell (``SYMBOLS``) is a channel, because the codes of NetHack's characters have no order. The channels
    are last, so that `channels_come_last` finds them in every window, also in one that is as wide as there are kinds.
    The hero is in the middle, and cells beyond the map are of kind "unseen". The observations must have ``chars`` and
    ``blstats``, as in the NetHack Learning Environment.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], reach: int = 8) -> None:
        """Set the number of cells that are shown in each direction, 1 to 79; raises ValueError for other numbers."""
        super().__init__(env)
        if not 1 <= reach <= 79:
            raise ValueError(f"reach: {reach} must be 1 to 79, because the map has 79 columns")
        self._reach = reach
        self._kind = np.full(256, THING, np.int64)
        for kind, characters in enumerate(SYMBOLS):
            self._kind[[ord(character) for character in characters]] = kind
        self._kind[[code for code in range(128) if chr(code).isalpha() or chr(code) == "@"]] = MONSTER
        self._kind[ord(" ")] = 0
        side = 2 * reach + 1
        self.observation_space = Box(0, 1, (side, side, THING + 1), np.bool_)

    def observation(self, observation: Any) -> npt.NDArray[np.bool_]:
        """Return the window around the hero."""
        reach, side = self._reach, 2 * self._reach + 1
        column, line = (int(place) for place in observation["blstats"][:2])
        kinds = np.pad(self._kind[observation["chars"]], reach)
        seen = kinds[line : line + side, column : column + side]
        window: npt.NDArray[np.bool_] = seen[..., np.newaxis] == np.arange(THING + 1)
        return window
