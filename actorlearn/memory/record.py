"""A record in shared memory that its only writer replaces atomically, and that any process reads, without a lock.

There are two slots, and a counter ``commits`` whose parity selects the current slot. The writer fills the other slot,
and increments ``commits`` last. If it is killed before that, the record is unchanged. The previous record stays intact
until the next replacement begins, so a reader that finds ``commits`` unchanged after it has copied the current slot has
read one whole record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from actorlearn.failpoints import hit

SLOTS = 2
_ATTEMPTS = 1000


class CommittedRecord:
    """A record of one or more arrays in shared memory, which one process replaces atomically and any process reads."""

    def __init__(self, commits: NDArray[np.int64], *slots: NDArray[Any]) -> None:
        """Use arrays in shared memory: ``commits`` [n], of which only element 0 is used, and ``slots``.

        For each array of the record, ``slots`` has an array [SLOTS, …].
        """
        self._commits = commits
        self._slots = [tuple(array[slot] for array in slots) for slot in range(SLOTS)]

    @property
    def commits(self) -> int:
        """Number of times that the record was replaced."""
        return int(self._commits[0])

    @property
    def now(self) -> tuple[NDArray[Any], ...]:
        """Views of the current record's arrays; only for the writer, because they may be overwritten."""
        return self._slots[self.commits % SLOTS]

    @property
    def before(self) -> tuple[NDArray[Any], ...]:
        """Views of the previous record's arrays, which the next replacement overwrites."""
        return self._slots[(self.commits + 1) % SLOTS]

    def replace(self, *values: ArrayLike) -> None:
        """Replace the record atomically by ``values``, one for each array; only the writer may call this.

        If a value is shorter than its array, the rest of the slot is not changed.
        """
        for array, value in zip(self.before, values, strict=True):
            array[: np.shape(value)[0]] = value
            hit("record.written")
        self._commits[0] = self.commits + 1  # last: this makes the record current
        hit("record.committed")

    def read(self, words: slice | Sequence[int] = slice(None)) -> tuple[NDArray[Any], ...]:
        """Return copies of the elements ``words`` of every array, all from one record; any process may call this.

        Raises RuntimeError if the record changed during each of 1,000 attempts.
        """
        for _ in range(_ATTEMPTS):
            commits = self.commits
            copies = tuple(np.array(array[words]) for array in self._slots[commits % SLOTS])
            if self.commits == commits:  # otherwise the writer may have begun to overwrite it
                return copies
        raise RuntimeError(
            f"a record in shared memory could not be read in {_ATTEMPTS} attempts, because its segment is "
            "damaged or several processes write to it; start the run again"
        )
