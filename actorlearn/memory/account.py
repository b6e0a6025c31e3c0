"""The account of a learner's experience: counts in shared memory that outlive the trainer who keeps them.

produced = used + dropped, for one of the reasons below, + in flight, which is what lies in blocks and is not learned.

The trainer commits after what it has learned is where it stays, and before it frees the rollout's blocks: whoever takes
up its work reads which rollout comes next and what has been counted so far, both of the same moment
(``memory/record.py``). So a trainer that is killed half-way has committed nothing, and does the rollout again.
"""

from __future__ import annotations

import msgspec

from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

REASONS = {
    "unfinished": "their simulator ended within a rollout",
    "stale": "acting weights were too old: algorithm.on_policy_lag: drop",
    "no_room": "more environments than the replay has rings",
    "rolled_back": "learned by a trainer that died before it saved again",
    "not_resumed": "in flight at the checkpoint that a run was resumed from",
}
"""Reasons for which steps are dropped: counts of an Account, and columns ``dropped_…`` of a report."""


def account_fields() -> list[Field]:
    """Fields of a learner's account segment."""
    return [Field("commits", "int64", (8,), 0), Field("records", "int64", (SLOTS, 16), 0)]


class Counts(msgspec.Struct, kw_only=True):
    """Environment steps of one learner."""

    used: int = 0
    """Learned from, by weights that have not been rolled back since."""
    dropped: dict[str, int] = {}
    """Never to be learned from, or learned from in vain: reason -> steps."""

    def __post_init__(self) -> None:
        """Have every reason, in order, also where an older version has counted."""
        self.dropped = {reason: self.dropped.get(reason, 0) for reason in REASONS}

    @property
    def dropped_steps(self) -> int:
        """Dropped for whatever reason."""
        return sum(self.dropped.values())


class Account:
    """A learner's place and counts: the committed ones, and those that its trainer is about to commit."""

    def __init__(self, segment: Segment) -> None:
        """Bind to an account segment; goes on with what has been committed, if anything has."""
        self._record = CommittedRecord(segment["commits"], segment["records"])
        self.rollouts_learned, self.counts = self.committed()
        """The next rollout to be learned, and the steps of all before it."""

    @property
    def commits(self) -> int:
        """Number of commits since the run's memory was made."""
        return self._record.commits

    def committed(self) -> tuple[int, Counts]:
        """Return the next rollout to be learned, and the counts of all before it; any process may ask."""
        (record,) = self._record.read(slice(2 + len(REASONS)))
        rollouts_learned, used, *dropped = record.tolist()
        return rollouts_learned, Counts(used=used, dropped=dict(zip(REASONS, dropped, strict=True)))

    def commit(self) -> None:
        """Make what has been counted the record; the trainer alone."""
        self._record.replace([self.rollouts_learned, self.counts.used, *self.counts.dropped.values()])
