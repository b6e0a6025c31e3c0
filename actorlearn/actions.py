"""Action spaces, and how they and their actions are represented in all parts of actorlearn.

=================  ==================================  =====================  ====================
space              represented by                      one action             example
=================  ==================================  =====================  ====================
Discrete           n, the number of choices            an integer 0 … n-1     2
Box                (n,), the number of numbers         float32 [n]            (6,)
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
    """The space of actions that consist of several discrete choices; a MultiBinary has two choices in each part."""

    sizes: tuple[int, ...]
    """Number of choices of each part."""


Actions = int | tuple[int, ...] | MultiDiscrete


def cell(actions: Actions) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and shape of one action."""
    if isinstance(actions, MultiDiscrete):
        return "int64", (len(actions.sizes),)
    return ("int64", ()) if isinstance(actions, int) else ("float32", actions)


def describe_actions(actions: Actions) -> str:
    """Describe actions in words, for example "6 discrete actions" or "a Box of shape [2]"."""
    if isinstance(actions, MultiDiscrete):
        return f"several choices at once, of {list(actions.sizes)}"
    return f"{actions} discrete actions" if isinstance(actions, int) else f"a Box of shape {list(actions)}"


def choices(actions: int | MultiDiscrete) -> int | NDArray[np.int64]:
    """Return the number of choices of a Discrete action, or an array [k] with the number for each part."""
    return actions if isinstance(actions, int) else np.array(actions.sizes, np.int64)


def draw(
    actions: Actions, rows: tuple[int, ...], random: np.random.Generator, valid: NDArray[np.bool_] | None = None
) -> NDArray[Any]:
    """Draw uniformly distributed random actions [*rows, …]; the numbers of a Box are in [0, 1).

    With masks ``valid`` [*rows, n] only valid choices are drawn (``observation_parts.py``).
    """
    dtype, shape = cell(actions)
    if isinstance(actions, tuple):
        return random.random((*rows, *shape), np.float32)
    if valid is not None:
        return chosen_by_part(actions, np.where(valid, random.random(valid.shape), -1.0))
    return random.integers(choices(actions), size=(*rows, *shape), dtype=dtype)


def chosen_by_part(actions: int | MultiDiscrete, scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return the actions [...] or [..., k] that take, in each part, the choice with the largest score.

    ``scores`` [..., n] has a cell for each choice: first those of part 0, then those of part 1, and so on.
    """
    if isinstance(actions, int):
        return np.asarray(scores.argmax(-1), np.int64)
    parts = np.split(scores, np.cumsum(actions.sizes)[:-1], axis=-1)
    return np.stack([part.argmax(-1) for part in parts], axis=-1)
