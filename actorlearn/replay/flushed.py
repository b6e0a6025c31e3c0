"""The outcome of flushes: how far the rings of a replay are shown, whose they are, and which rollouts are in it.

They are one record (``memory/record.py``): a process that is killed while it flushes has flushed a rollout with all
that belongs to it, or nothing of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment
from actorlearn.replay.rings import OWNER_BYTES


class Record(NamedTuple):
    """State of each ring [R], and of the replay, after a flush."""

    shown: NDArray[np.int64]
    """Positions below it have been flushed."""
    owner: NDArray[np.bytes_]
    """Name of its owner (``replay/rings.py``)."""
    following: NDArray[np.int64]
    """Rollout after the newest stored there."""
    rollouts: NDArray[np.int64]
    """Rollouts below it are in the replay, as who stores them says [1]."""


def flushed_fields(rings: int) -> list[Field]:
    """Fields of a replay's segment for all this."""
    return [
        Field("flushes", "int64", (1,), 0),
        Field("sampled", "int64", (1,), 0),  # flushes that the sampler's memory has followed
        Field("shown", "int64", (SLOTS, rings), 0),
        Field("owner", f"S{OWNER_BYTES}", (SLOTS, rings)),
        Field("following", "int64", (SLOTS, rings), 0),
        Field("rollouts", "int64", (SLOTS, 1), 0),
    ]


class Flushed:
    """The record that holds, and the one before it, until the next is begun."""

    def __init__(self, segment: Segment) -> None:
        """Bind to a replay's segment."""
        self._record = CommittedRecord(segment["flushes"], *(segment[name] for name in Record._fields))
        self._sampled = segment["sampled"]
        self.now = Record._make(self._record.now)
        """State after the newest flush; it lies in shared memory."""

    @property
    def flushes(self) -> int:
        """Number of flushes so far."""
        return self._record.commits

    @property
    def before(self) -> Record:
        """State before the newest flush."""
        return Record._make(self._record.before)

    def commit(self, record: Record) -> None:
        """Make this the record that holds."""
        self._record.replace(*record)
        self.now = Record._make(self._record.now)

    @property
    def followed(self) -> bool:
        """Whether the sampler's memory is that after the newest flush."""
        return bool(self._sampled[0] == self.flushes)

    def follow(self, ahead: int = 0) -> None:
        """Say that it is; ``ahead`` of so many that are still to be committed."""
        self._sampled[0] = self.flushes + ahead
