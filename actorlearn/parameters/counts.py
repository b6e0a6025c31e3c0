"""What several learners have learned from, added up: each counts in a row of its own, and nobody needs a lock.

Reads and writes one segment of shared memory. Rows are by the learner's number, so one that was killed finds its own
again, and one that comes later finds an empty one.
"""

from __future__ import annotations

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

_ENV_STEPS, _UPDATES = range(2)


def counts_fields(learners: int) -> list[Field]:
    """Fields of the segment, for so many learners that there can ever be."""
    return [
        Field("began", "int64", (learners, 8), -1),  # env steps and updates in the weights that the learner began with
        Field("done", "int64", (learners, 8), 0),  # and those that it has learned from since
    ]


class Counts:
    """Environment steps and updates of all learners, to which one of them adds."""

    def __init__(self, segment: Segment, learner: int) -> None:
        """Bind to the learner's row."""
        self._began, self._done = segment["began"], segment["done"]
        self._learner = learner

    @property
    def begun(self) -> bool:
        """Whether this learner, or an incarnation of it that has died, has been here before."""
        return bool(self._began[self._learner, _UPDATES] >= 0)

    def begin(self, env_steps: int, updates: int) -> None:
        """Say what the weights have been learned from with which a learner's first incarnation begins."""
        self._began[self._learner, : _UPDATES + 1] = env_steps, updates

    def add(self, env_steps: int, updates: int) -> None:
        """Add to this learner's own."""
        self._done[self._learner, : _UPDATES + 1] += (env_steps, updates)

    @property
    def total(self) -> tuple[int, int]:
        """Environment steps and updates of all: the most that anybody began with, and what each has done since."""
        env_steps, updates = (self._began.max(0).clip(0) + self._done.sum(0))[: _UPDATES + 1].tolist()
        return env_steps, updates
