"""Commit record of a replay: how far each ring has been flushed, its owner, and which rollouts are stored.

All of it is one record (``memory/record.py``), replaced as a whole: a process that is killed during a flush has flushed
a rollout with everything that belongs to it, or nothing of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment
from actorlearn.replay.rings import OWNER_BYTES


class FlushRecord(NamedTuple):
    """State of each ring [R], and of the whole replay, after a flush."""

    shown: NDArray[np.int64]
    """Position below which all rows of a ring have been flushed [R]."""
    owner: NDArray[np.bytes_]
    """Name of each ring's owner, or FREE (``replay/rings.py``) [R]."""
    following: NDArray[np.int64]
    """Number of the rollout after the newest one stored in each ring [R]."""
    rollouts: NDArray[np.int64]
    """Number below which all rollouts have been stored [1]."""


def flushed_fields(rings: int) -> list[Field]:
    """Return the fields of a replay's segment that hold the record, for so many rings."""
    return [
        Field("flushes", "int64", (1,), 0),
        Field("sampled", "int64", (1,), 0),  # flushes that the sampler's memory has followed
        Field("shown", "int64", (SLOTS, rings), 0),
        Field("owner", f"S{OWNER_BYTES}", (SLOTS, rings)),
        Field("following", "int64", (SLOTS, rings), 0),
        Field("rollouts", "int64", (SLOTS, 1), 0),
    ]


class Flushed:
    """The newest record, and the one before it until the next commit begins."""

    def __init__(self, segment: Segment) -> None:
        """Bind to a replay's segment."""
        self._record = CommittedRecord(segment["flushes"], *(segment[name] for name in FlushRecord._fields))
        self._sampled = segment["sampled"]
        self.now = FlushRecord._make(self._record.now)
        """Record of the newest flush: views of shared memory."""

    @property
    def flushes(self) -> int:
        """Number of flushes so far."""
        return self._record.commits

    @property
    def before(self) -> FlushRecord:
        """Record before the newest flush: views of shared memory."""
        return FlushRecord._make(self._record.before)

    def commit(self, record: FlushRecord) -> None:
        """Replace the newest record, as a whole."""
        self._record.replace(*record)
        self.now = FlushRecord._make(self._record.now)

    @property
    def followed(self) -> bool:
        """Whether the sampler has been brought up to date with the newest flush."""
        return bool(self._sampled[0] == self.flushes)

    def follow(self, ahead: int = 0) -> None:
        """Mark the sampler as up to date with the newest flush, or with one that is ``ahead`` commits later."""
        self._sampled[0] = self.flushes + ahead
