"""Failpoints: named places between two writes at which a test can kill or stop a process, or make a write fail.

A failpoint that is not armed costs one check of an empty tuple. Tests arm failpoints within a process by ``armed``, or
by an environment variable, which the processes of a run inherit. It is read once, when this module is imported:

    ACTORLEARN_FAILPOINTS="record.committed=kill@3;files.write=nospace@2+"

An arm is ``name=action@n``: it acts when this process reaches the place for the nth time (the first without ``@n``;
with ``+`` also each later time). Several arms may name one place. The actions:

=========  =============================================================================================================
raise      raise ``Killed``, which our handlers do not treat as an error; replaces SIGKILL within a test's process
kill       SIGKILL to this process
stop       SIGSTOP to this process, until it gets a SIGCONT
sleep:S    sleep for S seconds
nospace    raise OSError ENOSPC
short      write only the first half of the bytes, as a kernel may do; for callers that check the number written
flip       invert one bit in the middle of the bytes
=========  =============================================================================================================

A restarted process counts from zero. If a fault is to happen only once in a run, set ACTORLEARN_FAILPOINTS_ONCE to a
folder: an arm acts only if this folder has no file with the arm's text as its name, and then creates this file.

Each name occurs at one place of the source, as a literal "FILE.LAST_ACTION". ``tests/ledger`` collects the names.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

VARIABLE = "ACTORLEARN_FAILPOINTS"
ONCE_VARIABLE = "ACTORLEARN_FAILPOINTS_ONCE"
_ARM = re.compile(r"(\w+\.\w+)=(raise|kill|stop|sleep|nospace|short|flip)(?::([0-9.]+))?(?:@([0-9]+)(\+?))?")


class Killed(BaseException):
    """Replaces SIGKILL within a test's process; a BaseException, so that handlers of errors do not catch it."""


@dataclass(frozen=True)
class Arm:
    """An action that happens when a process reaches a failpoint for the nth time."""

    name: str
    """Name of the failpoint."""
    action: str
    """One of the actions in the table above."""
    seconds: float = 0.0
    """Duration of the action sleep."""
    nth: int = 1
    onward: bool = False
    """Whether the action also happens each later time."""

    @property
    def text(self) -> str:
        """The arm as ``parse`` reads it."""
        return f"{self.name}={self.action}{f':{self.seconds}' if self.seconds else ''}@{self.nth}{'+' * self.onward}"


@dataclass
class Arms:
    """A set of arms, with a count of how often each failpoint was reached, and a list of the arms that have acted."""

    arms: tuple[Arm, ...]
    applies: Callable[[], bool] = lambda: True
    """Called at each failpoint; if it returns False, the failpoint is neither counted nor acted on.

    It distinguishes callers that share a process."""
    once: Path | None = None
    """The folder of ACTORLEARN_FAILPOINTS_ONCE; None if it is not set."""
    hits: Counter[str] = field(default_factory=Counter)
    """Number of times that each failpoint was reached."""
    acted: list[Arm] = field(default_factory=list)

    def reach(self, name: str, data: memoryview | None = None) -> memoryview | None:
        """Count that a failpoint was reached, and carry out the actions that are due; return the bytes to write."""
        if not self.applies():
            return data
        self.hits[name] += 1
        for arm in self.arms:
            due = self.hits[name] >= arm.nth if arm.onward else self.hits[name] == arm.nth
            if arm.name == name and due and self._first(arm):
                self.acted.append(arm)
                data = _act(arm, data)
        return data

    def _first(self, arm: Arm) -> bool:
        if self.once is None:
            return True
        try:
            os.close(os.open(self.once / arm.text, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True


class Watcher(Protocol):
    """Observer of every failpoint that this process reaches."""

    def reach(self, name: str, data: memoryview | None = None) -> memoryview | None:
        """Called when a failpoint is reached, with the bytes about to be written; returns the bytes to write."""


def watch(watcher: Watcher) -> None:
    """Register a watcher of all failpoints, until this process ends."""
    global _armed
    _armed = (*_armed, watcher)


def hit(name: str) -> None:
    """Mark this place in the code as the failpoint ``name``, at which a test can make the process fail."""
    if _armed:
        for arms in _armed:
            arms.reach(name)


def through(name: str, data: memoryview) -> memoryview:
    """Mark a failpoint before a write of ``data``; return the bytes that must be written instead."""
    if _armed:
        for arms in _armed:
            data = arms.reach(name, data) or data
    return data


@contextmanager
def armed(text: str = "", applies: Callable[[], bool] = lambda: True) -> Iterator[Arms]:
    """Arm failpoints of this process within a ``with`` block.

    If ``text`` is empty, the block only counts how often each failpoint is reached. ``applies`` is described at `Arms`.
    """
    global _armed
    arms = Arms(parse(text), applies)
    _armed = (*_armed, arms)
    try:
        yield arms
    finally:
        _armed = tuple(others for others in _armed if others is not arms)


def parse(text: str) -> tuple[Arm, ...]:
    """Read arms from text in the form of ACTORLEARN_FAILPOINTS; raises ValueError."""
    arms = []
    for part in filter(None, text.split(";")):
        found = _ARM.fullmatch(part)
        if found is None:
            raise ValueError(f"{VARIABLE}: {part!r} is not name=action@n; write for example record.committed=kill@3")
        name, action, seconds, nth, onward = found.groups()
        arms.append(Arm(name, action, float(seconds or 0), int(nth or 1), bool(onward)))
    return tuple(arms)


def _act(arm: Arm, data: memoryview | None) -> memoryview | None:
    if arm.action == "raise":
        raise Killed(arm.text)
    if arm.action == "nospace":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if arm.action == "sleep":
        time.sleep(arm.seconds)
    elif arm.action in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if arm.action == "kill" else signal.SIGSTOP)
    elif data is None:
        raise ValueError(f"{arm.text}: {arm.action} changes bytes, but {arm.name} is not before a write; use kill")
    elif arm.action == "short":
        return data[: (len(data) + 1) // 2]
    else:
        flipped = bytearray(data)
        flipped[len(flipped) // 2] ^= 1
        return memoryview(flipped)
    return data


def _from_variable() -> tuple[Watcher, ...]:
    text, once = os.environ.get(VARIABLE), os.environ.get(ONCE_VARIABLE)
    return (Arms(parse(text), once=Path(once) if once else None),) if text else ()


_armed = _from_variable()
