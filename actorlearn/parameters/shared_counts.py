"""Counts of steps and updates of several learners, and their totals; each learner writes its own row, without locks.

Reads and writes one segment of shared memory. Rows are by the learner's number: a restarted learner finds its own row,
an attached one an empty row. The row also has the newest rollout of which other learners may have weights, which a
restarted learner does not learn from again.
"""

from __future__ import annotations

import numpy as np

from actorlearn.failpoints import hit
from actorlearn.memory.fields import Field
from actorlearn.memory.record import SLOTS, CommittedRecord
from actorlearn.memory.shared import Segment

_ENV_STEPS, _UPDATES, _ROLLOUTS_LEARNED = range(3)


def counts_fields(learners: int) -> list[Field]:
    """Fields of the segment, for so many learners that there can ever be."""
    return [
        Field("began", "int64", (learners, 8), -1),  # env steps and updates in the weights that the learner began with
        Field("settled", "int64", (learners, 8), 0),  # how often each has counted a rollout
        Field("done", "int64", (SLOTS, learners, 8), 0),  # what was learned from since, and the rollout after it
        Field("claimed", "int64", (learners, 8), 0),  # the rollout after the one that others may have something of
    ]


class SharedCounts:
    """Environment steps and updates of all learners, to which one of them adds."""

    def __init__(self, segment: Segment, learner: int) -> None:
        """Bind to the learner's row."""
        self._began, self._claimed = segment["began"], segment["claimed"][:, 0]
        settled, done = segment["settled"], segment["done"]
        self._records = [CommittedRecord(settled[other], done[:, other]) for other in range(len(settled))]
        self._learner = learner

    @property
    def begun(self) -> bool:
        """Whether this learner, or an incarnation of it that has died, has been here before."""
        return bool(self._began[self._learner, _UPDATES] >= 0)

    def begin(self, env_steps: int, updates: int) -> None:
        """Record the steps and updates in the weights with which a learner's first incarnation begins."""
        self._began[self._learner, : _UPDATES + 1] = env_steps, updates

    @property
    def claimed(self) -> int:
        """Rollout below which other learners may have mixed weights learned from this learner's rollouts."""
        return int(self._claimed[self._learner])

    def claim(self, rollout: int) -> None:
        """Record that others may have weights of this rollout; called before they are posted."""
        self._claimed[self._learner] = rollout + 1
        hit("counts.claimed")

    @property
    def rollouts_learned(self) -> int:
        """Rollout after the one that this learner has counted last."""
        return int(self._records[self._learner].now[0][_ROLLOUTS_LEARNED])

    def add(self, rollout: int, env_steps: int, updates: int) -> None:
        """Count a rollout of this learner, unless an earlier incarnation has counted it."""
        own = self._records[self._learner]
        before = own.now[0].tolist()
        if rollout >= before[_ROLLOUTS_LEARNED]:
            own.replace([before[_ENV_STEPS] + env_steps, before[_UPDATES] + updates, rollout + 1])

    @property
    def total(self) -> tuple[int, int]:
        """Return steps and updates of all learners: the largest beginning, plus each one's counts since."""
        began = self._began[:, : _UPDATES + 1].copy()
        done = [
            self._records[other].read([_ENV_STEPS, _UPDATES])[0] for other in np.flatnonzero(began[:, _UPDATES] >= 0)
        ]
        env_steps, updates = (began.max(0).clip(0) + sum(done)).tolist()
        return env_steps, updates
