"""The description of a network that an algorithm has besides its actor, such as a critic.

Algorithms return it from ``extra_networks``; ``models/make.py`` makes the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ExtraNetwork(NamedTuple):
    """A network with its own weights, made with the same settings (section ``model``) as the actor."""

    heads: Mapping[str, int]
    """Name and size of each output."""
    observation: bool = True
    """Whether it reads an observation. A network that reads nothing consists of free parameters that begin at 0."""
    action: int = 0
    """Length of the action vector that it reads besides the observation; 0: it reads no action."""
