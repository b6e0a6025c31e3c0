"""Log of the changes that a learner made to its weights: a file of records, for comparing learners afterwards.

Writes one file, a line of JSON for each record; knows no weights, only norms and versions of messages.
The records of all learners bound their distance (``benchmarks/papers/gossip_bound.py``).

A record is written before its message is visible, so every message has its record. Writes are not buffered, so the log
of a killed process is complete.
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
    """One event in a learner's weights: local steps, a mix, an adoption, or a comparison of all messages."""

    time_ns: int
    """Time of the machine's monotonic clock, which all its processes share."""
    kind: Literal["stepped", "mixed", "adopted", "measured"]
    version: int = -1
    """Version of the message that a step leads to."""
    norm: float | None = 0.0
    """l2 norm of the change of the weights; None = not finite."""
    messages: dict[int, int] = {}
    """Messages that were used, or measured: {peer: version}."""
    distances: dict[int, float | None] = {}
    """l2 norm, from the own message to each measured one."""
    distance: float | None = 0.0
    """l2 norm, from the own message to the mean of all measured."""


class ExchangeLog:
    """The writing end, one learner's own. A restarted learner goes on in its file."""

    def __init__(self, path: Path, anew: bool) -> None:
        """Open the file; `anew`: discard the records of an earlier run. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if anew else 0)
        self._file: int | None = os.open(path, flags, 0o600)
        self._append(b"\n")  # behind a line of which the one before was killed

    def stepped(self, version: int, norm: float) -> None:
        """Log that local steps changed the weights by a vector of that l2 norm; before `version` is posted."""
        self._write(ExchangeRecord(time.monotonic_ns(), "stepped", version=version, norm=norm))

    def mixed(self, messages: Mapping[int, int], norm: float) -> None:
        """Log that the weights became the mean of themselves and these {peer: version}, a change of that l2 norm.

        After `stepped` and the post, before anything else happens to the weights.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "mixed", norm=norm, messages=dict(messages)))

    def adopted(self, messages: Mapping[int, int]) -> None:
        """Log that the weights became the mean of these {peer: version} alone; of none: they are a checkpoint's.

        Called by a learner that joins, unless it starts a new run with the weights that all draw from the seed.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "adopted", messages=dict(messages)))

    def measured(self, found: Measured) -> None:
        """Log that messages of all learners were compared, this one's first."""
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
        """Write a line at once; a disk that is full ends the log, and nothing else."""
        if self._file is None:
            return
        try:
            os.write(self._file, line)
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise
            self.close()
