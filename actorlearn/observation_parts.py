"""Parts of an observation that is stored as one vector: images, and the mask of valid actions.

The parts of an observation are flattened, and stored one after the other. An environment may give a mask of valid
actions with each observation. A mask has one cell for each choice of a Discrete action, or for each choice of each part
of a MultiDiscrete action, part after part. A cell is 1 if the choice is valid, and 0 if not.

The mask is the last part, so wherever the observation is stored or sent, the mask is too. The network splits the two
again: it returns the mask as its output `MASK`, and computes its other outputs from the observation without the mask
(``models/masked.py``). ``envs/mask_cells.py`` converts the masks of environments.
"""

from __future__ import annotations

from math import prod
from typing import Annotated

import msgspec
from msgspec import Meta

SMALLEST_SIDE = 3
"""Smallest height and width of an image to which the built-in networks apply convolutions."""
Side = Annotated[int, Meta(ge=1, le=65_536)]
MASK = "action_mask"
"""Name of the mask in an environment's info or Dict observation, and of the network's output."""


class ImagePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The consecutive elements of a vector that are a flattened image."""

    start: Annotated[int, Meta(ge=0)]
    """Index of the image's first element."""
    shape: tuple[Side, Side, Side]
    """The image's shape in the environment: [height, width, channels] or [channels, height, width]."""
    channels_last: bool = True
    """Whether the last axis is the channels; if not, the first is."""

    @property
    def stop(self) -> int:
        """Index of the element after the image's last one."""
        first, second, third = self.shape
        return self.start + first * second * third

    @property
    def channels_first(self) -> tuple[int, int, int]:
        """The image's shape as [channels, height, width]."""
        first, second, third = self.shape
        return (third, first, second) if self.channels_last else self.shape


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
