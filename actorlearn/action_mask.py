"""The mask of valid actions: the last cells of a row's observation, and an output of the network.

A mask has one cell for each choice of a Discrete action, and for each choice of each part of a MultiDiscrete one, part
after part. A cell is 1 for a valid choice and 0 for another. Masks therefore travel with observations, through blocks,
replays and other processes. The network passes on the mask as the output `MASK` and computes its other outputs from
the cells before it (``models/masked.py``).
"""

from __future__ import annotations

from math import prod

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.actions import Actions, MultiDiscrete

MASK = "action_mask"
"""Name of the mask in an environment's info or Dict observation, and of the network's output."""


class ActionMask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a mask comes from, and what is in front of it in a row's vector."""

    source: str
    """The part of an environment's answer that has the mask: info or observation."""
    length: int
    """Number of its cells."""
    observation_shape: tuple[int, ...]
    """Shape of the observation in front of it, which the vector has flattened."""

    @property
    def row_shape(self) -> tuple[int]:
        """Shape of observation and mask together."""
        return (prod(self.observation_shape) + self.length,)

    def __str__(self) -> str:
        """Return the place of the mask in Python's notation: info["action_mask"]."""
        return f'{self.source}["{MASK}"]'


def length_of(actions: Actions) -> int:
    """Return the number of cells of a mask; 0 for actions that cannot be masked: the numbers of a Box."""
    if isinstance(actions, MultiDiscrete):
        return sum(actions.sizes)
    return actions if isinstance(actions, int) else 0


def without_choice(actions: Actions, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells [..., n] of masks belong to an action, or a part of one, that has no valid choice."""
    sizes = np.ravel(actions.sizes if isinstance(actions, MultiDiscrete) else actions)
    some = np.logical_or.reduceat(valid, np.cumsum(sizes) - sizes, axis=-1)
    return ~np.repeat(some, sizes, axis=-1)
