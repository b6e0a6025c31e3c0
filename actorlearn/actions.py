"""Spaces of actions, as environments, blocks, policies and plans write them.

=================  ==================================  =====================  ====================
space              written as                          of one action          example
=================  ==================================  =====================  ====================
Discrete           n, the number of choices            an integer 0 … n-1     2
Box                (n,), how many numbers              float32 [n]            (6,)
MultiDiscrete,     MultiDiscrete(sizes), the number    int64 [k], part i in   MultiDiscrete((3, 2))
MultiBinary        of choices of each of k parts       0 … sizes[i]-1
=================  ==================================  =====================  ====================
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class MultiDiscrete(msgspec.Struct, frozen=True):
    """Several choices that are made at once; one of two each is a MultiBinary."""

    sizes: tuple[int, ...]
    """Number of choices of each part."""


Actions = int | tuple[int, ...] | MultiDiscrete


def cell(actions: Actions) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of one action."""
    if isinstance(actions, MultiDiscrete):
        return "int64", (len(actions.sizes),)
    return ("int64", ()) if isinstance(actions, int) else ("float32", actions)


def describe_actions(actions: Actions) -> str:
    """Describe actions to people: 6 discrete actions, a Box of shape [2], several choices of [3, 2]."""
    if isinstance(actions, MultiDiscrete):
        return f"several choices at once, of {list(actions.sizes)}"
    return f"{actions} discrete actions" if isinstance(actions, int) else f"a Box of shape {list(actions)}"


def choices(actions: int | MultiDiscrete) -> int | NDArray[np.int64]:
    """Number of choices of an action, or of each of its parts: actions are below it."""
    return actions if isinstance(actions, int) else np.array(actions.sizes, np.int64)


def draw(actions: Actions, rows: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    """Random actions [*rows]: any of the choices, or numbers from 0 to 1 for those of a Box."""
    dtype, shape = cell(actions)
    if isinstance(actions, tuple):
        return random.random((*rows, *shape), np.float32)
    return random.integers(choices(actions), size=(*rows, *shape), dtype=dtype)
