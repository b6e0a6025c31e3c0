"""The bound on the distances between learners that gossip (GALA, proposition 1), compared with measured distances.

Reads the logs of exchanges that all learners of a run have written (``actorlearn/parameters/consensus.py``), after
the end of the run. Source: Assran et al. (2019), proposition 1 and figure 2.

A message has the weights of a learner. Here, weights are only the learned parameters, whose norms are in the logs.
They are the initial weights, which all learners share, plus a sum of updates, each multiplied by a coefficient. The
coefficient is 1 in the first message after the update; later ones follow from mixing, which takes means of messages.
So the log of which messages were mixed determines all coefficients, for any delays and any order. Then, for a learner
i,

    |x_i - mean x|  <=  sum over updates of |c_i - mean c| |update|

and the same, with l2 norms over learners, for all learners together. This is the proposition with the mixing that
really took place instead of its constant beta. It is exact for a single update, and loose if several cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.consensus import LOG, ExchangeRecord

HISTORY = 8
"""Number of newest messages of each learner whose coefficients are kept; mixing an older one counts as a new update."""
AGREED = 1e-9
"""If the coefficients of an update differ by at most this among learners, the update is no longer kept separately."""
MOST_COEFFICIENTS = 1 << 22
"""Most coefficients in memory, of 8 bytes each. If there are more, the bound begins anew from measured distances."""
FOLD_AFTER = 256
"""Least number of new updates between two searches for updates on whose coefficients all learners agree."""


class Bound:
    """Coefficients of the updates in each learner's newest messages."""

    def __init__(self) -> None:
        """Begin with learners that have equal weights."""
        self.lost = False
        """Whether the log lacks something that happened; then there is no bound until ``start`` is called."""
        self._equal = True
        """Whether a learner without records still has the initial weights."""
        self._left: set[int] = set()
        self._clear()

    @property
    def updates(self) -> int:
        """Number of updates that are kept separately."""
        return self._count

    @property
    def coefficients(self) -> int:
        """Number of coefficients in memory, including free room for later updates."""
        return self._rows.size

    def _clear(self) -> None:
        self._learners: list[int] = []
        self._versions = np.zeros((0, HISTORY), np.int64)
        self._rows = np.zeros((0, HISTORY + 1, FOLD_AFTER))  # of each learner: its messages, then its weights now
        self._norms = np.zeros(FOLD_AFTER)
        self._count, self._fold_at, self.remainder = 0, FOLD_AFTER, 0.0

    def start(self, versions: Mapping[int, int], distances: Mapping[int, float]) -> None:
        """Begin anew with these messages, {learner: version}, given the distance of each from a common point."""
        self._clear()
        self.lost = self._equal = False
        for learner, version in versions.items():
            self._enter(learner, np.zeros(0))
            self._step(learner, version, distances[learner])

    def keep(self, members: Sequence[int]) -> None:
        """Keep only these learners; a learner that joins again adopts weights first."""
        gone = [at for at, learner in enumerate(self._learners) if learner not in members]
        if gone:
            self._left |= {self._learners[at] for at in gone}
            self._learners = [learner for learner in self._learners if learner in members]
            self._rows, self._versions = np.delete(self._rows, gone, 0), np.delete(self._versions, gone, 0)

    def replay(self, learner: int, record: ExchangeRecord) -> None:
        """Apply a record of the log to the coefficients, as the learner has applied it to its weights."""
        if self.lost:
            self._clear()
            return
        messages = [self._find(peer, version) for peer, version in record.messages.items()]
        found = [row for row in messages if row is not None]
        if record.kind == "adopted":
            if not messages or len(found) < len(messages):
                self.lost = True  # weights from elsewhere
                return
            self._enter(learner, np.mean(found, axis=0))
            return
        if learner not in self._learners:
            if not self._equal or learner in self._left:
                return  # its weights are unknown until it adopts some, or all are measured
            self._enter(learner, np.zeros(0))
        if record.kind == "stepped":
            self._step(learner, record.version, _finite(record.norm))
        elif len(found) < len(messages):
            self._update(learner, _finite(record.norm))
        else:
            self._row(learner)[:] = np.mean([self._row(learner), *found], axis=0)

    def of(self, versions: Mapping[int, int]) -> tuple[NDArray[np.float64], float] | None:
        """Return bounds on the distances of these messages, {learner: version}, from their mean.

        The first result has a bound for each message, [learners]; the second bounds the Frobenius norm of all
        distances. None if a message is not known.
        """
        found = [self._find(learner, version) for learner, version in versions.items()]
        rows = [row for row in found if row is not None]
        if self.lost or not rows or len(rows) < len(found):
            return None
        norms, off = self._norms[: self._count], np.abs(rows - np.mean(rows, axis=0))
        together = np.sqrt(np.square(off).sum(0)) @ norms + np.sqrt(len(rows)) * self.remainder
        return off @ norms + self.remainder, float(together)

    def _find(self, learner: int, version: int) -> NDArray[np.float64] | None:
        """Return the coefficients in a message, [updates]; None if they are no longer kept."""
        if learner not in self._learners:
            return None
        at, slot = self._learners.index(learner), version % HISTORY
        return self._rows[at, slot, : self._count] if self._versions[at, slot] == version else None

    def _row(self, learner: int) -> NDArray[np.float64]:
        """Return the coefficients in the present weights of a learner, [updates]."""
        return self._rows[self._learners.index(learner), HISTORY, : self._count]

    def _enter(self, learner: int, coefficients: NDArray[np.float64]) -> None:
        """Add a learner, or replace it, with these coefficients and without messages."""
        if learner not in self._learners:
            self._learners.append(learner)
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows, shape=(1, *self._rows.shape[1:]))])
            self._versions = np.concatenate([self._versions, np.zeros((1, HISTORY), np.int64)])
        at = self._learners.index(learner)
        self._versions[at] = -1
        self._rows[at, :, : len(coefficients)] = coefficients
        self._left.discard(learner)

    def _step(self, learner: int, version: int, norm: float) -> None:
        self._update(learner, norm)
        at, slot = self._learners.index(learner), version % HISTORY
        self._rows[at, slot] = self._rows[at, HISTORY]
        self._versions[at, slot] = version

    def _update(self, learner: int, norm: float) -> None:
        """Add an update: a vector of this norm was added to the weights of a learner."""
        if self._count == self._fold_at:
            self._fold()
        self._norms[self._count] = norm
        self._count += 1
        self._row(learner)[-1] = 1.0

    def _fold(self) -> None:
        """Stop keeping updates on whose coefficients all learners agree; mixing cannot make them differ again."""
        rows = self._rows[:, :, : self._count]
        apart = rows.max((0, 1)) - rows.min((0, 1))
        kept = apart > AGREED
        self._equal &= bool(kept.all())  # folded updates count as in all weights; a learner without records lacks them
        self.remainder += float(apart[~kept] @ self._norms[: self._count][~kept])
        rows, norms = rows[:, :, kept], self._norms[: self._count][kept]
        self._count = len(norms)
        self.lost |= rows.size > MOST_COEFFICIENTS
        self._fold_at = self._count + max(self._count // 4, FOLD_AFTER)
        self._rows, self._norms = np.zeros((*rows.shape[:2], self._fold_at)), np.zeros(self._fold_at)
        self._rows[:, :, : self._count], self._norms[: self._count] = rows, norms


class Drift(NamedTuple):
    """One comparison of a learner's weights with the mean, logged during the run."""

    time_ns: int
    learner: int
    distance: float
    """l2 distance of its message from the mean of all messages."""
    bound: float
    """Largest value that the proposition allows for this distance."""
    together: float
    """Largest value that the proposition allows for the Frobenius norm of all distances."""


class Follower:
    """Reads the records of all learners in the order of their times."""

    def __init__(self) -> None:
        """Begin with no records."""
        self.bound = Bound()
        self._done: list[tuple[int, ExchangeRecord]] = []

    def take(self, learner: int, record: ExchangeRecord) -> Drift | None:
        """Apply the next record; if it is a comparison whose bound is known, return it with the bound."""
        self._done.append((learner, record))
        if record.kind != "measured":
            self.bound.replay(learner, record)
            return None
        self.bound.keep(tuple(record.messages))
        found = self.bound.of(record.messages) or self._anew(record)
        if found is None:
            return None
        own = list(record.messages).index(learner)
        return Drift(record.time_ns, learner, _finite(record.distance), float(found[0][own]), found[1])

    def _anew(self, measured: ExchangeRecord) -> tuple[NDArray[np.float64], float] | None:
        """Begin anew from the measured distances after something that is not in the logs.

        None if it is unknown what a learner did after the step that led to its message.
        """
        since: list[tuple[int, ExchangeRecord]] = []
        awaited = dict(measured.messages)
        for learner, record in reversed(self._done):
            if not awaited:
                break
            if learner not in awaited:
                continue
            if record.kind == "stepped" and record.version == awaited[learner]:
                del awaited[learner]
            else:
                since.append((learner, record))
        self.bound.lost = bool(awaited)
        if awaited:
            return None
        self.bound.start(measured.messages, {who: _finite(norm) for who, norm in measured.distances.items()})
        found = self.bound.of(measured.messages)
        for learner, record in reversed(since):
            if record.kind != "measured":
                self.bound.replay(learner, record)
        return found


def points(logs: Mapping[int, Sequence[ExchangeRecord]]) -> list[Drift]:
    """Return all comparisons in the logs, {learner: records}, each with its bound."""
    merged = [(learner, record) for learner, records in logs.items() for record in records]
    follower = Follower()
    taken = (follower.take(*item) for item in sorted(merged, key=_time_ns))
    return [point for point in taken if point is not None]


def logs_of(run_dir: Path) -> dict[int, list[ExchangeRecord]]:
    """Return the logs of a run's learners by number; {} if they were not kept (gossip.gradient_every)."""
    found = {path.stem.removeprefix(f"{LOG}-"): path for path in run_dir.glob(f"{LOG}-*.jsonl")}
    return {int(number): read(path) for number, path in found.items() if number.isdecimal()}


def read(path: Path) -> list[ExchangeRecord]:
    """Return all records of one learner; an incomplete line counts as weights that came from elsewhere."""
    records: list[ExchangeRecord] = []
    for line in path.read_bytes().splitlines():
        try:
            if line:
                records.append(msgspec.json.decode(line, type=ExchangeRecord))
        except msgspec.DecodeError:
            records.append(ExchangeRecord(records[-1].time_ns if records else 0, "adopted"))
    return records


def _time_ns(item: tuple[int, ExchangeRecord]) -> int:
    return item[1].time_ns


def _finite(norm: float | None) -> float:
    return np.inf if norm is None else norm
