"""The parameter store of mode async: weights and optimizer state in shared memory, in chunks.

Reads and writes one segment; does not know the optimizer's rule. Source: Stooke & Abbeel (2018), section 4.3.

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
"""Default number of chunks of a store, as in the code of Stooke & Abbeel."""
_TURN_S = 2e-4
"""Seconds to sleep after all locks were found taken; a lock is held for some milliseconds."""
_WORDS = 16
"""Words of a learner's record."""


class LearnerRecord(NamedTuple):
    """Record of a learner, written after each rollout that it learns; all fields are of the same moment."""

    rollouts_learned: int
    """Number of the rollout after the one learned last."""
    used: int
    """Environment steps that the learner has learned from, including those before this store."""
    in_store: int
    """``used`` after the newest rollout with a change in the store; later local steps are lost if the learner dies."""
    updates: int
    """Updates that the learner has made since it first joined, one for each rollout."""
    began: int
    """Environment steps that the learner had learned from when it first joined."""
    optimizer_steps: int
    """Optimizer steps that the learner has taken in its life."""
    steps_before: int
    """Optimizer steps that the learner had taken before this rollout."""
    counts: tuple[int, ...] = ()
    """Further numbers of the learner's source of minibatches (``interface.Carried.counts``)."""


def store_fields(parameters: int, vectors: int, statistics: int, learners: int, chunks: int = CHUNKS) -> list[Field]:
    """Return the fields of the store's segment for a flat vector of parameters and, behind them, statistics.

    `vectors`: number of vectors, as long as the parameters, in the optimizer's state. The last chunk is the statistics.
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
    """One learner's access to a store: chunks, each with its own lock, and a record of each learner."""

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
        """Range of the flat vector of each chunk; the last chunk is the statistics, and empty if there are none."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._locks = [os.open(f"{segment.path}.lock-{chunk}", flags, 0o600) for chunk in range(len(self.spans))]
        self.waited_s = 0.0
        """Seconds spent waiting for locks."""

    @contextmanager
    def locked(self, chunks: Sequence[int]) -> Iterator[int]:
        """Lock the first of these chunks that is free, and yield it; no other learner reads or writes it meanwhile."""
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
        """Return the chunk's weights and optimizer vectors [1 + vectors, size]; read under its lock."""
        return self._slot(chunk, self.version(chunk))

    def spare(self, chunk: int) -> NDArray[np.float32]:
        """Return the array for the chunk's next version, of the same shape; written under its lock, then committed."""
        return self._slot(chunk, self.version(chunk) + 1)

    def applied(self, chunk: int) -> int:
        """Return the number of this learner's newest change in the chunk, -1 = none; read under its lock."""
        return int(self._applied[self.version(chunk) % SLOTS, chunk, self._rank])

    def commit(self, chunk: int, number: int = -1) -> int:
        """Make the spare slot the current version of the chunk; returns the version.

        `number`: number of this learner's change that the version adds; -1 = none.
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
        """Whether the store has weights."""
        return bool(self._filled[0])

    def fill(self, env_steps: int, updates: int) -> None:
        """Mark the store as filled with weights of these totals; called under the first chunk's lock."""
        self._filled[1:3] = env_steps, updates
        self._filled[0] = 1  # written last: it makes the totals valid

    def settle(self, record: LearnerRecord) -> None:
        """Replace this learner's record atomically (``memory/record.py``)."""
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
        """Updates that all learners together have made."""
        return int(self._filled[2] + self._recorded("updates").sum())

    def _recorded(self, *words: str) -> NDArray[np.int64]:
        """Return fields of every learner's record [words, learners]; the fields of one learner are of one moment."""
        columns = [LearnerRecord._fields.index(word) for word in words]
        return np.array([record.read(columns)[0] for record in self._records]).T

    def close(self) -> None:
        """Close the files of the locks."""
        for lock in self._locks:
            os.close(lock)
        self._locks = []
