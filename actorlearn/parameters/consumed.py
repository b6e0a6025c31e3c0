"""Table of the part of each learner's experience that is in some weights: kept, saved and transferred with them.

Reads and writes one array; knows no gradients and no rows of experience. A learner that takes weights reads its own
row: all rollouts before the row's rollout are in them, and so are that rollout's first minibatches. None of these is
learned from again, also after deaths.
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
"""Rows before the learners': one, which counts changes of the weights since the last whole update."""


class Position(NamedTuple):
    """A learner's position in its own experience, from which it continues."""

    rollout: int = 0
    """The rollout that is to be learned next, or is being learned."""
    used: int = 0
    """The learner's own environment steps before that rollout that are in the weights."""


BEGINNING = Position()
"""Position of a learner that has learned nothing."""


class Consumed:
    """A row for each learner, by number: next rollout, environment steps used before it, how far that rollout is."""

    def __init__(self, learners: int) -> None:
        """Begin with untrained weights."""
        self.table = np.zeros((_FOR_ALL + learners, CONSUMED_WORDS), np.int64)
        self._rows = self.table[_FOR_ALL:]

    def restore(self, table: NDArray[np.int64]) -> None:
        """Copy a saved table in; one of a run with fewer learners, or more, as far as it goes."""
        rows = min(len(table), len(self.table))
        self.table[:rows] = table[:rows]

    @property
    def changes(self) -> int:
        """Changes of the weights since the last whole update."""
        return int(self.table[0, 0])

    def position(self, learner: int) -> Position | None:
        """Return the position from which a learner continues with these weights; None where it is not recorded."""
        rollout, used = self._rows[learner, : _USED + 1].tolist()
        return None if rollout < 0 else Position(rollout, used)

    def done(self, learner: int, rollout: int) -> int:
        """Minibatches of a rollout that is not learned from as a whole."""
        row = self._rows[learner]
        return int(row[_STEPS]) if row[_ROLLOUT] == rollout else 0

    def merged(self, learner: int, rollout: int) -> bool:
        """Whether the statistics have the moments of a learner's rollout."""
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
        """Record that a minibatch of each of these learners is in the parameters."""
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
        """Remove partly learned rollouts: their experience will not come again."""
        self._rows[:, [_MERGED, _STEPS]] = 0
        self.table[0, 0] = 0
