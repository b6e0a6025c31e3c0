"""Meetings of the learners of one machine: each says a few numbers, and goes on when all have.

Reads and writes one row of words per learner in shared memory; wakes the others.

A learner may wait here for minutes, for one that is slow or has not started. So it goes on showing that it is alive,
the wait can be broken off, and it ends when a peer that has not come yet is dead: each learner holds a lock that the
kernel lets go however it ends, and who waits tries the others' locks. One that has come and died then is missed at the
next meeting. So a meeting takes place for all who live, or for none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Shm
from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment
from actorlearn.parameters.interface import PeerLost, Stopped
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups

NUMBERS = 16
"""Largest count of numbers that a learner can say at a meeting."""
_POLL_MS = 50


def rendezvous_fields(learners: int) -> list[Field]:
    """Fields of the rendezvous segment of one generation of learners: a learner that has died cannot come back to it.

    Two slots are enough: nobody begins the meeting after next before all have left this one.
    """
    return [Field("met", "int64", (learners, 8), 0), Field("numbers", "int64", (2, learners, NUMBERS), 0)]


class Rendezvous(Protocol):
    """One learner's place in a generation, wherever learners meet."""

    rank: int
    """This learner's index among those that meet."""
    learners: int
    """Number of learners that meet."""

    def meet(self, numbers: Sequence[int], stay: bool = False) -> NDArray[np.int64]:
        """Say these and wait for all; return what each said, [learners, NUMBERS].

        Raises PeerLost; and Stopped when told to end meanwhile, unless this learner is to `stay`.
        """

    def close(self) -> None:
        """Give up the place, for good; once or more often."""


def open_rendezvous(address: Shm, rank: int, alive: Callable[[], bool]) -> Rendezvous:
    """Take a learner's place where a generation meets; raises RuntimeError when somebody has it or had it."""
    return SharedRendezvous(Segment.open(address.file), rank, alive)


class SharedRendezvous:
    """A place in a segment of shared memory."""

    def __init__(self, segment: Segment, rank: int, alive: Callable[[], bool]) -> None:
        """Take the place; raises RuntimeError when somebody has it or had it."""
        self._met, self._numbers = segment["met"][:, 0], segment["numbers"]
        self.rank, self.learners = rank, len(self._met)
        self._alive = alive
        self.meetings = 0
        """Meetings that this learner has come to."""
        ranks = range(self.learners)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._locks = [os.open(f"{segment.path}.lock-{other}", flags, 0o600) for other in ranks]
        wakeups = {str(other): Path(f"{segment.path}.wakeup-{other}") for other in ranks}
        self._wakeup = Wakeup(wakeups.pop(str(rank)))
        self._wakeups = Wakeups(wakeups)
        self._waiter = Waiter(self._wakeup, None)
        if self._met[rank] or not _free(self._locks[rank]):
            self.close()
            raise RuntimeError(f"{segment.path}: learner {rank} has been here before; it needs a new generation")
        fcntl.flock(self._locks[rank], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def meet(self, numbers: Sequence[int], stay: bool = False) -> NDArray[np.int64]:
        """Say these and wait for all; return what each said, [learners, NUMBERS].

        Raises PeerLost; and Stopped when told to end meanwhile, unless this learner is to `stay`.
        """
        slot = self.meetings % 2
        self._numbers[slot, self.rank, : len(numbers)] = numbers
        hit("rendezvous.said")
        self.meetings += 1
        self._met[self.rank] = self.meetings  # the word last
        hit("rendezvous.came")
        self._wakeups.wake_all()
        while self._met.min() < self.meetings:
            if not self._alive() and not stay:
                raise Stopped(f"told to end while {self._absent()} had not come to meeting {self.meetings}")
            if not self._waiter.wait(_POLL_MS):
                self._miss()
        said: NDArray[np.int64] = self._numbers[slot].copy()
        return said

    def _miss(self) -> None:
        """Raise PeerLost when a learner that is awaited is gone."""
        gone = self.gone()  # asked first: who is gone now has come by now, or will not
        if awaited := [rank for rank in gone if self._met[rank] < self.meetings]:
            raise PeerLost(f"learners {awaited} have gone; this one is at meeting {self.meetings}")

    def gone(self) -> list[int]:
        """Learners that have come once, and have died or left since."""
        others = ((rank, lock) for rank, lock in enumerate(self._locks) if rank != self.rank)
        return [rank for rank, lock in others if self._met[rank] and _free(lock)]

    def _absent(self) -> list[int]:
        return [rank for rank, met in enumerate(self._met) if met < self.meetings]

    def close(self) -> None:
        """Give up the place, for good; once or more often."""
        if self._locks:
            for lock in self._locks:
                os.close(lock)
            self._locks = []
            self._wakeup.close()
            self._wakeups.close()


def _free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def meeting(root: Shm, learners: Sequence[str], generation: int) -> Shm:
    """Return where these learners meet in this generation, made by whoever comes first; raises SharedMemoryFull.

    Who was there once never comes back to it, so a generation has a number and its place has all names.
    """
    address = Shm(f"{root.path}.{generation}.{hashlib.sha256(' '.join(learners).encode()).hexdigest()[:16]}")
    with suppress(FileExistsError):
        Segment.create(address.file, rendezvous_fields(len(learners))).close()
    return address


def forget_meetings(root: Shm, generation: int) -> None:
    """Remove the segments in which learners met before this generation: all there are have met in it."""
    for path in root.file.parent.glob(f"{root.file.name}.*.*"):
        number = path.name.removeprefix(f"{root.file.name}.").partition(".")[0]
        if number.isdecimal() and int(number) < generation:
            path.unlink(missing_ok=True)
