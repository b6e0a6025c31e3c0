"""The description of a network that an algorithm has besides its actor: algorithms return it, and models make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExtraNetwork(NamedTuple):
    """A network such as a critic: made from the same section ``model`` as the actor, with its own weights."""

    heads: Mapping[str, int]
    """Name and size of each output."""
    observation: bool = True
    """Whether it reads an observation. A network that reads nothing consists of free parameters that begin at 0."""
    action: int = 0
    """Length of the action vector that it reads besides the observation; 0: it reads no action."""
