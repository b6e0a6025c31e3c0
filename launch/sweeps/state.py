"""The file sweep.jsonl of a sweep: its events (``history.py``), one JSON object on each line.

Lines are only appended. Each is appended by one write, and flushed to disk before anything depends on it. So a kill can
truncate only the last line, on which nothing depends yet; when the sweep is started again, it removes such a line.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from actorlearn.files import AppendedFile, drop_cut_line, flush, make_folder
from launch.errors import FailedError, RunError
from launch.machine.locks import lock
from launch.runtime.metadata import now
from launch.sweeps.history import FORMAT, AnyFact, Begun, History

STATE_FILE = "sweep.jsonl"


class State:
    """The history of a sweep and its file; within ``with State(folder)``, the file is locked for other processes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / STATE_FILE
        self.history = History()
        self._lock = -1
        self._file: AppendedFile | None = None

    def __enter__(self) -> Self:
        """Lock and read the file; raises RunError if another process has locked it, FailedError if it is damaged."""
        make_folder(self.path.parent)
        self._lock = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            lock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, self.path)
            drop_cut_line(self.path)
            self.history = read(self.path)
            self._file = AppendedFile(self.path)
        except BlockingIOError:
            os.close(self._lock)
            raise RunError(
                f"{self.path.parent}: another `actorlearn sweep` uses this folder; wait until it ends, "
                "or name another --folder"
            ) from None
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the file; if it has no events, remove it, and its folder too if the folder is then empty."""
        if self._file is not None:
            self._file.close()
        with suppress(OSError):
            if not self.path.stat().st_size:
                self.path.unlink()
                self.path.parent.rmdir()
        os.close(self._lock)

    def add(self, fact: AnyFact) -> None:
        """Add an event to the history and the file, and flush it to disk; raises OSError if it cannot be written."""
        assert self._file is not None, "add facts within the block"
        self.history.add(fact)
        self._file.append(msgspec.json.encode(msgspec.structs.replace(fact, time=now())) + b"\n")
        flush(self.path)


def read(path: Path) -> History:
    """Return the history in a file, empty if there is no file; raises FailedError for a damaged line."""
    history = History()
    text = b""
    with suppress(FileNotFoundError):
        text = path.read_bytes()
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), start=1):  # without an unfinished line
        try:
            fact = msgspec.json.decode(line, type=AnyFact)
            if isinstance(fact, Begun) and fact.format != FORMAT:
                raise ValueError(f"the format is {fact.format}, but this version reads only {FORMAT}")
            history.add(fact)
        except (ValueError, RecursionError) as error:
            raise FailedError(
                f"{path}:{number}: {error}; the file is damaged; restore it from a copy, or start another "
                "sweep with --folder"
            ) from None
    return history
