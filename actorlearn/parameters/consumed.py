"""Table of the part of each learner's experience that is in the weights; it is kept, saved and sent with the weights.

Reads and writes one array. A learner that takes weights also reads its own row of the table that belongs to them. The
weights contain all rollouts before the row's rollout, and that rollout's first minibatches. The learner does not learn
from these again, even after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONSUMED_WORDS = 4
"""8-byte words in a learner's row of the table."""
_ROLLOUT, _USED, _MERGED, _STEPS = range(4)
_FOR_ALL = 1
"""Number of rows before the learners' rows: one, which counts changes of the weights since the last whole update."""


class Position(NamedTuple):
    """A learner's position in its own experience, from which it continues."""

    rollout: int = 0
    """The rollout that the learner learns now or next."""
    used: int = 0
    """The learner's own environment steps of the passes before that rollout; also those whose optimizer steps were
    skipped because they were not finite."""

    @property
    def first_change(self) -> int:
        """Number of the rollout's first change of central weights; each rollout has 2**32 numbers."""
        return self.rollout << 32


BEGINNING = Position()
"""Position of a learner that has learned nothing."""


class Consumed:
    """A row for each learner, by number: its rollout, the environment steps before it, and its progress in it."""

    def __init__(self, learners: int) -> None:
        """Begin with the table of untrained weights."""
        self.table = np.zeros((_FOR_ALL + learners, CONSUMED_WORDS), np.int64)
        self._rows = self.table[_FOR_ALL:]

    def restore(self, table: NDArray[np.int64]) -> None:
        """Copy a saved table; if it is of a run with fewer or more learners, copy the rows that both have."""
        rows = min(len(table), len(self.table))
        self.table[:rows] = table[:rows]

    @property
    def changes(self) -> int:
        """Return the number of changes of the weights since the last whole update."""
        return int(self.table[0, 0])

    def position(self, learner: int) -> Position | None:
        """Return the position from which a learner continues with these weights; None if it is not recorded."""
        rollout, used = self._rows[learner, : _USED + 1].tolist()
        return None if rollout < 0 else Position(rollout, used)

    def done(self, learner: int, rollout: int) -> int:
        """Return the number of a rollout's minibatches in the weights; 0 if it is not the learner's current rollout."""
        row = self._rows[learner]
        return int(row[_STEPS]) if row[_ROLLOUT] == rollout else 0

    def merged(self, learner: int, rollout: int) -> bool:
        """Whether the statistics contain the moments of a learner's current rollout."""
        row = self._rows[learner]
        return bool(row[_MERGED]) and row[_ROLLOUT] == rollout

    def begin(self, learner: int, position: Position) -> None:
        """Record that a learner begins or continues a rollout."""
        row = self._rows[learner]
        if row[_ROLLOUT] != position.rollout:
            row[:] = (*position, 0, 0)

    def merge(self, learner: int) -> None:
        """Record that a learner's moments are in the statistics."""
        self._rows[learner, _MERGED] = 1
        self.table[0, 0] += 1

    def step(self, learners: Iterable[int]) -> None:
        """Record that the parameters contain one more minibatch of each of these learners."""
        for learner in learners:
            self._rows[learner, _STEPS] += 1
        self.table[0, 0] += 1

    def settle(self, learner: int, env_steps: int) -> None:
        """Record that a learner's rollout, of ``env_steps`` steps, is in the weights."""
        row = self._rows[learner]
        row[:] = row[_ROLLOUT] + 1, row[_USED] + env_steps, 0, 0
        self.table[0, 0] = 0

    def forget_others(self, learner: int) -> None:
        """Remove the positions of all learners but this one: their experience is no longer counted here."""
        others = np.arange(len(self._rows)) != learner
        self._rows[others, _ROLLOUT] = -1

    def forget_parts(self) -> None:
        """Remove the progress in unfinished rollouts, whose experience will not be repeated."""
        self._rows[:, [_MERGED, _STEPS]] = 0
        self.table[0, 0] = 0
