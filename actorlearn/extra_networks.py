"""The description of a network that an algorithm has besides its actor: algorithms ask for it, models make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExtraNetwork(NamedTuple):
    """A network such as a critic, made by the same section ``model`` as the actor, with weights of its own."""

    heads: Mapping[str, int]
    """Name and size of each output."""
    observation: bool = True
    """Whether it reads an observation; one that reads nothing is free parameters, 0 at first."""
    action: int = 0
    """Length of the action vector that it reads besides the observation; 0 = it reads none."""
