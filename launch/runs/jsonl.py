"""Reads the JSON of run folders: objects, and files of one object a line that another process appends to.

Lines that are no objects, and values that cannot be computed with or shown, are left out
(``launch/reports/checks.py``): the files may be damaged or edited by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from launch.reports.checks import keep_usable

_LAST_BYTES = 64 * 1024
"""Bytes at a file's end in which its last line is looked for; a row of many learners has 20 KiB."""


def read_object(path: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one when the file is missing or holds none."""
    try:
        return _object(path.read_bytes()) or {}
    except OSError:
        return {}


class Lines:
    """A file of JSON lines that another process appends to; each line is given once."""

    def __init__(self, path: Path) -> None:
        """Start at the beginning; the file may not exist yet."""
        self._path = path
        self._offset = 0  # after the last whole line: a line cut short by a crash is removed before the next is written

    def new(self) -> Iterator[dict[str, Any]]:
        """Complete lines written since the last call; lines that are no JSON object are skipped."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                read = file.read()
        except FileNotFoundError:
            return
        whole = read[: read.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            if (row := _object(line)) is not None:
                yield row

    def last(self) -> dict[str, Any] | None:
        """Return the last line, found from the file's end without reading the others; None when there is none."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
                lines = file.read().split(b"\n")[:-1]
        except OSError:
            return None
        return next((row for line in reversed(lines) if (row := _object(line)) is not None), None)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return keep_usable(value) if isinstance(value, dict) else None
