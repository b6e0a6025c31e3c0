"""Converts masks of valid actions from the forms in which environments give them to arrays of cells.

``observation_parts.py`` describes the cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.actions import Actions, MultiDiscrete, describe_actions


def length_of(actions: Actions) -> int:
    """Return the number of cells of a mask for these actions; 0 for a Box, whose actions cannot be masked."""
    return sum(_sizes(actions))


def describe_cells(actions: Actions) -> str:
    """Describe a mask's cells in words, as in "2 numbers, one for each choice of 2 discrete actions"."""
    bits = isinstance(actions, MultiDiscrete) and set(actions.sizes) == {2}
    described = f"{length_of(actions)} numbers, one for each choice of {describe_actions(actions)}"
    return f"{described}; each bit of a MultiBinary has two cells, no and yes" if bits else described


def cells_of(mask: Any, actions: Actions, batch: tuple[int, ...] = ()) -> NDArray[np.bool_]:
    """Convert a mask from an environment to bools [n], or a batch of B masks (``batch`` is (B,)) to bools [B, n].

    A mask may be an array, a list or a tuple of n cells, or a list or a tuple with the cells of each part. A batch may
    be an array or a list of masks, or a tuple with an array [B, size] for each part. Raises ValueError, whose text is
    the rule that the mask breaks.
    """
    cells = _joined(mask, actions, batch)
    if cells is None:
        raise ValueError(f"it must be {f'{batch[0]} masks of ' if batch else ''}{describe_cells(actions)}")
    if not np.isin(cells, (0, 1)).all():
        raise ValueError("each cell must be 1 for a valid choice and 0 for another")
    return cells.astype(np.bool_)


def _joined(mask: Any, actions: Actions, batch: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the cells of a mask, or of a batch of masks, as one array [*batch, n]; None if its form is not allowed."""
    sizes = _sizes(actions)
    cells = _as_numbers(mask)
    if cells is not None and cells.shape == (*batch, sum(sizes)):
        return cells
    if isinstance(mask, tuple if batch else tuple | list) and len(mask) == len(sizes):
        parts = [_as_numbers(part) for part in mask]
        if all(part is not None and part.shape == (*batch, size) for part, size in zip(parts, sizes, strict=True)):
            return np.concatenate(parts, axis=-1)  # type: ignore[arg-type]  # none of them is None
    if batch and isinstance(mask, tuple | list | np.ndarray) and getattr(mask, "shape", True) and len(mask) == batch[0]:
        each = [_joined(one, actions, batch[1:]) for one in mask]
        return None if any(one is None for one in each) else np.stack(each)  # type: ignore[arg-type]
    return None


def _as_numbers(value: Any) -> NDArray[Any] | None:
    try:
        array = np.asarray(value)
    except Exception:  # an environment may return anything
        return None
    return array if array.dtype.kind in "biuf" else None


def _sizes(actions: Actions) -> tuple[int, ...]:
    """Return the number of choices of each part; a Box has none."""
    if isinstance(actions, MultiDiscrete):
        return actions.sizes
    return (actions,) if isinstance(actions, int) else ()


def without_choice(actions: Actions, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find parts of an action for which a mask ``valid`` [..., n] allows no choice.

    Returns bools [..., n], which are True in all cells of such a part. A Discrete action has one part.
    """
    sizes = np.array(_sizes(actions))
    some = np.logical_or.reduceat(valid, np.cumsum(sizes) - sizes, axis=-1)
    return ~np.repeat(some, sizes, axis=-1)
