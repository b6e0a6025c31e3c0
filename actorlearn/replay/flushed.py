"""The record of a replay's newest flush: how far each ring was flushed, its owner, and which rollouts are stored.

It is replaced atomically (``memory/record.py``). So if a process is killed during a flush, all rows of the flush are
stored or none.
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
    """How far a replay is filled: the state of each of R ring buffers after the newest flush."""

    shown: NDArray[np.int64]
    """Position below which all rows of a ring have been flushed [R]."""
    owner: NDArray[np.bytes_]
    """Name of each ring's owner, or FREE [R] (``replay/rings.py``)."""
    following: NDArray[np.int64]
    """Number of the rollout after the newest stored one, for each ring [R]."""
    rollouts: NDArray[np.int64]
    """Number of rollouts that have been stored: all below this number [1]."""


def flushed_fields(rings: int) -> list[Field]:
    """Return the fields of the record, for a replay with this number of rings."""
    return [
        Field("flushes", "int64", (1,), 0),
        Field("sampled", "int64", (1,), 0),  # number of flushes that the sampler's memory includes
        Field("shown", "int64", (SLOTS, rings), 0),
        Field("owner", f"S{OWNER_BYTES}", (SLOTS, rings)),
        Field("following", "int64", (SLOTS, rings), 0),
        Field("rollouts", "int64", (SLOTS, 1), 0),
    ]


class Flushed:
    """Reads and writes a replay's `FlushRecord` in shared memory. The previous one is kept until the next commit."""

    def __init__(self, segment: Segment) -> None:
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
        """Replace the newest record atomically."""
        self._record.replace(*record)
        self.now = FlushRecord._make(self._record.now)

    @property
    def followed(self) -> bool:
        """Whether the sampler knows the time steps of the newest flush."""
        return bool(self._sampled[0] == self.flushes)

    def follow(self, ahead: int = 0) -> None:
        """Mark the sampler as knowing the newest flush, or one that will be committed ``ahead`` flushes later."""
        self._sampled[0] = self.flushes + ahead
