"""What a learner did to its weights besides learning: a ring of records that the others follow.

Writes and reads one segment of shared memory per learner; knows no weights, only norms and the versions of messages.
From the records of all learners each computes how far apart they can be (``parameters/consensus.py``).

The writer never waits: it overwrites the oldest record, and a reader that was away for too long is told so. A record is
written before what it tells of can be seen, so whoever finds a message finds the record of the step behind it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment
from actorlearn.parameters.settings import MOST_LEARNERS

RECORDS = 4096
"""In a ring: 20 s of 100 exchanges a second."""
STEPPED, MIXED, ADOPTED = range(3)


def exchange_fields(records: int = RECORDS) -> list[Field]:
    """Fields of one learner's ring: 1.2 MiB."""
    return [
        Field("written", "int64", (8,), 0),  # records since the start of the run
        Field("time_ns", "int64", (records,), -1),
        Field("kind", "int64", (records,), -1),
        Field("version", "int64", (records,), -1),  # of the own message
        Field("norm", "float64", (records,), float("nan")),
        Field("messages", "int32", (records, MOST_LEARNERS), -1),  # version of each learner's message that was used
    ]


class Record(NamedTuple):
    """One thing that a learner did."""

    time_ns: int
    """Of the machine's monotonic clock, which all its processes share."""
    kind: int
    version: int
    """Of the message that a step leads to; -1 in the others."""
    norm: float
    """Of the change of the weights; NaN where it may have any size."""
    messages: dict[int, int]
    """{peer: version} of the messages that were used."""


class Overrun(RuntimeError):
    """A reader was away for longer than the ring remembers."""


class ExchangeLog:
    """The writing end, one learner's own. It outlives the learner: a restarted one goes on in it."""

    def __init__(self, segment: Segment) -> None:
        """Bind to the own ring."""
        self._segment, self._written = segment, segment["written"]

    def stepped(self, version: int, norm: float) -> None:
        """Local steps changed the weights by a vector of that l2 norm; before `version` is posted."""
        self._write(STEPPED, version, norm, {})

    def mixed(self, messages: Mapping[int, int], norm: float) -> None:
        """The weights became the mean of themselves and these {peer: version}, a change of that l2 norm.

        After `stepped` and the post, before anything else happens to the weights.
        """
        self._write(MIXED, -1, norm, messages)

    def adopted(self, messages: Mapping[int, int]) -> None:
        """The weights became the mean of these {peer: version} alone; of none: they are a checkpoint's.

        Called by a learner that joins, unless it starts a new run with the weights that all draw from the seed.
        """
        self._write(ADOPTED, -1, float("nan"), messages)

    def _write(self, kind: int, version: int, norm: float, messages: Mapping[int, int]) -> None:
        written = int(self._written[0])
        segment = self._segment
        at = written % len(segment["kind"])
        segment["time_ns"][at], segment["kind"][at] = time.monotonic_ns(), kind
        segment["version"][at], segment["norm"][at] = version, norm
        row: NDArray[np.int32] = segment["messages"][at]
        row[:] = -1
        for peer, used in messages.items():
            row[peer] = used
        self._written[0] = written + 1  # the word last


class ExchangeReader:
    """A reading end; there may be any number."""

    def __init__(self, segment: Segment) -> None:
        """Start at the run's first record."""
        self._segment = segment
        self._read = 0

    def read(self) -> list[Record]:
        """Records since the last call, in the order in which they were written; raises Overrun when some are lost."""
        records = self._from(self._read)
        self._read += len(records)
        return records

    def rewind(self, version: int) -> None:
        """Go on behind the step that led to this message; raises Overrun when it is not remembered."""
        oldest = max(self._written - len(self._segment["kind"]) * 3 // 4, 0)  # the writer may go on meanwhile
        records = self._from(oldest)
        for back, record in enumerate(reversed(records)):
            if record.kind == STEPPED and record.version == version:
                self._read = oldest + len(records) - back
                return
        raise Overrun(f"{self._segment.path.name}: the step to message {version} is not among {len(records)} records")

    def close(self) -> None:
        """Unmap the ring."""
        self._segment.close()

    def _from(self, first: int) -> list[Record]:
        segment, size = self._segment, len(self._segment["kind"])
        at = np.arange(max(first, self._written - size), self._written) % size
        columns = [segment[name][at] for name in ("time_ns", "kind", "version", "norm", "messages")]
        if self._written - first >= size:  # the record that is being written replaces the one `size` before it
            raise Overrun(f"{segment.path.name}: records from {first} on are overwritten")
        return [_record(*row) for row in zip(*columns, strict=True)]

    @property
    def _written(self) -> int:
        return int(self._segment["written"][0])


def _record(
    time_ns: np.int64, kind: np.int64, version: np.int64, norm: np.float64, messages: NDArray[np.int32]
) -> Record:
    used = {int(peer): int(messages[peer]) for peer in np.flatnonzero(messages >= 0)}
    return Record(int(time_ns), int(kind), int(version), float(norm), used)
