"""How much learners in mode gossip differ: measures for reports, and a log of the changes of their weights.

All norms and distances are those of the learned parameters. The statistics of observations, which messages contain
too, are left out: they have counts and variances, which may be much larger than any parameter.

The log has a line of JSON for each change, with norms and versions of messages, without weights. From the logs of all
learners, ``benchmarks/papers/gossip_bound.py`` computes an upper bound of the distance between their parameters.

A record is written before other learners can see its message, so every message has a record. Writes are not buffered,
so the log of a killed process is complete, except for the line that it was writing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.files import DISK_ERRORS

LOG = "exchanges"
"""Beginning of the name of a learner's log in the run folder: ``exchanges-<learner>.jsonl``."""


class Measured(NamedTuple):
    """How much the newest parameters of several learners differ, as the first of these learners has measured it."""

    versions: dict[int, int]
    """Version of each learner's message, by learner."""
    distances: dict[int, float]
    """L2 norm of the difference between each learner's parameters and the first learner's, by learner."""
    distance: float
    """L2 norm of the difference between the first learner's parameters and the mean of all."""


def measure(
    learners: Sequence[int], take: Callable[[int, NDArray[np.float32]], int], size: int, parameters: int
) -> Measured:
    """Measure how much the newest messages of ``learners`` differ in their parameters; each must have sent one.

    ``take(learner, out)`` copies a learner's message, weights [size], to ``out``, and returns its version. The first
    ``parameters`` weights are the learned parameters.
    """
    message = np.empty(size, np.float32)
    other = message[:parameters]
    versions = {learners[0]: take(learners[0], message)}
    first, distances = other.copy(), {learners[0]: 0.0}
    total = first.astype(np.float64)
    for learner in learners[1:]:
        versions[learner] = take(learner, message)
        total += other
        distances[learner] = _norm(np.subtract(other, first, dtype=np.float64))
    total /= len(learners)
    return Measured(versions, distances, _norm(np.subtract(first, total, out=total)))


def cosines(gradients: Mapping[int, NDArray[np.float32]]) -> dict[str, float]:
    """Return the cosine of the angle between each pair of gradients: {"0-1": 0.83, ...}; 0 if one gradient is 0."""
    vectors = {learner: vector / max(float(np.linalg.norm(vector)), 1e-30) for learner, vector in gradients.items()}
    return {f"{one}-{other}": float(vectors[one] @ vectors[other]) for one, other in combinations(sorted(vectors), 2)}


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt(vector @ vector))


class ExchangeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a learner's log of gossip exchanges."""

    time_ns: int
    """Time of the monotonic clock in nanoseconds; all processes of a machine have the same clock."""
    kind: Literal["stepped", "mixed", "adopted", "measured"]
    """The event; the methods of `ExchangeLog` with these names describe it."""
    version: int = -1
    """For ``stepped``: version of the message that is sent next."""
    norm: float | None = 0.0
    """L2 norm of the change of the parameters; None = not finite."""
    messages: dict[int, int] = {}
    """Messages whose weights were averaged, adopted or compared: {learner: version}."""
    distances: dict[int, float | None] = {}
    """For ``measured``: L2 norm of the difference between this learner's message and each message."""
    distance: float | None = 0.0
    """For ``measured``: L2 norm of the difference between this learner's message and the mean of all messages."""


class ExchangeLog:
    """A log file of how gossip exchanges change the weights of one learner. A restarted learner appends to its file."""

    def __init__(self, path: Path, anew: bool) -> None:
        """Open the file, without the records of an earlier run if ``anew``; raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if anew else 0)
        self._file: int | None = os.open(path, flags, 0o600)
        self._append(b"\n")  # ends a line that a killed incarnation did not finish

    def stepped(self, version: int, norm: float) -> None:
        """Log that optimizer steps have changed the parameters by a vector with L2 norm ``norm``.

        ``version`` is the number of the message in which these parameters will be sent.
        """
        self._write("stepped", version=version, norm=norm)

    def mixed(self, messages: Mapping[int, int], norm: float) -> None:
        """Log that the weights were replaced by the mean of themselves and those in ``messages``, {learner: version}.

        ``norm`` is the L2 norm of the change of the parameters. Called after `stepped`, and before any other change.
        """
        self._write("mixed", norm=norm, messages=dict(messages))

    def adopted(self, messages: Mapping[int, int]) -> None:
        """Log that a joining learner starts with the mean of the weights in ``messages``, {learner: version}.

        ``messages`` is empty if it starts with the weights of a checkpoint. Not called at the start of a run, when all
        learners draw the same weights from the seed.
        """
        self._write("adopted", messages=dict(messages))

    def measured(self, found: Measured) -> None:
        """Log a comparison of the parameters of all learners."""
        self._write("measured", messages=found.versions, distances=found.distances, distance=found.distance)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, kind: Literal["stepped", "mixed", "adopted", "measured"], **fields: Any) -> None:
        self._append(msgspec.json.encode(ExchangeRecord(time.monotonic_ns(), kind, **fields)) + b"\n")

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
