"""A log of the changes that a learner in mode gossip makes to its weights, for comparing learners after the run.

Each record is a line of JSON with norms of changes and versions of messages, without weights. From the records of all
learners, ``benchmarks/papers/gossip_bound.py`` computes an upper bound of the distance between their weights.

A record is written before other learners can see its message, so every message has a record. Writes are not buffered,
so the log of a killed process is complete, except for the line that it was writing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from actorlearn.files import DISK_ERRORS
from actorlearn.parameters.consensus import Measured

NAME = "exchanges"
"""Beginning of the name of a learner's file in the run folder: ``exchanges-<learner>.jsonl``."""


class ExchangeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of the log."""

    time_ns: int
    """Time of the monotonic clock in nanoseconds; all processes of a machine have the same clock."""
    kind: Literal["stepped", "mixed", "adopted", "measured"]
    """The event; the methods of `ExchangeLog` with these names describe it."""
    version: int = -1
    """For ``stepped``: version of the message that is posted next."""
    norm: float | None = 0.0
    """L2 norm of the change of the weights; None = not finite."""
    messages: dict[int, int] = {}
    """Messages whose weights were mixed, adopted or compared: {learner: version}."""
    distances: dict[int, float | None] = {}
    """For ``measured``: L2 norm of the difference between this learner's message and each message."""
    distance: float | None = 0.0
    """For ``measured``: L2 norm of the difference between this learner's message and the mean of all messages."""


class ExchangeLog:
    """Writes the log of one learner. A restarted learner appends to its file."""

    def __init__(self, path: Path, anew: bool) -> None:
        """Open the file; ``anew``: remove the records of an earlier run. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if anew else 0)
        self._file: int | None = os.open(path, flags, 0o600)
        self._append(b"\n")  # ends a line that a killed incarnation did not finish

    def stepped(self, version: int, norm: float) -> None:
        """Log that local steps have changed the weights by a vector with L2 norm ``norm``.

        Called before the message ``version`` with these weights is posted.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "stepped", version=version, norm=norm))

    def mixed(self, messages: Mapping[int, int], norm: float) -> None:
        """Log that the weights have become the mean of themselves and these messages, {peer: version}.

        ``norm`` is the L2 norm of the change. Called after `stepped` and the post of the message, and before any other
        change of the weights.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "mixed", norm=norm, messages=dict(messages)))

    def adopted(self, messages: Mapping[int, int]) -> None:
        """Log that a joining learner has adopted the mean of the weights in these messages, {peer: version}.

        ``messages`` is empty if it has adopted the weights of a checkpoint. Not called at the start of a run, when all
        learners draw the same weights from the seed.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "adopted", messages=dict(messages)))

    def measured(self, found: Measured) -> None:
        """Log a comparison of the messages of all learners; this learner is the first one."""
        distances: dict[int, float | None] = dict(found.distances)
        record = ExchangeRecord(
            time.monotonic_ns(), "measured", messages=found.versions, distances=distances, distance=found.distance
        )
        self._write(record)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, record: ExchangeRecord) -> None:
        self._append(msgspec.json.encode(record) + b"\n")

    def _append(self, line: bytes) -> None:
        """Write a line without buffering. If the disk is full, the log ends, and the learner continues."""
        if self._file is None:
            return
        try:
            os.write(self._file, line)
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise
            self.close()
