"""Counts of steps and updates of several learners, and their totals; each learner writes its own row, without locks.

Reads and writes one segment of shared memory. Rows are by the learner's number: a restarted learner finds its own row,
an attached one an empty row. The row also has the newest rollout of which other learners may have weights, which a
restarted learner does not learn from again.

Learners on several machines do not share the segment. Then each tells the others what it knows of all, with its
messages. Counts only grow, so of what was heard of a learner the largest is the newest, in any order and repetition.
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
"""8-byte words of a row that a learner tells others of one: its number, the steps and updates that it began with, and
those that it has done since."""

_MOST = 1 << 53
"""Largest count (``wire/identity.py``)."""


class Told(NamedTuple):
    """Counts of one learner that another one has told."""

    began_env_steps: int
    began_updates: int
    env_steps: int
    updates: int


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
        self._heard: dict[int, Told] = {}
        """Counts of learners that others have told; written by a thread of its own."""

    @property
    def begun(self) -> bool:
        """Whether this learner, or an incarnation of it that has died, has been here before."""
        return bool(self._began[self._learner, _UPDATES] >= 0)

    def begin(self, env_steps: int, updates: int) -> None:
        """Record the steps and updates in the weights with which a learner's first incarnation begins."""
        self._began[self._learner, : _UPDATES + 1] = env_steps, updates

    @property
    def heard(self) -> Told | None:
        """Counts of this learner itself that others know of, from a machine where it was before; None: of none."""
        return self._heard.get(self._learner)

    def begin_again(self, heard: Told, rollout: int) -> None:
        """Go on from counts that others know of, on another machine than before; ``rollout`` is the next to be counted.

        Its experience is new there, so rollouts of the same numbers that others have mixed are other ones.
        """
        self._records[self._learner].replace([heard.env_steps, heard.updates, rollout])
        self.begin(heard.began_env_steps, heard.began_updates)

    def table(self) -> NDArray[np.int64]:
        """Return what is known of all learners [learners, TABLE_WORDS], for learners that do not share memory."""
        return np.array([(learner, *told) for learner, told in sorted(self._known().items())], np.int64)

    def hear(self, table: NDArray[np.int64]) -> None:
        """Take another learner's `table`; rows that cannot be are left out."""
        for learner, *words in table.tolist():
            told = Told._make(words)
            if 0 <= learner < len(self._records) and 0 <= min(told) <= max(told) <= _MOST:
                before = self._heard.get(learner)
                if before is None or told.updates >= before.updates:
                    self._heard[learner] = told

    def _known(self) -> dict[int, Told]:
        """Return the newest counts of each learner, of this machine or told; the own are always in the segment."""
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
        known = self._known().values()
        env_steps = max((told.began_env_steps for told in known), default=0) + sum(told.env_steps for told in known)
        updates = max((told.began_updates for told in known), default=0) + sum(told.updates for told in known)
        return env_steps, updates
