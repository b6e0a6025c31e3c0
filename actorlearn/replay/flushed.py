"""What flushes have made of a replay: how far its rings are shown, whose they are, and which rollouts are in it.

There are two slots; the word ``flushes``, written last, says which one holds (as in ``parameters/store.py``). So a
process that is killed while it flushes has flushed a rollout with all that belongs to it, or nothing of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment
from actorlearn.replay.rings import OWNER_BYTES

SLOTS = 2


class Record(NamedTuple):
    """One slot; of each ring [R] but for the last."""

    shown: NDArray[np.int64]
    """Positions below it have been flushed."""
    owner: NDArray[np.bytes_]
    """Whose it is (``replay/rings.py``)."""
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
        self._flushes, self._sampled = segment["flushes"], segment["sampled"]
        self._slots = [Record(*(segment[name][slot] for name in Record._fields)) for slot in range(SLOTS)]
        self.now = self._slots[self.flushes % SLOTS]

    @property
    def flushes(self) -> int:
        """How many there have been."""
        return int(self._flushes[0])

    @property
    def before(self) -> Record:
        """What held before the newest flush."""
        return self._slots[(self.flushes + 1) % SLOTS]

    def commit(self, record: Record) -> None:
        """Make this the record that holds."""
        spare = self.before
        for word, value in zip(spare, record, strict=True):
            word[:] = value
            hit("flushed.field")
        self._flushes[0] += 1  # the word last
        self.now = spare
        hit("flushed.committed")

    @property
    def followed(self) -> bool:
        """Whether the sampler's memory is that after the newest flush."""
        return bool(self._sampled[0] == self.flushes)

    def follow(self, ahead: int = 0) -> None:
        """Say that it is; ``ahead`` of so many that are still to be committed."""
        self._sampled[0] = self.flushes + ahead
