"""A table that says from which part of each learner's experience the weights have learned.

It belongs to the weights: it is saved, and sent to other learners, together with them. A row says that the weights have
learned from all rollouts of a learner before a certain one, and from the first minibatches of that rollout. A learner
that takes weights, for example after a restart, therefore knows what not to learn from again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONSUMED_WORDS = 4
"""Number of 8-byte integers in a learner's row of the table."""
_ROLLOUT, _USED, _MERGED, _STEPS = range(4)
_FOR_ALL = 1
"""Number of rows before the learners' rows. Row 0 has the number of changes of the weights since the last whole
update."""


class Position(NamedTuple):
    """A learner's position in its own experience, from which it continues."""

    rollout: int = 0
    """Number of the rollout from which the learner learns now or next."""
    used: int = 0
    """Number of the learner's environment steps in the updates before that rollout. Steps whose optimizer steps were
    skipped, because they were not finite, are included."""

    @property
    def first_change(self) -> int:
        """Number of the first change that this rollout makes to central weights (modes async).

        A *change* is one optimizer step, or one merge of statistics. The changes of a rollout are numbered in order,
        and 2**32 numbers belong to a rollout. Minibatches depend only on the seed and the rollout. A restarted learner
        that repeats its rollout therefore makes the same changes with the same numbers, and changes that were applied
        before are skipped.
        """
        return self.rollout << 32


BEGINNING = Position()
"""Position of a learner that has learned nothing."""


class Consumed:
    """The table: for each learner number, a rollout, the environment steps before it, and the progress in it."""

    def __init__(self, learners: int) -> None:
        """Begin with the table of untrained weights, for learners 0 to ``learners`` - 1."""
        self.table = np.zeros((_FOR_ALL + learners, CONSUMED_WORDS), np.int64)
        self._rows = self.table[_FOR_ALL:]
        self.advanced = False
        """Whether the weights have learned since they were restored from a checkpoint, in this learner or in the one
        from which they were taken. It is not saved."""

    def restore(self, table: NDArray[np.int64]) -> None:
        """Copy a saved table. If it has fewer or more learners, only the rows of learners in both are copied."""
        rows = min(len(table), len(self.table))
        self.table[:rows] = table[:rows]
        self.advanced = False

    @property
    def changes(self) -> int:
        """Number of changes of the weights since the last whole update."""
        return int(self.table[0, 0])

    def position(self, learner: int) -> Position | None:
        """Return the position from which a learner continues with these weights; None if it is not recorded."""
        rollout, used = self._rows[learner, : _USED + 1].tolist()
        return None if rollout < 0 else Position(rollout, used)

    def done(self, learner: int, rollout: int) -> int:
        """Return the number of minibatches of the rollout from which the weights have learned.

        The result is 0 if the rollout is not the one in the learner's row.
        """
        row = self._rows[learner]
        return int(row[_STEPS]) if row[_ROLLOUT] == rollout else 0

    def merged(self, learner: int, rollout: int) -> bool:
        """Whether the statistics of observations contain the moments of this rollout of the learner."""
        row = self._rows[learner]
        return bool(row[_MERGED]) and row[_ROLLOUT] == rollout

    def begin(self, learner: int, position: Position) -> None:
        """Record that a learner begins or continues a rollout."""
        row = self._rows[learner]
        if row[_ROLLOUT] != position.rollout:
            row[:] = (*position, 0, 0)

    def merge(self, learner: int) -> None:
        """Record that the statistics contain the moments of the learner's current rollout."""
        self._rows[learner, _MERGED] = 1
        self._count_change()

    def step(self, learners: Iterable[int]) -> None:
        """Record that the weights have learned from one more minibatch of each of these learners, in one step."""
        for learner in learners:
            self._rows[learner, _STEPS] += 1
        self._count_change()

    def _count_change(self) -> None:
        self.table[0, 0] += 1
        self.advanced = True

    def settle(self, learner: int, env_steps: int) -> None:
        """Record that the weights have learned from the learner's whole rollout, of ``env_steps`` environment steps."""
        row = self._rows[learner]
        row[:] = row[_ROLLOUT] + 1, row[_USED] + env_steps, 0, 0
        self.table[0, 0] = 0
        self.advanced = True

    def forget_others(self, learner: int) -> None:
        """Remove the positions of all other learners, because these weights no longer learn from their experience."""
        others = np.arange(len(self._rows)) != learner
        self._rows[others, _ROLLOUT] = -1

    def forget_parts(self) -> None:
        """Remove the progress in unfinished rollouts, because simulators have begun anew and will not repeat them."""
        self._rows[:, [_MERGED, _STEPS]] = 0
        self.table[0, 0] = 0
