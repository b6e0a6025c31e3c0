"""The state of a sweep: one file of facts, a JSON object a line, that only grows.

Each line is appended by one write and flushed to disk before anything follows from it. So a kill can cut off the last
line alone, from which nothing has followed, and it is removed. A file that is replaced whole would be written anew for
each fact, and would not tell what was decided when.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from actorlearn.files import AppendedFile, drop_cut_line, flush, make_folder
from launch.errors import FailedError, RunError
from launch.runtime.metadata import now
from launch.sweeps.history import FORMAT, AnyFact, Begun, History

STATE_FILE = "sweep.jsonl"


class State:
    """``with State(folder) as state``: the history of a sweep, which this process alone continues."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is touched before the block."""
        self.path = folder / STATE_FILE
        self.history = History()
        self._lock = -1
        self._file: AppendedFile | None = None

    def __enter__(self) -> Self:
        """Take the file and read it; raises RunError where another sweep has it, FailedError where it is damaged."""
        make_folder(self.path.parent)
        self._lock = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            drop_cut_line(self.path)
            self.history = read(self.path)
            self._file = AppendedFile(self.path)
        except BlockingIOError:
            os.close(self._lock)
            raise RunError(
                f"{self.path.parent}: another `actorlearn sweep` works on it; await its end, or name another --folder"
            ) from None
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the file go; without a single fact it is removed, and its folder where that is empty."""
        if self._file is not None:
            self._file.close()
        with suppress(OSError):
            if not self.path.stat().st_size:
                self.path.unlink()
                self.path.parent.rmdir()
        os.close(self._lock)

    def add(self, fact: AnyFact) -> None:
        """Have a fact on disk, and in the history; raises OSError where the disk takes none."""
        assert self._file is not None, "add facts within the block"
        self.history.add(fact)
        self._file.append(msgspec.json.encode(msgspec.structs.replace(fact, time=now())) + b"\n")
        flush(self.path)


def read(path: Path) -> History:
    """Return the history in a file, an empty one where there is none; raises FailedError for a damaged line."""
    history = History()
    text = b""
    with suppress(FileNotFoundError):
        text = path.read_bytes()
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), start=1):  # the rest is being written
        try:
            fact = msgspec.json.decode(line, type=AnyFact)
            if isinstance(fact, Begun) and fact.format != FORMAT:
                raise ValueError(f"format {fact.format}, and this version reads {FORMAT}")
            history.add(fact)
        except (ValueError, RecursionError) as error:
            raise FailedError(
                f"{path}:{number}: {error}; lines stay as they were written; restore the file from a copy, or begin "
                "anew with another --folder"
            ) from None
    return history
