"""Log of the changes that a learner made to its weights, for comparing learners after the run.

Writes one file with a line of JSON for each record. Records hold norms and versions of messages, and no weights. The
records of all learners give a bound on the distance between them (``benchmarks/papers/gossip_bound.py``).

A record is written before its message is visible, so every message has its record. Writes are not buffered, so the log
of a killed process is complete, except for the line that the process was writing.
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
    """Time of the monotonic clock, which all processes of a machine share."""
    kind: Literal["stepped", "mixed", "adopted", "measured"]
    version: int = -1
    """For kind ``stepped``: version of the message that is posted next."""
    norm: float | None = 0.0
    """l2 norm of the change of the weights; None = not finite."""
    messages: dict[int, int] = {}
    """Messages that were used, or measured: {peer: version}."""
    distances: dict[int, float | None] = {}
    """l2 norm of the difference between this learner's message and each measured message."""
    distance: float | None = 0.0
    """l2 norm of the difference between this learner's message and the mean of all measured messages."""


class ExchangeLog:
    """Writer of one learner's log. A restarted learner appends to its file."""

    def __init__(self, path: Path, anew: bool) -> None:
        """Open the file; `anew`: discard the records of an earlier run. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if anew else 0)
        self._file: int | None = os.open(path, flags, 0o600)
        self._append(b"\n")  # ends a line that a killed incarnation did not finish

    def stepped(self, version: int, norm: float) -> None:
        """Log that local steps changed the weights by a vector of that l2 norm; called before `version` is posted."""
        self._write(ExchangeRecord(time.monotonic_ns(), "stepped", version=version, norm=norm))

    def mixed(self, messages: Mapping[int, int], norm: float) -> None:
        """Log that the weights became the mean of themselves and these {peer: version}, a change of that l2 norm.

        Called after `stepped` and the post, before any other change of the weights.
        """
        self._write(ExchangeRecord(time.monotonic_ns(), "mixed", norm=norm, messages=dict(messages)))

    def adopted(self, messages: Mapping[int, int]) -> None:
        """Log which weights a joining learner has adopted.

        ``messages``: peer -> version of its weights; the learner adopted their mean. Empty if it adopted the weights of
        a checkpoint. Not called at the start of a run, when every learner draws the same weights from the seed.
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
        """Write a line without buffering; a full disk ends the log, but not the learner."""
        if self._file is None:
            return
        try:
            os.write(self._file, line)
        except OSError as error:
            if error.errno not in DISK_ERRORS:
                raise
            self.close()
