"""Output of a process of a run: written to its log, or dropped while the log's disk is full.

A full disk must neither end an environment that prints nor keep a process from reporting its error to the supervisor.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any


class _Log(io.RawIOBase):
    """A file whose writes never raise OSError; bytes for which the disk has no room are dropped."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            os.write(self._handle, data)
        return memoryview(data).nbytes


def lose_what_finds_no_room() -> None:
    """Replace stdout and stderr, so that printing raises no OSError and every line is written as it is printed."""
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_Log(handle), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        for handle in (1, 2)
    )
