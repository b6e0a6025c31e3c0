"""Reads the files of a saved replay, and checks dtypes, shapes and numbers before they are restored.

Hashes of a checkpoint find damaged files. These checks find files that were wrong when they were saved, or that another
version has saved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = re.compile(rb"\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n")
"""Header of a numpy file (version 1.0), as a replay writes it."""


def mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the array in a file, mapped to memory; raises ValueError if it has another dtype or header."""
    with path.open("rb") as file:  # not by numpy's reader, which accepts any dtype
        start, size = file.read(8), int.from_bytes(file.read(2), "little")
        header, offset = HEADER.fullmatch(file.read(size)), file.tell()
    if start != np.lib.format.magic(1, 0) or header is None:
        raise ValueError(f"{path} is not an array of a replay: its header is not the one that a replay writes")
    if header[1] != dtype.str.encode():
        raise ValueError(f"{path}: dtype {header[1].decode('latin-1')!r:.100} does not fit {dtype.str!r}")
    try:  # mapped to memory, so that it is read from the disk as it is copied
        shape = tuple(int(part) for part in header[2].split(b",") if part)
        return np.memmap(path, dtype, "r", offset, shape)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not an array of a replay: {error!s:.300}") from None


def read(path: Path, into: NDArray[Any]) -> NDArray[Any]:
    """Return the array in a file, mapped to memory; raises ValueError if it does not fit ``into``.

    It fits if it has the same dtype and shape, but it may have fewer time steps in each ring.
    """
    saved = mapped(path, into.dtype)
    there, wanted = [(*array.shape[:1], *array.shape[2:]) for array in (saved, into)]
    if (saved.ndim, there) != (into.ndim, wanted) or saved.shape[1:2] > into.shape[1:2]:
        raise ValueError(f"{path}: {saved.dtype} {saved.shape} does not fit {into.dtype} {into.shape}")
    return saved


def check(folder: Path, words: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError if a saved position of a ring is negative, or the name of a ring's owner is not UTF-8."""
    for name in np.unique(words["owner"]).tolist():
        name.decode()  # UnicodeDecodeError is a ValueError
    if (words["shown"] < 0).any():
        raise ValueError(f"{folder}: positions of rings must be 0 or more, not {words['shown'].tolist()}")


def check_cells(cell: NDArray[Any], cells: int) -> None:
    """Raise ValueError unless ``cell`` [N] has different int64 numbers from 0 to cells - 1."""
    whole = cell.ndim == 1 and cell.dtype == np.int64 and len(cell) <= cells
    if not whole or not ((cell >= 0) & (cell < cells)).all() or len(np.unique(cell)) != len(cell):
        raise ValueError(f"the saved {cell.size} cells ({cell.dtype}) must be different int64 numbers below {cells}")


def check_priorities(priority: NDArray[Any], cells: int, state: Mapping[str, Any]) -> None:
    """Raise ValueError unless there is a valid priority for each cell, and ``state`` of a `Prioritised` fits them."""
    fits = priority.dtype == np.float64 and priority.shape == (cells,)
    if not fits or not (np.isfinite(priority) & (priority >= 0.0)).all():
        raise ValueError(
            f"the saved priorities are {priority.dtype} {priority.shape}; they must be {cells} finite float64 >= 0"
        )
    largest = state.get("largest")
    if not isinstance(largest, int | float) or not 0.0 <= largest < float("inf"):
        raise ValueError(f"the saved largest priority is {largest!r:.100}; it must be finite and 0 or more")
