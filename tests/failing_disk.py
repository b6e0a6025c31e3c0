"""A disk that fails when a test wants it: calls of ``os`` that write below one folder raise, or take only a part.

It stands in for every call that changes a file through Python; what C libraries write passes it by.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TROUBLES = [errno.ENOSPC, errno.EDQUOT, errno.EIO]
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def raise_full(*_: object) -> None:
    """Stand in for a call of ``os`` that finds the disk full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FailingDisk:
    """``FailingDisk(monkeypatch, folder)`` is healthy; ``fails`` says which of the next calls, from 0, are to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, number: int = errno.ENOSPC) -> None:
        self.folder, self.number = folder.resolve(), number
        self.calls: list[str] = []
        """Calls below the folder since ``fails`` was last said."""
        self.room: int | None = None
        """Bytes that are still taken; None = any number."""
        self._fails: Callable[[int], bool] = lambda _call: False
        for name in ("open", "write", "fsync", "ftruncate", "mkdir", "replace", "rename", "truncate", "link"):
            monkeypatch.setattr(os, name, self._guarded(name, getattr(os, name)))

    def fails(self, which: Callable[[int], bool]) -> None:
        """From now on; calls are counted anew."""
        self.calls, self._fails = [], which

    def heals(self) -> None:
        """Everything goes again."""
        self.room = None
        self.fails(lambda _call: False)

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(what: Any, *more: Any, **others: Any) -> Any:
            reads = name == "open" and not (more and more[0] & _WRITING)
            if reads or not self._below(what):
                return call(what, *more, **others)
            self.calls.append(name)
            if self._fails(len(self.calls) - 1):
                raise self._trouble(what)
            if name == "write" and self.room is not None:
                if self.room == 0:
                    raise self._trouble(what)
                taken = call(what, more[0][: self.room])
                self.room -= taken
                return taken
            return call(what, *more, **others)

        return guarded

    def _below(self, what: Any) -> bool:
        if isinstance(what, int):
            try:
                what = os.readlink(f"/proc/self/fd/{what}")
            except OSError:
                return False
        return Path(os.fsdecode(what)).resolve().is_relative_to(self.folder)

    def _trouble(self, what: Any) -> OSError:
        named = () if isinstance(what, int) else (os.fsdecode(what),)
        return OSError(self.number, os.strerror(self.number), *named)
