"""Failpoints: named places between two stores where a test ends or stops a process, or has a disk take no more bytes.

Knows none of its callers. Unarmed, a failpoint is one look at an empty tuple. It is armed by a variable of
tests, read once when this module is imported and inherited by the processes of a run, or within a process by ``armed``:

    ACTORLEARN_FAILPOINTS="trainer.committed=kill@3;files.write=nospace@2+"

An arm is ``name=action@n``: it acts when this process comes to the place for the nth time (1 without ``@n``; with ``+``
from then on). Several may name one place. The actions:

=========  =============================================================================================================
raise      raise ``Killed``, which no handler of ours takes for an error: what stands in for SIGKILL in a test's process
kill       SIGKILL to this process
stop       SIGSTOP to this process, until it gets a SIGCONT
sleep:S    sleep for S seconds
nospace    raise OSError ENOSPC
short      of bytes: only the first half is passed on, as a kernel may take it; where callers look at how many it took
flip       of bytes: one bit in the middle is another
=========  =============================================================================================================

A process that is started again counts anew. For a fault that a whole run is to see once, the variable
ACTORLEARN_FAILPOINTS_ONCE names a folder: an arm acts only while there is no file with its text in there, and makes it.

A name stands at one place of the source, as a literal ``file.what_was_done_last``; ``tests/ledger`` collects them all.
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
    """Stands in for SIGKILL within a test's process; a BaseException, so that no handler of errors catches it."""


@dataclass(frozen=True)
class Arm:
    """One action that is to happen at a named place, and at which visits of it."""

    name: str
    action: str
    seconds: float = 0.0
    nth: int = 1
    onward: bool = False

    @property
    def text(self) -> str:
        """The arm as ``parse`` reads it."""
        return f"{self.name}={self.action}{f':{self.seconds}' if self.seconds else ''}@{self.nth}{'+' * self.onward}"


@dataclass
class Arms:
    """Arms that are in force together, how often this process has come to each place since, and what has acted."""

    arms: tuple[Arm, ...]
    applies: Callable[[], bool] = lambda: True
    """Whether the caller that reaches a failpoint is the one meant, where several share a process."""
    once: Path | None = None
    hits: Counter[str] = field(default_factory=Counter)
    acted: list[Arm] = field(default_factory=list)

    def reach(self, name: str, data: memoryview | None = None) -> memoryview | None:
        """Come to a place, with bytes that are to be written or none; returns those to write instead."""
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
        """Come to a place, with bytes that are to be written or none; returns those to write instead."""


def watch(watcher: Watcher) -> None:
    """Register a watcher of all failpoints, until this process ends."""
    global _armed
    _armed = (*_armed, watcher)


def hit(name: str) -> None:
    """Come to the failpoint of this name."""
    if _armed:
        for arms in _armed:
            arms.reach(name)


def through(name: str, data: memoryview) -> memoryview:
    """Come to the failpoint of this name with bytes that are about to be written; returns those that are to be."""
    if _armed:
        for arms in _armed:
            data = arms.reach(name, data) or data
    return data


@contextmanager
def armed(text: str = "", applies: Callable[[], bool] = lambda: True) -> Iterator[Arms]:
    """Arm failpoints of this process for a while; without text hits are only counted."""
    global _armed
    arms = Arms(parse(text), applies)
    _armed = (*_armed, arms)
    try:
        yield arms
    finally:
        _armed = tuple(others for others in _armed if others is not arms)


def parse(text: str) -> tuple[Arm, ...]:
    """Arms from their text; raises ValueError."""
    arms = []
    for part in filter(None, text.split(";")):
        found = _ARM.fullmatch(part)
        if found is None:
            raise ValueError(f"{VARIABLE}: {part!r} is no arm; write name=action@n, as trainer.committed=kill@3")
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
        raise ValueError(f"{arm.text}: no bytes pass there; short and flip are for places where some are written")
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
