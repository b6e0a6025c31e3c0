"""The parameter store of mode async on one machine: weights and optimizer state in shared memory, in chunks.

``asynchronous.py`` uses it. Source: Stooke & Abbeel (2018), section 4.3.

**Locks.** Each chunk has its own lock, and a learner takes the first free chunk, so that learners seldom wait for each
other. A lock is a file that is locked with ``flock``; the kernel releases it when its holder is killed. Locks on byte
ranges of the segment would not serve, because a process loses all of them when it closes any descriptor of the file,
as ``Segment.open`` does.

**Killed writers.** Each chunk has two slots. The version number, which is written last, determines the valid slot, so a
learner that is killed during a write leaves the chunk unchanged. A slot also has the numbers of the newest changes
that it contains, so a learner that was killed between two chunks skips those that have its change.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

CHUNKS = 3
"""Default number of chunks of a store, as in the code of Stooke & Abbeel."""
_TURN_S = 2e-4
"""Seconds to sleep if all locks are taken; a lock is held for some milliseconds."""
_WORDS = 16
"""Number of 8-byte integers of a learner's record."""


class LearnerRecord(NamedTuple):
    """Counts of a learner in the parameter store, which it writes after each rollout, all at once."""

    rollouts_learned: int
    """Number of the next rollout from which the learner learns."""
    used: int
    """Number of environment steps that the learner has learned from, also before this store was made."""
    in_store: int
    """``used`` after the newest rollout with a change in the store. Later local steps are lost if the learner dies."""
    updates: int
    """Number of updates that the learner has made since it first joined, one for each rollout."""
    began: int
    """Value of ``used`` when the learner first joined."""
    optimizer_steps: int
    """Number of all optimizer steps that the learner has taken (Adam's count); 0 for an optimizer without a count."""
    steps_before: int
    """Value of ``optimizer_steps`` before this rollout."""
    counts: tuple[int, ...] = ()
    """Counts of the learner's source of minibatches (``interface.Carried.counts``)."""


def store_fields(parameters: int, vectors: int, statistics: int, learners: int, chunks: int = CHUNKS) -> list[Field]:
    """Return the shared memory layout of the parameter store, for a flat vector of parameters and then statistics.

    ``vectors`` is the number of vectors in the optimizer's state, each as long as the parameters. The statistics are an
    additional chunk, the last one.
    """
    return [
        Field("filled", "int64", (8,), 0),  # 1 once there are weights; the env steps and updates that they begin with
        Field("settled", "int64", (learners, 8), 0),  # how often each learner has written its record
        Field("records", "int64", (SLOTS, learners, _WORDS), 0),
        Field("applied", "int64", (SLOTS, chunks + 1, learners), -1),  # number of each learner's newest change
        Field("version", "int64", (chunks + 1, 8), 0),
        Field("values", "float32", (SLOTS, 1 + vectors, parameters + statistics), float("nan")),
    ]


class SharedStore:
    """Weights and optimizer state in shared memory, which all learners in mode async change; each chunk has a lock."""

    def __init__(self, segment: Segment, rank: int, parameters: int, beat: Callable[[], object]) -> None:
        """Use the store in ``segment`` as learner ``rank``.

        ``parameters`` is the number of parameters. ``beat`` is called repeatedly while this learner waits for a lock.
        """
        self._filled, settled, records = segment["filled"], segment["settled"], segment["records"]
        self._records = [CommittedRecord(settled[other], records[:, other]) for other in range(len(settled))]
        self._version, self._values = segment["version"][:, 0], segment["values"]
        self._applied, self._rank = segment["applied"], rank
        self._beat = beat
        chunks, size = len(self._version) - 1, self._values.shape[2]
        edges = [*(parameters * chunk // chunks for chunk in range(chunks + 1)), size]
        self.spans = [slice(start, stop) for start, stop in pairwise(edges)]
        """Range of each chunk in the flat vector; the last chunk has the statistics, and is empty if there are none."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._locks = [os.open(f"{segment.path}.lock-{chunk}", flags, 0o600) for chunk in range(len(self.spans))]
        self.waited_s = 0.0
        """Seconds spent waiting for locks."""

    @contextmanager
    def locked(self, chunks: Sequence[int]) -> Iterator[int]:
        """Lock the first of these chunks that is free, and yield its number.

        Within the ``with`` block, no other learner reads or writes the chunk.
        """
        began_s = time.monotonic()
        while (chunk := self._try(chunks)) is None:
            self._beat()
            time.sleep(_TURN_S)
        self.waited_s += time.monotonic() - began_s
        try:
            yield chunk
        finally:
            fcntl.flock(self._locks[chunk], fcntl.LOCK_UN)

    def _try(self, chunks: Sequence[int]) -> int | None:
        for chunk in chunks:
            try:
                fcntl.flock(self._locks[chunk], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return chunk
        return None

    def version(self, chunk: int) -> int:
        """Return the number of times that the chunk has been written."""
        return int(self._version[chunk])

    def current(self, chunk: int) -> NDArray[np.float32]:
        """Return the chunk's weights and optimizer vectors, [1 + vectors, size]; the caller must have locked it."""
        return self._slot(chunk, self.version(chunk))

    def spare(self, chunk: int) -> NDArray[np.float32]:
        """Return the array of the same shape for the chunk's next version, to write to before `commit`.

        The caller must have locked the chunk.
        """
        return self._slot(chunk, self.version(chunk) + 1)

    def applied(self, chunk: int) -> int:
        """Return the number of this learner's newest optimizer step in a chunk that it has locked; -1 = none."""
        return int(self._applied[self.version(chunk) % SLOTS, chunk, self._rank])

    def commit(self, chunk: int, number: int = -1) -> int:
        """Make the array of `spare` the current version of the chunk, and return the number of this version.

        ``number`` is the number of this learner's optimizer step in it; -1 if it has none.
        """
        version = self.version(chunk) + 1
        applied = self._applied[version % SLOTS, chunk]
        applied[:] = self._applied[(version - 1) % SLOTS, chunk]
        applied[self._rank] = max(applied[self._rank], number)
        hit("store.written")
        self._version[chunk] = version  # written last: it makes the slot valid
        hit("store.committed")
        return version

    def _slot(self, chunk: int, version: int) -> NDArray[np.float32]:
        return self._values[version % SLOTS, :, self.spans[chunk]]

    @property
    def filled(self) -> bool:
        """Whether a learner has filled the store with weights."""
        return bool(self._filled[0])

    def fill(self, env_steps: int, updates: int) -> None:
        """Mark the store as filled with weights that have these counts; the caller must have locked the first chunk."""
        self._filled[1:3] = env_steps, updates
        self._filled[0] = 1  # written last: it makes the counts valid

    def settle(self, record: LearnerRecord) -> None:
        """Replace this learner's counts atomically (``memory/record.py``)."""
        *words, counts = record
        self._records[self._rank].replace([*words, len(counts), *counts])

    @property
    def record(self) -> LearnerRecord | None:
        """This learner's counts; None before it has written any."""
        own = self._records[self._rank]
        if not own.commits:
            return None
        words = own.now[0].tolist()
        length = LearnerRecord._fields.index("counts")
        return LearnerRecord._make([*words[:length], tuple(words[length + 1 :][: words[length]])])

    @property
    def env_steps(self) -> int:
        """Number of environment steps that all learners together have learned from."""
        used, began = self._recorded("used", "began")
        return int(self._filled[1] + (used - began).sum())

    @property
    def updates(self) -> int:
        """Number of updates that all learners together have made."""
        return int(self._filled[2] + self._recorded("updates").sum())

    def _recorded(self, *words: str) -> NDArray[np.int64]:
        """Return these counts of every learner, [fields, learners]; those of one learner were written together."""
        columns = [LearnerRecord._fields.index(word) for word in words]
        return np.array([record.read(columns)[0] for record in self._records]).T

    def close(self) -> None:
        """Close the files of the locks."""
        for lock in self._locks:
            os.close(lock)
        self._locks = []
