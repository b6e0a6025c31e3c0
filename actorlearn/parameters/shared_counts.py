"""Counts of steps and updates of several learners, and their totals; each learner writes its own row, without locks.

Reads and writes one segment of shared memory. Rows are indexed by the learner's number: a restarted learner finds its
own row, an attached learner an empty row. The row also has the newest rollout of which other learners may have weights;
a restarted learner does not learn from this rollout again.

Learners on several machines do not share the segment. There, each learner's messages contain its table of all learners'
counts. Counts only grow, so the largest counts of a learner are the newest, whatever the order of messages.
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
"""8-byte words of a row in a message: a learner's number, the steps and updates that it began with, and those since."""

_MOST = 1 << 53
"""Largest count (``wire/identity.py``)."""


class Told(NamedTuple):
    """Counts of one learner, as reported in a message from another learner."""

    began_env_steps: int
    began_updates: int
    env_steps: int
    updates: int


def counts_fields(learners: int) -> list[Field]:
    """Return the fields of the segment; `learners` is the largest number of learners in the life of the run."""
    return [
        Field("began", "int64", (learners, 8), -1),  # env steps and updates in the weights that the learner began with
        Field("settled", "int64", (learners, 8), 0),  # how often each learner has counted a rollout
        Field("done", "int64", (SLOTS, learners, 8), 0),  # env steps and updates since, and the next rollout to count
        Field("claimed", "int64", (learners, 8), 0),  # the rollout after the newest one that others may have mixed
    ]


class SharedCounts:
    """Environment steps and updates of all learners, to which one of them adds."""

    def __init__(self, segment: Segment, learner: int) -> None:
        self._began, self._claimed = segment["began"], segment["claimed"][:, 0]
        settled, done = segment["settled"], segment["done"]
        self._records = [CommittedRecord(settled[other], done[:, other]) for other in range(len(settled))]
        self._learner = learner
        self._heard: dict[int, Told] = {}
        """Counts of learners from messages, by learner; written by the mailbox's receiving thread."""

    @property
    def begun(self) -> bool:
        """Whether this learner has called `begin`, in this or an earlier incarnation."""
        return bool(self._began[self._learner, _UPDATES] >= 0)

    def begin(self, env_steps: int, updates: int) -> None:
        """Record the steps and updates in the weights with which a learner's first incarnation begins."""
        self._began[self._learner, : _UPDATES + 1] = env_steps, updates

    @property
    def heard(self) -> Told | None:
        """Counts of this learner in others' messages, from when it was on another machine; None if there are none."""
        return self._heard.get(self._learner)

    def begin_again(self, heard: Told, rollout: int) -> None:
        """Continue from the counts in others' messages after a move to this machine; ``rollout``: the next to count.

        The learner's experience is new here, so rollouts that others have mixed are not repeated under their numbers.
        """
        self._records[self._learner].replace([heard.env_steps, heard.updates, rollout])
        self.begin(heard.began_env_steps, heard.began_updates)

    def table(self) -> NDArray[np.int64]:
        """Return the newest counts of all learners [learners, TABLE_WORDS], for learners that do not share memory."""
        return np.array([(learner, *told) for learner, told in sorted(self._known().items())], np.int64)

    def hear(self, table: NDArray[np.int64]) -> None:
        """Take another learner's `table`; invalid rows are left out."""
        for learner, *words in table.tolist():
            told = Told._make(words)
            if 0 <= learner < len(self._records) and 0 <= min(told) <= max(told) <= _MOST:
                before = self._heard.get(learner)
                if before is None or told.updates >= before.updates:
                    self._heard[learner] = told

    def _known(self) -> dict[int, Told]:
        """Return the newest counts of each learner, from the segment or from messages; its own from the segment."""
        known = dict(self._heard)
        known.pop(self._learner, None)
        began = self._began[:, : _UPDATES + 1].copy()
        for other in np.flatnonzero(began[:, _UPDATES] >= 0).tolist():
            told = Told(*began[other].tolist(), *self._records[other].read([_ENV_STEPS, _UPDATES])[0].tolist())
            if other not in known or told.updates >= known[other].updates:
                known[other] = told
        return known

    @property
    def claimed(self) -> int:
        """The rollout after the newest rollout of this learner that other learners' weights may contain."""
        return int(self._claimed[self._learner])

    def claim(self, rollout: int) -> None:
        """Record that other learners' weights may contain this rollout; called before its weights are posted."""
        self._claimed[self._learner] = rollout + 1
        hit("shared_counts.claimed")

    @property
    def rollouts_learned(self) -> int:
        """The rollout after the one that this learner has counted last."""
        return int(self._records[self._learner].now[0][_ROLLOUTS_LEARNED])

    def add(self, rollout: int, env_steps: int, updates: int) -> None:
        """Count a rollout of this learner, unless an earlier incarnation has counted it."""
        own = self._records[self._learner]
        before = own.now[0].tolist()
        if rollout >= before[_ROLLOUTS_LEARNED]:
            own.replace([before[_ENV_STEPS] + env_steps, before[_UPDATES] + updates, rollout + 1])

    @property
    def total(self) -> tuple[int, int]:
        """Environment steps and updates of all learners: the largest beginning, plus the counts of each since."""
        known = self._known().values()
        env_steps = max((told.began_env_steps for told in known), default=0) + sum(told.env_steps for told in known)
        updates = max((told.began_updates for told in known), default=0) + sum(told.updates for told in known)
        return env_steps, updates
