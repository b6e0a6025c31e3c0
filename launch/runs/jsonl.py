"""Reads the JSON files of run folders: single objects, and growing files with one object on each line.

The files may be damaged or edited by hand. So lines that are not objects are left out, and so are values that are not
usable, such as NaN (``launch/reports/checks.py``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from actorlearn.files import open_regular
from launch.reports.checks import is_number, keep_usable

Value = TypeVar("Value")

_SHORT_BYTES = 512
"""A file with fewer bytes than this for each line of a sample is read whole. A row of one learner has about 2 KiB."""
_AT_ONCE = 1024 * 1024
"""Most bytes of lines in memory at once."""
_LAST_BYTES = 64 * 1024
"""Bytes at the end of a file that are searched for its last line. A row of many learners has about 20 KiB."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; {} if the file is missing or does not contain an object."""
    with suppress(OSError), open_regular(path) as file:
        return _object(file.read()) or {}
    return {}


class Decoded(Generic[Value]):
    """Reads a file to which another process appends lines; decodes and returns each line once.

    ``decode`` returns None for a line that is to be left out.
    """

    def __init__(self, path: Path, decode: Callable[[bytes], Value | None]) -> None:
        self._path, self._decode = path, decode
        self._offset = 0  # after the last complete line; the writer removes a line that a crash has truncated

    def new(self) -> Iterator[Value]:
        """Yield the complete lines written since the last call."""
        with suppress(OSError), open_regular(self._path) as file:
            while lines := self._read(file):
                yield from self._decoded(lines)

    def sample(self, most: int) -> Iterator[Value]:
        """Yield about ``most`` lines, evenly spread from the first to the last; ``new`` continues after the last.

        A short file yields all its lines. The cost does not depend on the size of the file.
        """
        lines: list[bytes] | None = None
        with suppress(OSError), open_regular(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            if size > max(most * _SHORT_BYTES, _LAST_BYTES):
                behind = file.seek(size - _LAST_BYTES)
                newest, newline, _cut = file.read(_LAST_BYTES).rpartition(b"\n")
                self._offset = end = behind + len(newest) + len(newline)
                lines, read_to = _spread(file, end, most)
                if read_to < end:
                    lines.append(newest.rpartition(b"\n")[2])
        yield from self.new() if lines is None else self._decoded(lines)

    def newest(self, begins: Callable[[Value], bool]) -> list[Value]:
        """Return the last line for which ``begins`` is true, and all later ones; ``new`` continues after them.

        If the last ``_AT_ONCE`` bytes of the file have no such line, all lines in them are returned.
        """
        found: list[Value] = []
        with suppress(OSError), open_regular(self._path) as file:
            behind = file.seek(max(0, file.seek(0, os.SEEK_END) - _AT_ONCE))
            text = file.read(_AT_ONCE)
            end = text.rfind(b"\n") + 1
            self._offset = behind + end
            while end and not (found and begins(found[-1])):
                start = text.rfind(b"\n", 0, end - 1) + 1
                if start or not behind:  # else the text begins inside this line
                    found += self._decoded([text[start:end]])
                end = start
        return found[::-1]

    def last(self) -> Value | None:
        """Return the last line, read from the end of the file; None if there is none."""
        with suppress(OSError), open_regular(self._path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            return next(self._decoded(reversed(file.read().split(b"\n")[:-1])), None)
        return None

    def _read(self, file: BinaryIO) -> list[bytes]:
        """Return the next complete lines, about ``_AT_ONCE`` bytes; [] at the end of the file. Raises OSError.

        A line that is still being written is left to the next call. A file that has become shorter was removed and made
        again, so it is read from its beginning.
        """
        if os.fstat(file.fileno()).st_size < self._offset:
            self._offset = 0
        file.seek(self._offset)
        lines = file.readlines(_AT_ONCE)
        if lines and not lines[-1].endswith(b"\n"):
            del lines[-1]
        self._offset += sum(map(len, lines))
        return lines

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[Value]:
        return (value for line in lines if (value := self._decode(line)) is not None)


def _spread(file: BinaryIO, end: int, most: int) -> tuple[list[bytes], int]:
    """Return up to ``most`` evenly spread lines before the byte ``end``, and the position after the last of them."""
    lines: list[bytes] = []
    read_to = file.seek(0)
    for place in (end * number // most for number in range(most)):
        if place > read_to:
            file.seek(place - 1)
            file.readline()  # skip the rest of the line before
            read_to = file.tell()
        if read_to < end:
            lines.append(file.readline())
            read_to += len(lines[-1])
    return lines, read_to


class Lines(Decoded[dict[str, Any]]):
    """Reads a file to which another process appends JSON objects, one on each line; returns each object once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _object)


def values_of(names: Sequence[str]) -> Callable[[bytes], dict[str, Any] | None]:
    """Return a function that decodes only the values with these names from a line; it leaves out missing ones.

    It takes a third of the time of `Lines`, and does not check whether the values are usable.
    """
    undecoded = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def values(line: bytes) -> dict[str, Any] | None:
        try:
            row = undecoded.decode(line)
            return {name: msgspec.json.decode(row[name]) for name in names if name in row}
        except (ValueError, RecursionError):
            return None

    return values


def numbers_of(names: Sequence[str]) -> Callable[[bytes], tuple[float, ...] | None]:
    """Return a function that decodes only the numbers with these names from a line; a missing number is NaN."""
    decoded = values_of(names)

    def numbers(line: bytes) -> tuple[float, ...] | None:
        if (row := decoded(line)) is None:
            return None
        values = map(row.get, names)
        return tuple(value if is_number(value) and not isinstance(value, bool) else math.nan for value in values)

    return numbers


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return keep_usable(value) if isinstance(value, dict) else None
