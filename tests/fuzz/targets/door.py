"""A door by which bytes of somebody else come in: what reads them, inputs nearly right, and what reading may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st


@dataclass(frozen=True)
class Target:
    """One door, with the errors it may raise told apart from all others, which are faults found."""

    read: Callable[[bytes, Path], bool]
    """Takes the bytes, and a folder to itself."""
    right: bytes
    """That are read."""
    inputs: st.SearchStrategy[bytes]
    call_bound: Callable[[int], int] = lambda size: 20_000 + 50 * size
    """Function calls that reading so many bytes may take."""
    peak_bound: Callable[[int], int] = lambda size: 4 * size + (1 << 20)
    """Bytes that reading may allocate."""
    hostile: tuple[bytes, ...] = ()
    """Inputs that are large for what they say, or deep."""


def refused(error: Exception, printable: bool = False) -> bool:
    """False; what a person is told is no longer than it need be, and can be printed where it is printed as it is."""
    said = str(error)
    assert said, repr(error)
    assert len(said) <= 4_000, said[:4_100]
    assert not printable or said.isprintable()
    return False


DEEP_JSON = tuple(text * 100_000 for text in (b"[", b'{"a":', b"[{}, ", b"9", b'"\\u0000'))
"""Inputs that are as deep as they are long, for doors that read JSON."""


def short(inputs: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The same, which prints as one word and not with all its examples."""

    @st.composite
    def nearly_right(draw: st.DrawFn) -> bytes:
        return draw(inputs)

    return nearly_right()
