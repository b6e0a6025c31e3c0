"""A table that says from which part of each learner's experience the weights have learned.

It belongs to the weights: it is saved, and sent to other learners, together with them. For each learner it has the
number of a rollout. The weights have learned from all its earlier rollouts, and from the first minibatches of this one.
A learner that takes weights, for example after a restart, therefore knows what not to learn from again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONSUMED_WORDS = 4
"""Number of 8-byte integers per learner in the table."""
_ROLLOUT, _USED, _MERGED, _STEPS = range(4)
_FOR_ALL = 1
"""Number of table rows before those of the learners. Row 0 has the value of `Consumed.changes`."""


class Position(NamedTuple):
    """The rollout that a learner learns from next, and its number of environment steps before it."""

    rollout: int = 0
    """Number of the rollout from which the learner learns now or next."""
    used: int = 0
    """Number of the learner's environment steps in the updates before that rollout. Steps whose optimizer steps were
    skipped, because they were not finite, are included."""

    @property
    def first_change(self) -> int:
        """Number of the first optimizer step, or merge of observation statistics, that is made in this rollout.

        Mode async numbers the steps and merges of a rollout in order, and reserves 2**32 numbers for it. A learner that
        is restarted repeats its rollout with the same minibatches and numbers, so those that were applied before are
        recognised and skipped.
        """
        return self.rollout << 32


BEGINNING = Position()
"""Position of a learner that has learned nothing."""


class Consumed:
    """For each learner, which of its rollouts and minibatches the weights have already learned from.

    It is saved with the weights, so that after a restart no experience is learned from twice.
    """

    def __init__(self, learners: int) -> None:
        """Start with weights that have learned from nothing, for learners 0 to ``learners`` - 1."""
        self.table = np.zeros((_FOR_ALL + learners, CONSUMED_WORDS), np.int64)
        self._rows = self.table[_FOR_ALL:]
        self.advanced = False
        """Whether the weights have learned since they were restored from a checkpoint, in this learner or in the one
        from which they were taken. It is not saved."""
        self._taken_learned = False
        """Whether the weights had learned from steps when they were restored or taken over."""

    def restore(self, table: NDArray[np.int64]) -> None:
        """Copy a saved table of `Consumed`. If it has fewer or more learners, only those in both are copied."""
        rows = min(len(table), len(self.table))
        self.table[:rows] = table[:rows]
        self.advanced = False
        self._taken_learned = bool(table[_FOR_ALL:, _USED].any())

    def take_over(self, env_steps: int) -> None:
        """Record that the weights were taken from other learners, and have learned from this many steps of theirs."""
        self._taken_learned |= env_steps > 0

    @property
    def learned(self) -> bool:
        """Whether the weights have learned from steps of any learner, also of one that has no row in the table."""
        return self._taken_learned or bool(self._rows[:, _USED].any())

    @property
    def changes(self) -> int:
        """Number of optimizer steps, and merges of observation statistics, since the last complete update."""
        return int(self.table[0, 0])

    def position(self, learner: int) -> Position | None:
        """Return the rollout from which a learner continues with these weights; None if it is not recorded."""
        rollout, used = self._rows[learner, : _USED + 1].tolist()
        return None if rollout < 0 else Position(rollout, used)

    def done(self, learner: int, rollout: int) -> int:
        """Return how many minibatches of the rollout the weights have learned from; 0 if it is not the present one."""
        row = self._rows[learner]
        return int(row[_STEPS]) if row[_ROLLOUT] == rollout else 0

    def merged(self, learner: int, rollout: int) -> bool:
        """Whether the normalisation statistics already include the observations of this rollout of the learner."""
        row = self._rows[learner]
        return bool(row[_MERGED]) and row[_ROLLOUT] == rollout

    def begin(self, learner: int, position: Position) -> None:
        """Record that a learner begins to learn from the rollout of ``position``, or continues with it."""
        row = self._rows[learner]
        if row[_ROLLOUT] != position.rollout:
            row[:] = (*position, 0, 0)

    def merge(self, learner: int) -> None:
        """Record that the normalisation statistics include the observations of the learner's present rollout."""
        self._rows[learner, _MERGED] = 1
        self._count_change()

    def step(self, learners: Iterable[int]) -> None:
        """Record that one optimizer step has learned from the next minibatch of each of these learners."""
        for learner in learners:
            self._rows[learner, _STEPS] += 1
        self._count_change()

    def _count_change(self) -> None:
        self.table[0, 0] += 1
        self.advanced = True

    def settle(self, learner: int, env_steps: int) -> None:
        """Record that the weights have learned from the learner's whole present rollout, of ``env_steps`` steps."""
        row = self._rows[learner]
        row[:] = row[_ROLLOUT] + 1, row[_USED] + env_steps, 0, 0
        self.table[0, 0] = 0
        self.advanced = True

    def forget_others(self, learner: int) -> None:
        """Remove the records of all other learners, because these weights no longer learn from their experience."""
        others = np.arange(len(self._rows)) != learner
        self._rows[others, _ROLLOUT] = -1

    def forget_parts(self) -> None:
        """Remove the records of partly learned rollouts, because simulators play new games and will not repeat them."""
        self._rows[:, [_MERGED, _STEPS]] = 0
        self.table[0, 0] = 0
