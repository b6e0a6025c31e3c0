"""Counts of the environment steps and updates of all learners in mode gossip.

Learners on one machine keep them in a segment of shared memory. Each learner writes the row with its number, without
locks. A restarted learner finds its row there; an attached learner has an empty row. The row also says from which
rollouts other learners' weights may have learned, so that a restarted learner does not learn from them again.

Learners on several machines do not share the segment. Their messages contain a table of the counts of all learners.
Counts only grow, so the largest counts of a learner are its newest ones, in whatever order messages arrive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

_ENV_STEPS, _UPDATES, _ROLLOUTS_LEARNED = range(3)
TABLE_WORDS = 5
"""Number of 8-byte integers per learner in a message: the learner's number, then its `LearnerCounts`."""

_MOST = 1 << 53
"""Largest valid count (``wire/identity.py``)."""


class LearnerCounts(NamedTuple):
    """Environment steps and updates of one learner in mode gossip."""

    began_env_steps: int
    """Number of environment steps of all learners in the weights with which the learner began."""
    began_updates: int
    """Number of updates of all learners in these weights."""
    env_steps: int
    """Number of environment steps that the learner has learned from since then."""
    updates: int
    """Number of updates that the learner has made since then."""


def counts_fields(learners: int) -> list[Field]:
    """Return the shared memory layout of the counts; ``learners`` is the largest number of learners of a run."""
    return [
        Field("began", "int64", (learners, 8), -1),  # env steps and updates in the weights that the learner began with
        Field("settled", "int64", (learners, 8), 0),  # how often each learner has counted a rollout
        Field("done", "int64", (SLOTS, learners, 8), 0),  # env steps and updates since, and the next rollout to count
        Field("claimed", "int64", (learners, 8), 0),  # the rollout after the newest one that others may have mixed
    ]


class SharedCounts:
    """Environment steps and updates of all learners in mode gossip, of which each learner writes its own."""

    def __init__(self, segment: Segment, learner: int) -> None:
        self._began, self._claimed = segment["began"], segment["claimed"][:, 0]
        settled, done = segment["settled"], segment["done"]
        self._records = [CommittedRecord(settled[other], done[:, other]) for other in range(len(settled))]
        self._learner = learner
        self._received: dict[int, LearnerCounts] = {}
        """Counts of learners from messages, by learner; written by the mailbox's receiving thread."""

    @property
    def begun(self) -> bool:
        """Whether this learner has called `begin`, possibly before a restart."""
        return bool(self._began[self._learner, _UPDATES] >= 0)

    @property
    def updates(self) -> int:
        """Number of updates that this learner has counted on this machine; -1 if it has not called `begin`."""
        return int(self._records[self._learner].now[0][_UPDATES]) if self.begun else -1

    def begin(self, env_steps: int, updates: int) -> None:
        """Record the counts of all learners in the weights with which this learner starts; not after a restart."""
        self._began[self._learner, : _UPDATES + 1] = env_steps, updates

    @property
    def received(self) -> LearnerCounts | None:
        """Counts of this learner in messages of others, if it was on another machine before; None if there are none."""
        return self._received.get(self._learner)

    def begin_again(self, received: LearnerCounts, rollout: int) -> None:
        """Continue on this machine with the counts that others have of this learner; ``rollout`` is the next one.

        The learner plays new games on this machine, so no rollout that others have used is learned from again.
        """
        self._records[self._learner].replace([received.env_steps, received.updates, rollout])
        self.begin(received.began_env_steps, received.began_updates)

    def table(self) -> NDArray[np.int64]:
        """Return the newest known counts of all learners, [learners, TABLE_WORDS], for a message."""
        return np.array([(learner, *counts) for learner, counts in sorted(self._known().items())], np.int64)

    def receive(self, table: NDArray[np.int64]) -> None:
        """Copy newer counts from a table that another learner has sent; invalid rows are left out."""
        for learner, *words in table.tolist():
            counts = LearnerCounts._make(words)
            if 0 <= learner < len(self._records) and 0 <= min(counts) <= max(counts) <= _MOST:
                before = self._received.get(learner)
                if before is None or counts.updates >= before.updates:
                    self._received[learner] = counts

    def _known(self) -> dict[int, LearnerCounts]:
        """Return the newest counts of each learner, from shared memory or from messages."""
        known = dict(self._received)
        known.pop(self._learner, None)
        began = self._began[:, : _UPDATES + 1].copy()
        for other in np.flatnonzero(began[:, _UPDATES] >= 0).tolist():
            counts = LearnerCounts(
                *began[other].tolist(), *self._records[other].read([_ENV_STEPS, _UPDATES])[0].tolist()
            )
            if other not in known or counts.updates >= known[other].updates:
                known[other] = counts
        return known

    @property
    def claimed(self) -> int:
        """First rollout of this learner from which no other learner's weights can have learned."""
        return int(self._claimed[self._learner])

    def claim(self, rollout: int) -> None:
        """Record, before weights are sent, that they have learned from this rollout of this learner."""
        self._claimed[self._learner] = rollout + 1
        hit("shared_counts.claimed")

    @property
    def rollouts_learned(self) -> int:
        """Number of the next rollout that this learner has to count."""
        return int(self._records[self._learner].now[0][_ROLLOUTS_LEARNED])

    def add(self, rollout: int, env_steps: int) -> None:
        """Count a rollout of this learner, and an update with it, unless it was counted before a restart."""
        own = self._records[self._learner]
        before = own.now[0].tolist()
        if rollout >= before[_ROLLOUTS_LEARNED]:
            own.replace([before[_ENV_STEPS] + env_steps, before[_UPDATES] + 1, rollout + 1])

    @property
    def total(self) -> tuple[int, int]:
        """Environment steps and updates of all learners: those of the weights they started with, and all made since."""
        known = self._known().values()
        env_steps = max((each.began_env_steps for each in known), default=0) + sum(each.env_steps for each in known)
        updates = max((each.began_updates for each in known), default=0) + sum(each.updates for each in known)
        return env_steps, updates
