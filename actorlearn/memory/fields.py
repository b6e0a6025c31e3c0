"""Layout of a segment: a sequence of named arrays. Pure, except that ``views`` makes arrays over a buffer.

Every array starts at a cache line, so that the writers of two arrays never share one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec
import numpy as np

CACHE_LINE_BYTES = 64


class Field(msgspec.Struct, frozen=True):
    """One array of a segment; ``poison`` makes a read of unwritten memory noticeable."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    poison: float | int | None = None
    """Value of unwritten cells; None: zero. uint8 observations use 0xA5, rewards NaN, versions -1."""

    @property
    def bytes(self) -> int:
        """Size of the array without padding."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


def layout(fields: list[Field]) -> tuple[list[int], int]:
    """Return the offsets of the fields from the start of the data, and the total size, in bytes."""
    offsets, end = [], 0
    for field in fields:
        offsets.append(end)
        end += -(-field.bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    return offsets, end


def views(buffer: Any, fields: list[Field]) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays over a buffer with the data of the fields, by name; nothing is copied."""
    offsets, _ = layout(fields)
    return {
        field.name: np.frombuffer(buffer, field.dtype, prod(field.shape), offset).reshape(field.shape)
        for field, offset in zip(fields, offsets, strict=True)
    }
