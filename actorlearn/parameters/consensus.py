"""How far learners that mix are apart: proposition 1's bound from what they did, the measured distance beside it.

Reads what all learners log of their exchanges, and their messages and gradients; writes nothing and knows no processes.
Source: Assran et al. (2019), proposition 1 and figure 2.

Each message is the weights all began with plus a sum of updates, each times a coefficient: 1 in the message it led to,
and from there on what mixing makes of it. Mixing takes means of messages, so the coefficients follow from the records
alone: which message of whom was mixed, however late, in whatever order, and by however few. Then, for a learner i,

    |x_i - mean x|  <=  sum over updates of |c_i - mean c| |update|

and the same with l2 norms over learners for all of them together. That is the proposition with the mixing that really
took place instead of its constant beta. It is exact for a single update, and loose where several cancel out.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.shared import Segment, SegmentError
from actorlearn.parameters.exchange_log import ADOPTED, STEPPED, ExchangeReader, Overrun, Record

HISTORY = 8
"""Messages of each learner whose coefficients are remembered; an older one that is mixed counts as any update would."""
AGREED = 1e-9
"""Coefficients of an update that differ by no more are folded into a remainder."""
MOST_COEFFICIENTS = 1 << 22
"""Kept, of 8 bytes; 16 learners in a ring need half as many, 64 have 7,281 updates. Beyond, the bound begins anew."""
FOLD_AFTER = 256
"""New updates, at least, between two looks at which are agreed upon."""


class Measured(NamedTuple):
    """The learners' newest messages, compared."""

    versions: dict[int, int]
    """Of each learner that has posted one."""
    distances: dict[int, float]
    """l2, of each from the first one's."""
    distance: float
    """l2, of the first one's from the mean of all."""


class Bound:
    """Coefficients of the updates in each learner's newest messages."""

    def __init__(self) -> None:
        """All learners begin with equal weights."""
        self.lost = False
        """Something happened that no record tells: no bound until `start`."""
        self._equal = True
        """A learner of which nothing is known yet has the weights that all began with."""
        self._left: set[int] = set()
        self._clear()

    def _clear(self) -> None:
        self._learners: list[int] = []
        self._versions = np.zeros((0, HISTORY), np.int64)
        self._rows = np.zeros((0, HISTORY + 1, FOLD_AFTER))  # of each learner: its messages, then its weights now
        self._norms = np.zeros(FOLD_AFTER)
        self._count, self._fold_at, self._remainder = 0, FOLD_AFTER, 0.0

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

    def replay(self, learner: int, record: Record) -> None:
        """Do with coefficients what the learner did with weights."""
        if self.lost:
            self._clear()
            return
        messages = [self._find(peer, version) for peer, version in record.messages.items()]
        found = [row for row in messages if row is not None]
        if record.kind == ADOPTED:
            if not messages or len(found) < len(messages):
                self.lost = True  # weights from elsewhere
                return
            self._enter(learner, np.mean(found, axis=0))
            return
        if learner not in self._learners:
            if not self._equal or learner in self._left:
                return  # where it stands is not known until it adopts weights, or all are measured
            self._enter(learner, np.zeros(0))
        if record.kind == STEPPED:
            self._step(learner, record.version, record.norm)
        elif len(found) < len(messages):
            self._update(learner, record.norm)
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
        together = np.sqrt(np.square(off).sum(0)) @ norms + np.sqrt(len(rows)) * self._remainder
        return off @ norms + self._remainder, float(together)

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
        """A vector of that norm was added to a learner's weights."""
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
        self._remainder += float(apart[~kept] @ self._norms[: self._count][~kept])
        rows, norms = rows[:, :, kept], self._norms[: self._count][kept]
        self._count = len(norms)
        self.lost |= rows.size > MOST_COEFFICIENTS
        self._fold_at = self._count + max(self._count // 4, FOLD_AFTER)
        self._rows, self._norms = np.zeros((*rows.shape[:2], self._fold_at)), np.zeros(self._fold_at)
        self._rows[:, :, : self._count], self._norms[: self._count] = rows, norms


class Consensus:
    """Follows the records of all learners, in the order of their times."""

    def __init__(self, folder: Path) -> None:
        """Follow the rings ``exchanges-<learner>`` in a folder, from their beginning."""
        self._folder = folder
        self._readers: dict[int, ExchangeReader] = {}
        self._waiting: list[tuple[int, Record]] = []
        self._bound = Bound()

    def follow(self, members: Sequence[int]) -> None:
        """Take in what these learners did until now; often enough that no ring overruns.

        What one did until now rests on records that can be seen by now, though perhaps not yet when this reads them: so
        those that are newer than this call wait for the next.
        """
        now_ns = time.monotonic_ns()
        self._bound.keep(members)
        if self._bound.lost:
            return
        try:
            for learner in members:
                if (reader := self._reader(learner)) is not None:
                    self._waiting += [(learner, record) for record in reader.read()]
        except Overrun:
            self._bound.lost = True
            return
        self._waiting.sort(key=_time_ns)
        ready = bisect_right(self._waiting, now_ns, key=_time_ns)
        for learner, record in self._waiting[:ready]:
            self._bound.replay(learner, record)
        self._waiting = self._waiting[ready:]

    def bound(self, members: Sequence[int], measured: Measured) -> tuple[NDArray[np.float64], float] | None:
        """`Bound.of` messages that were measured before this call.

        Where records were lost, or learners began with weights of their own, it begins anew from the measured
        distances. None if even that fails because a learner was too quick; the next call tries again.
        """
        self.follow(members)
        if (told := self._bound.of(measured.versions)) is not None:
            return told
        self._bound.lost = True  # until all readers are back at those messages
        self._waiting.clear()
        try:
            for learner, version in measured.versions.items():
                if (reader := self._reader(learner)) is not None:
                    reader.rewind(version)
        except Overrun:
            return None
        self._bound.start(measured.versions, measured.distances)
        return self._bound.of(measured.versions)

    def close(self) -> None:
        """Unmap the rings."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def _reader(self, learner: int) -> ExchangeReader | None:
        if learner not in self._readers:
            try:
                segment = Segment.open(self._folder / f"exchanges-{learner}")
            except (FileNotFoundError, SegmentError):  # not made yet
                return None
            self._readers[learner] = ExchangeReader(segment)
        return self._readers[learner]


def measure(learners: Sequence[int], take: Callable[[int, NDArray[np.float32]], int], size: int) -> Measured:
    """Compare messages [size] of learners that have posted; `take` copies a learner's newest and says its version."""
    first, other = np.empty(size, np.float32), np.empty(size, np.float32)
    versions = {learners[0]: take(learners[0], first)}
    total, distances = first.astype(np.float64), {learners[0]: 0.0}
    for learner in learners[1:]:
        versions[learner] = take(learner, other)
        total += other
        distances[learner] = _norm(np.subtract(other, first, dtype=np.float64))
    total /= len(learners)
    return Measured(versions, distances, _norm(np.subtract(first, total, out=total)))


def _time_ns(item: tuple[int, Record]) -> int:
    return item[1].time_ns


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt(vector @ vector))


def cosines(gradients: Mapping[int, NDArray[np.float32]]) -> dict[str, float]:
    """Cosine of the angle between every two learners' gradients: {"0-1": 0.83, ...}; 0 where one is 0."""
    vectors = {learner: vector / max(float(np.linalg.norm(vector)), 1e-30) for learner, vector in gradients.items()}
    return {f"{one}-{other}": float(vectors[one] @ vectors[other]) for one, other in combinations(sorted(vectors), 2)}
