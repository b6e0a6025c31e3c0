"""Layout of a shared memory segment: a sequence of named arrays ("fields").

Every array starts at a new cache line, so that writers of two arrays do not slow one another down.
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec
import numpy as np

CACHE_LINE_BYTES = 64


class Field(msgspec.Struct, frozen=True):
    """Name, number type and shape of one array of a shared memory segment."""

    name: str
    dtype: str
    """Name of a numpy dtype, such as "float32"."""
    shape: tuple[int, ...]
    poison: float | int | None = None
    """Initial value of all elements; None: 0. An impossible value, such as NaN for rewards or -1 for versions, makes a
    read of memory that nobody has written noticeable."""

    @property
    def bytes(self) -> int:
        """Size of the array in bytes, without padding."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


def layout(fields: list[Field]) -> tuple[list[int], int]:
    """Return the offsets of arrays in a shared memory segment, and their total size, in bytes."""
    offsets, end = [], 0
    for field in fields:
        offsets.append(end)
        end += -(-field.bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    return offsets, end


def views(buffer: Any, fields: list[Field]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a segment by name, as views of ``buffer``; nothing is copied."""
    offsets, _ = layout(fields)
    return {
        field.name: np.frombuffer(buffer, field.dtype, prod(field.shape), offset).reshape(field.shape)
        for field, offset in zip(fields, offsets, strict=True)
    }
