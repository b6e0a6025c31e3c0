"""The central parameter store of learners that do not wait for one another: weights and optimizer state, in chunks.

Reads and writes one segment of shared memory; knows no update rule. Source: Stooke & Abbeel (2018), section 4.3.

Each chunk has its own lock, and a learner takes the first free chunk, so that learners do not queue. A lock is a file
locked with ``flock``, which the kernel releases when its holder is killed. Locks on byte ranges of the segment would do
the same, but a process loses all of them when it closes any descriptor of the file, as ``Segment.open`` does. Each
chunk has two slots, and the version word, written last, names the valid one, so a writer that is killed half-way leaves
the chunk unchanged. A slot also records each learner's newest change in it: a learner that is killed between two chunks
and repeats a change skips the chunks that have it.
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
"""Chunks of a store unless a topology says otherwise: as many as Stooke & Abbeel's code has."""
_TURN_S = 2e-4
"""Seconds to sleep after all locks were found taken; a chunk is held for some milliseconds."""
_WORDS = 16
"""Words of a learner's record."""


class LearnerRecord(NamedTuple):
    """Record of a learner, written after each rollout it learns; all fields are of the same moment."""

    rollouts_learned: int
    """Number of the rollout after that one."""
    used: int
    """Environment steps it has learned from, in this store and before."""
    in_store: int
    """The part of ``used`` in rollouts with at least one change in the store; local steps die with their learner."""
    updates: int
    """Updates it has made since it joined first, one for each rollout."""
    began: int
    """Environment steps it had learned from when it joined first."""
    optimizer_steps: int
    """Optimizer steps it has made in its life."""
    steps_before: int
    """Optimizer steps it had made before this rollout."""
    counts: tuple[int, ...] = ()
    """Further numbers of its minibatches' source (``interface.Carried.counts``)."""


def store_fields(parameters: int, vectors: int, statistics: int, learners: int, chunks: int = CHUNKS) -> list[Field]:
    """Fields of the store's segment for a flat vector of parameters and, behind them, statistics.

    `vectors` is how many vectors as long as the parameters the optimizer keeps. The last chunk is the statistics.
    """
    return [
        Field("filled", "int64", (8,), 0),  # 1 once there are weights; env steps and updates that they begin with
        Field("settled", "int64", (learners, 8), 0),  # how often each learner has written its record
        Field("records", "int64", (SLOTS, learners, _WORDS), 0),
        Field("applied", "int64", (SLOTS, chunks + 1, learners), -1),  # number of each learner's newest change
        Field("version", "int64", (chunks + 1, 8), 0),
        Field("values", "float32", (SLOTS, 1 + vectors, parameters + statistics), float("nan")),
    ]


class SharedStore:
    """One learner's access to a store: chunks, each under its own lock, and a record of each learner."""

    def __init__(self, segment: Segment, rank: int, parameters: int, beat: Callable[[], object]) -> None:
        """Bind to a store's segment; `beat` is called while this learner waits for a lock."""
        self._filled, settled, records = segment["filled"], segment["settled"], segment["records"]
        self._records = [CommittedRecord(settled[other], records[:, other]) for other in range(len(settled))]
        self._version, self._values = segment["version"][:, 0], segment["values"]
        self._applied, self._rank = segment["applied"], rank
        self._beat = beat
        chunks, size = len(self._version) - 1, self._values.shape[2]
        edges = [*(parameters * chunk // chunks for chunk in range(chunks + 1)), size]
        self.spans = [slice(start, stop) for start, stop in pairwise(edges)]
        """Slice of the flat vector that each chunk is; the last one's are the statistics, if there are any."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._locks = [os.open(f"{segment.path}.lock-{chunk}", flags, 0o600) for chunk in range(len(self.spans))]
        self.waited_s = 0.0
        """Time spent waiting for locks."""

    @contextmanager
    def locked(self, chunks: Sequence[int]) -> Iterator[int]:
        """Lock the first free one of these chunks, and yield it; no other learner reads or writes it meanwhile."""
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
        """Number of times that the chunk has been written."""
        return int(self._version[chunk])

    def current(self, chunk: int) -> NDArray[np.float32]:
        """Weights and optimizer vectors of the chunk [1 + vectors, size]; read under its lock."""
        return self._slot(chunk, self.version(chunk))

    def spare(self, chunk: int) -> NDArray[np.float32]:
        """Arrays for the chunk's next version, of the same shape; written under its lock, then committed."""
        return self._slot(chunk, self.version(chunk) + 1)

    def applied(self, chunk: int) -> int:
        """Number of this learner's newest change in the chunk, -1 = none; read under its lock."""
        return int(self._applied[self.version(chunk) % SLOTS, chunk, self._rank])

    def commit(self, chunk: int, number: int = -1) -> int:
        """Make what was written to the spare slot the chunk from now on; returns its version.

        `number`: of this learner's change that is in it for the first time; -1 = it is none.
        """
        version = self.version(chunk) + 1
        applied = self._applied[version % SLOTS, chunk]
        applied[:] = self._applied[(version - 1) % SLOTS, chunk]
        applied[self._rank] = max(applied[self._rank], number)
        hit("store.written")
        self._version[chunk] = version  # the word last
        hit("store.committed")
        return version

    def _slot(self, chunk: int, version: int) -> NDArray[np.float32]:
        return self._values[version % SLOTS, :, self.spans[chunk]]

    @property
    def filled(self) -> bool:
        """Whether there are weights."""
        return bool(self._filled[0])

    def fill(self, env_steps: int, updates: int) -> None:
        """Mark the store as filled with weights of so many steps and updates; under the first chunk's lock."""
        self._filled[1:3] = env_steps, updates
        self._filled[0] = 1  # the word last

    def settle(self, record: LearnerRecord) -> None:
        """Replace this learner's record, all of it or nothing (``memory/record.py``)."""
        *words, counts = record
        self._records[self._rank].replace([*words, len(counts), *counts])

    @property
    def record(self) -> LearnerRecord | None:
        """This learner's record; None before it has written one."""
        own = self._records[self._rank]
        if not own.commits:
            return None
        words = own.now[0].tolist()
        length = LearnerRecord._fields.index("counts")
        return LearnerRecord._make([*words[:length], tuple(words[length + 1 :][: words[length]])])

    @property
    def env_steps(self) -> int:
        """Environment steps that all learners together have learned from."""
        used, began = self._recorded("used", "began")
        return int(self._filled[1] + (used - began).sum())

    @property
    def updates(self) -> int:
        """Batches that all learners together have learned from."""
        return int(self._filled[2] + self._recorded("updates").sum())

    def _recorded(self, *words: str) -> NDArray[np.int64]:
        """Read these words of every learner's record [words, learners]: those of a learner are all of one record."""
        columns = [LearnerRecord._fields.index(word) for word in words]
        return np.array([record.read(columns)[0] for record in self._records]).T

    def close(self) -> None:
        """Let go of the locks."""
        for lock in self._locks:
            os.close(lock)
        self._locks = []
