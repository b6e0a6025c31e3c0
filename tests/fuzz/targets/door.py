"""A target of the fuzzer: a reader of foreign bytes, inputs that are nearly right, and what a read may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st


@dataclass(frozen=True)
class Target:
    """A reader of foreign bytes."""

    read: Callable[[bytes, Path], bool]
    """Takes the bytes and an empty folder; returns whether they were read, or refused with an allowed error."""
    right: bytes
    """Valid bytes."""
    inputs: st.SearchStrategy[bytes]
    call_bound: Callable[[int], int] = lambda size: 20_000 + 50 * size
    """Function calls that a read may take, by the number of bytes."""
    peak_bound: Callable[[int], int] = lambda size: 4 * size + (1 << 20)
    """Bytes that a read may allocate, by the number of bytes."""
    hostile: tuple[bytes, ...] = ()
    """Large or deep inputs, whose cost is measured."""


def refused(error: Exception, printable: bool = False) -> bool:
    """Return False; check that the error's message is short, and if asked that it can be printed."""
    said = str(error)
    assert said, repr(error)
    assert len(said) <= 4_000, said[:4_100]
    assert not printable or said.isprintable()
    return False


DEEP_JSON = tuple(text * 100_000 for text in (b"[", b'{"a":', b"[{}, ", b"9", b'"\\u0000'))
"""Inputs that are as deep as they are long, for doors that read JSON."""


def short(inputs: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return the same strategy with a short name instead of all its examples."""

    @st.composite
    def nearly_right(draw: st.DrawFn) -> bytes:
        return draw(inputs)

    return nearly_right()
