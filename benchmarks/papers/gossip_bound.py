"""The bound on how far apart learners that mix can be (GALA, proposition 1), and the measured distance beside it.

Reads what all learners of a run logged of their exchanges (``actorlearn/parameters/exchange_log.py``), when the run is
over; writes nothing. Source: Assran et al. (2019), proposition 1 and figure 2.

Each message is the weights all began with plus a sum of updates, each times a coefficient: 1 in the message it led to,
and from there on what mixing makes of it. Mixing takes means of messages, so the coefficients follow from the records
alone: which message of whom was mixed, however late, in whatever order, and by however few. Then, for a learner i,

    |x_i - mean x|  <=  sum over updates of |c_i - mean c| |update|

and the same with l2 norms over learners for all of them together. That is the proposition with the mixing that really
took place instead of its constant beta. It is exact for a single update, and loose where several cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.exchange_log import NAME, ExchangeRecord

HISTORY = 8
"""Newest messages of each learner whose coefficients are kept; an older one that is mixed counts as a new update."""
AGREED = 1e-9
"""Coefficients of an update that differ by no more are folded into a remainder."""
MOST_COEFFICIENTS = 1 << 22
"""Kept, of 8 bytes; 16 learners in a ring need half as many, 64 have 7,281 updates. Beyond, the bound begins anew."""
FOLD_AFTER = 256
"""New updates, at least, between two looks at which are agreed upon."""


class Bound:
    """Coefficients of the updates in each learner's newest messages."""

    def __init__(self) -> None:
        """Begin with learners of equal weights."""
        self.lost = False
        """Whether something happened that is not recorded: there is no bound until ``start``."""
        self._equal = True
        """Whether a learner without records has the weights that all began with."""
        self._left: set[int] = set()
        self._clear()

    @property
    def updates(self) -> int:
        """Number of updates that have a coefficient of their own."""
        return self._count

    @property
    def coefficients(self) -> int:
        """Number of coefficients that are kept, with room for those of updates to come."""
        return self._rows.size

    def _clear(self) -> None:
        self._learners: list[int] = []
        self._versions = np.zeros((0, HISTORY), np.int64)
        self._rows = np.zeros((0, HISTORY + 1, FOLD_AFTER))  # of each learner: its messages, then its weights now
        self._norms = np.zeros(FOLD_AFTER)
        self._count, self._fold_at, self.remainder = 0, FOLD_AFTER, 0.0

    def start(self, versions: Mapping[int, int], distances: Mapping[int, float]) -> None:
        """Begin anew: with these messages, {learner: version}, each so far from one and the same point."""
        self._clear()
        self.lost = self._equal = False
        for learner, version in versions.items():
            self._enter(learner, np.zeros(0))
            self._step(learner, version, distances[learner])

    def keep(self, members: Sequence[int]) -> None:
        """Forget learners that have gone; one that comes back adopts weights first."""
        gone = [at for at, learner in enumerate(self._learners) if learner not in members]
        if gone:
            self._left |= {self._learners[at] for at in gone}
            self._learners = [learner for learner in self._learners if learner in members]
            self._rows, self._versions = np.delete(self._rows, gone, 0), np.delete(self._versions, gone, 0)

    def replay(self, learner: int, record: ExchangeRecord) -> None:
        """Do with coefficients what the learner did with weights."""
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
                return  # where it stands is not known until it adopts weights, or all are measured
            self._enter(learner, np.zeros(0))
        if record.kind == "stepped":
            self._step(learner, record.version, _finite(record.norm))
        elif len(found) < len(messages):
            self._update(learner, _finite(record.norm))
        else:
            self._row(learner)[:] = np.mean([self._row(learner), *found], axis=0)

    def of(self, versions: Mapping[int, int]) -> tuple[NDArray[np.float64], float] | None:
        """Distances from the mean of these messages, {learner: version}, that cannot be exceeded.

        Of each one's message [learners], and, as the Frobenius norm, of all together. None if a message is not known.
        """
        found = [self._find(learner, version) for learner, version in versions.items()]
        rows = [row for row in found if row is not None]
        if self.lost or not rows or len(rows) < len(found):
            return None
        norms, off = self._norms[: self._count], np.abs(rows - np.mean(rows, axis=0))
        together = np.sqrt(np.square(off).sum(0)) @ norms + np.sqrt(len(rows)) * self.remainder
        return off @ norms + self.remainder, float(together)

    def _find(self, learner: int, version: int) -> NDArray[np.float64] | None:
        """Coefficients in a message, [updates]; None if it is not remembered."""
        if learner not in self._learners:
            return None
        at, slot = self._learners.index(learner), version % HISTORY
        return self._rows[at, slot, : self._count] if self._versions[at, slot] == version else None

    def _row(self, learner: int) -> NDArray[np.float64]:
        """Coefficients in a learner's weights now, [updates]."""
        return self._rows[self._learners.index(learner), HISTORY, : self._count]

    def _enter(self, learner: int, coefficients: NDArray[np.float64]) -> None:
        """Take a learner in, or in again, with these coefficients and no messages."""
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
        """Take in that a vector of this norm was added to a learner's weights."""
        if self._count == self._fold_at:
            self._fold()
        self._norms[self._count] = norm
        self._count += 1
        self._row(learner)[-1] = 1.0

    def _fold(self) -> None:
        """Fold updates on which all agree into the remainder: means of coefficients are never farther apart."""
        rows = self._rows[:, :, : self._count]
        apart = rows.max((0, 1)) - rows.min((0, 1))
        kept = apart > AGREED
        self._equal &= bool(kept.all())  # what is folded is in all weights, also those of whom nothing is known
        self.remainder += float(apart[~kept] @ self._norms[: self._count][~kept])
        rows, norms = rows[:, :, kept], self._norms[: self._count][kept]
        self._count = len(norms)
        self.lost |= rows.size > MOST_COEFFICIENTS
        self._fold_at = self._count + max(self._count // 4, FOLD_AFTER)
        self._rows, self._norms = np.zeros((*rows.shape[:2], self._fold_at)), np.zeros(self._fold_at)
        self._rows[:, :, : self._count], self._norms[: self._count] = rows, norms


class Drift(NamedTuple):
    """One comparison that a learner made while the run went on."""

    time_ns: int
    learner: int
    distance: float
    """l2, of its message from the mean of all that there were."""
    bound: float
    """Largest value that the proposition allows for it."""
    together: float
    """Largest value that it allows for the Frobenius norm of all distances."""


class Follower:
    """Follows what all learners did, in the order of its time."""

    def __init__(self) -> None:
        """Begin with no records."""
        self.bound = Bound()
        self._done: list[tuple[int, ExchangeRecord]] = []

    def take(self, learner: int, record: ExchangeRecord) -> Drift | None:
        """Take in the next record; of a comparison, what it came to, unless that cannot be known."""
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
        """Begin with the measured distances where something happened of which there is no record.

        None where it is not known what a learner did after the step that led to its message.
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
    """Every comparison in what the learners {number: records} did, with its bound."""
    merged = [(learner, record) for learner, records in logs.items() for record in records]
    follower = Follower()
    taken = (follower.take(*item) for item in sorted(merged, key=_time_ns))
    return [point for point in taken if point is not None]


def logs_of(run_dir: Path) -> dict[int, list[ExchangeRecord]]:
    """Return the logs of a run's learners, by their numbers; empty where they were not kept (gossip.gradient_every)."""
    found = {path.stem.removeprefix(f"{NAME}-"): path for path in run_dir.glob(f"{NAME}-*.jsonl")}
    return {int(number): read(path) for number, path in found.items() if number.isdecimal()}


def read(path: Path) -> list[ExchangeRecord]:
    """Read all records of one learner; a line that is not whole stands for weights that came from elsewhere."""
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
