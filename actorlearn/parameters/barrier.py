"""The barrier of learners in mode sync on one machine, at which they exchange numbers and vectors.

Each learner has a row in shared memory for its numbers, and one for its vector. It writes them, wakes the others, and
waits until all have arrived at the barrier.

A learner may wait for minutes, because another one is slow or has not started. It therefore gives signs of life, and
the wait can be broken off. The wait also ends if a learner that has not arrived is dead. To detect this, each learner
holds a file lock, which the kernel releases when the process ends, and waiting learners test these locks. The death of
a learner that has already arrived is noticed at the next barrier. All living learners therefore pass a barrier and get
all rows, or none does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Shm
from actorlearn.failpoints import hit
from actorlearn.memory.fields import CACHE_LINE_BYTES, Field
from actorlearn.memory.shared import Segment
from actorlearn.parameters.consumed import CONSUMED_WORDS
from actorlearn.parameters.interface import PeerLost, Stopped
from actorlearn.parameters.waits import Waits
from actorlearn.wire.channel import Waiter
from actorlearn.wire.wakeup import Wakeup, Wakeups

NUMBERS = 16
"""Largest number of integers that a learner can contribute at a barrier."""
SLOTS = 2
"""Number of slots for numbers and for vectors, which are used in turn.

Two are enough: when a learner writes to a slot again, all learners have arrived at the barrier in between, so they have
finished reading the slot.
"""
SUM_WHOLE = 2
"""Largest number of learners for which each learner adds all vectors itself.

With more learners, each adds one part of the vectors and shares the result, which needs a second barrier. Milliseconds
to compute the mean, measured on two cores with addition in place:

========  ===========  ===============  =====  =============
learners  parameters   whole gradients  parts  Gloo over TCP
========  ===========  ===============  =====  =============
2         0.5 M        0.46             0.59   1.5
2         4 M          6.9              6.9    16.7
4         0.5 M        2.2              1.7    9.0
4         4 M          12.7             8.6    34
========  ===========  ===============  =====  =============
"""
_FLOATS = CACHE_LINE_BYTES // 4
_POLL_MS = 50


def barrier_fields(learners: int) -> list[Field]:
    """Return the shared memory layout of a barrier of this many learners."""
    return [Field("arrived", "int64", (learners, 8), 0), Field("numbers", "int64", (SLOTS, learners, NUMBERS), 0)]


def rows_fields(learners: int, size: int) -> list[Field]:
    """Return the shared memory layout of the learners' vectors, each of ``size`` float32 or of a `Consumed` table."""
    longest = max(size, 2 * CONSUMED_WORDS * (1 + learners))
    whole_lines = -(-longest // _FLOATS) * _FLOATS  # no two learners write to one cache line
    return [Field("rows", "float32", (SLOTS, learners, whole_lines), float("nan"))]


class SharedBarrier:
    """A barrier in shared memory, where learners on a machine wait for each other and exchange numbers and vectors."""

    def __init__(self, segment: Segment, rows: Segment, rank: int, alive: Callable[[], bool]) -> None:
        """Use the barrier as the learner with this rank; raises RuntimeError if another process has used that rank.

        ``rows`` has the vectors (`rows_fields`). ``alive`` returns False if this process must stop waiting.
        """
        self._arrived, self._numbers, self._rows = segment["arrived"][:, 0], segment["numbers"], rows["rows"]
        self.rank, self.learners = rank, len(self._arrived)
        self._alive = alive
        self.arrivals = 0
        """Number of barriers at which this learner has arrived."""
        self.waits = Waits(self.learners)
        ranks = range(self.learners)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._locks = [os.open(f"{segment.path}.lock-{other}", flags, 0o600) for other in ranks]
        wakeups = {str(other): Path(f"{segment.path}.wakeup-{other}") for other in ranks}
        self._wakeup = Wakeup(wakeups.pop(str(rank)))
        self._wakeups = Wakeups(wakeups)
        self._waiter = Waiter(self._wakeup, None)
        if self._arrived[rank] or not _free(self._locks[rank]):
            self.close()
            raise RuntimeError(
                f"{segment.path}: learner {rank} has joined this generation before; it must join a new one"
            )
        fcntl.flock(self._locks[rank], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def gather_numbers(self, numbers: Sequence[int], stay: bool = False) -> NDArray[np.int64]:
        """Send integers to all learners, wait until all have sent theirs, and return them, [learners, NUMBERS].

        Raises PeerLost and, unless ``stay``, Stopped if this process is told to end while it waits.
        """
        slot = self.arrivals % SLOTS
        self._numbers[slot, self.rank, : len(numbers)] = numbers
        hit("barrier.written")
        self.arrivals += 1
        self._arrived[self.rank] = self.arrivals  # this word makes the row visible, so it is written last
        hit("barrier.arrived")
        self._wakeups.wake_all()
        with self.waits.waiting():
            while self._arrived.min() < self.arrivals:
                if not self._alive() and not stay:
                    absent = [rank for rank, count in enumerate(self._arrived) if count < self.arrivals]
                    raise Stopped(
                        f"this process was told to end while it waited for learners {absent} at barrier {self.arrivals}"
                    )
                if not self._waiter.wait(_POLL_MS):
                    self._miss()
        all_numbers: NDArray[np.int64] = self._numbers[slot].copy()
        return all_numbers

    def gather(self, own: NDArray[Any]) -> NDArray[Any]:
        """Send a vector [n] to all learners, and return theirs, [learners, n], which are valid until the next barrier.

        A learner that is told to end still waits for the others, because they need its vector. Raises PeerLost, and
        ValueError for a vector that is too long.
        """
        return self._exchange(own)[1][:, : own.size]

    def add(
        self, own: NDArray[np.float32], among: Sequence[int], numbers: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Send integers and a vector to all learners; returns all integers, and the sum of the vectors of ``among``.

        Vectors are added in the order of the ranks in ``among``, so that every learner gets the same bits. The sum is
        valid until the next barrier, and ``own`` may be overwritten.
        """
        all_numbers, rows = self._exchange(own, numbers)
        vectors = [rows[rank, : own.size] for rank in among]
        if self.learners <= SUM_WHOLE:
            return all_numbers, reduce(partial(np.add, out=own), vectors)
        part = reduce(np.add, [np.array_split(vector, self.learners)[self.rank] for vector in vectors])
        _, rows = self._exchange(part)
        for part, row in zip(np.array_split(own, self.learners), rows, strict=True):
            part[:] = row[: part.size]
        return all_numbers, own

    def _exchange(self, own: NDArray[Any], numbers: Sequence[int] = ()) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Send integers and a vector to all learners; returns those of all learners.

        The vector is written before the counter that says that the learner has arrived.
        """
        rows = self._rows[self.arrivals % SLOTS, : self.learners].view(own.dtype)
        if own.size > rows.shape[1]:
            raise ValueError(f"a vector of {own.size} {own.dtype} is too long: a row has room for {rows.shape[1]}")
        rows[self.rank, : own.size] = own
        return self.gather_numbers(numbers, stay=True), rows

    def _miss(self) -> None:
        """Raise PeerLost if a learner that has not arrived at this barrier has died or left."""
        gone = self.gone()  # read before `_arrived`: a learner that is gone now has arrived already, or never will
        if awaited := [rank for rank in gone if self._arrived[rank] < self.arrivals]:
            raise PeerLost(f"learners {awaited} are gone and did not arrive at barrier {self.arrivals}")

    def gone(self) -> list[int]:
        """Return the ranks of learners that have died or left after they had arrived at a barrier."""
        others = ((rank, lock) for rank, lock in enumerate(self._locks) if rank != self.rank)
        return [rank for rank, lock in others if self._arrived[rank] and _free(lock)]

    def metrics(self) -> dict[str, float]:
        """Return metrics of the straggler and of this learner's waiting time since the last call."""
        return self.waits.metrics()

    def close(self) -> None:
        """Leave the barrier for good; a second call does nothing."""
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


def make_barrier(root: Shm, learners: Sequence[str], generation: int) -> Shm:
    """Make the shared memory of a barrier unless it exists, and return its address.

    ``learners`` are the socket ids of the trainers that meet at it, and ``generation`` is the number of this list. Both
    are in the file name. A socket id has the number of restarts, so that a restarted trainer gets a new barrier. Raises
    SharedMemoryFull.
    """
    address = Shm(f"{root.path}.{generation}.{hashlib.sha256(' '.join(learners).encode()).hexdigest()[:16]}")
    with suppress(FileExistsError):
        Segment.create(address.file, barrier_fields(len(learners))).close()
    return address


def forget_barriers(root: Shm, generation: int) -> None:
    """Remove the barriers of earlier lists of learners; called when all learners use the one with this number."""
    for path in root.file.parent.glob(f"{root.file.name}.*.*"):
        number = path.name.removeprefix(f"{root.file.name}.").partition(".")[0]
        if number.isdecimal() and int(number) < generation:
            path.unlink(missing_ok=True)
