"""The form of a network that an algorithm has beside the one that acts: algorithms ask for it, models make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Form(NamedTuple):
    """A network made by the same settings as the one that acts, with weights of its own."""

    heads: Mapping[str, int]
    """Name and size of each output."""
    observation: bool = True
    """Whether it reads an observation; one that reads nothing is its outputs: parameters that are 0 at first."""
    action: int = 0
    """Numbers of an action that it reads behind those of the observation."""
