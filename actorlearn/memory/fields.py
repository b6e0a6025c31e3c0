"""Layout of a segment: named arrays, one after the other, computed without touching memory.

Reads nothing, writes nothing. Every array starts on a cache line, so that two writers never share one by accident.
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec
import numpy as np

CACHE_LINE_BYTES = 64


class Field(msgspec.Struct, frozen=True):
    """One array of a segment; ``poison`` is what unwritten memory holds, so that reading it is loud."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    poison: float | int | None = None
    """Value that unwritten cells have; None leaves zeros. uint8 observations use 0xA5, rewards NaN, versions -1."""

    @property
    def bytes(self) -> int:
        """Size of the array without padding."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


def layout(fields: list[Field]) -> tuple[list[int], int]:
    """Offsets of the fields from the start of the data, and the total size, in bytes."""
    offsets, end = [], 0
    for field in fields:
        offsets.append(end)
        end += -(-field.bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    return offsets, end


def views(buffer: Any, fields: list[Field]) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays over a buffer that holds the data of the fields; nothing is copied."""
    offsets, _ = layout(fields)
    return {
        field.name: np.frombuffer(buffer, field.dtype, prod(field.shape), offset).reshape(field.shape)
        for field, offset in zip(fields, offsets, strict=True)
    }
