"""The mask of valid actions, which an environment may give with each observation.

A mask has one cell for each choice of a Discrete action, or for each choice of each part of a MultiDiscrete action,
part after part. A cell is 1 if the choice is valid, and 0 if not.

The mask is appended to the flattened observation, so wherever the observation is stored or sent, the mask is too. The
network splits the two again: it returns the mask as its output `MASK`, and computes its other outputs from the
observation without the mask (``models/masked.py``). ``envs/mask_cells.py`` converts the masks of environments.
"""

from __future__ import annotations

from math import prod

import msgspec

MASK = "action_mask"
"""Name of the mask in an environment's info or Dict observation, and of the network's output."""


class ActionMask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the environment gives the mask, and how observation and mask are stored as one vector."""

    source: str
    """The part of the environment's answer that contains the mask: "info" or "observation"."""
    length: int
    """Number of cells of the mask; they are the last cells of the vector."""
    observation_shape: tuple[int, ...]
    """Shape of the observation without the mask, before it was flattened into the vector."""

    @property
    def row_shape(self) -> tuple[int]:
        """Shape of the vector of observation and mask."""
        return (prod(self.observation_shape) + self.length,)

    def __str__(self) -> str:
        """Return the place of the mask in Python's notation: info["action_mask"]."""
        return f'{self.source}["{MASK}"]'
