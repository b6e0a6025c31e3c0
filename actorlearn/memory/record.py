"""A record in shared memory that is replaced atomically and outlives its writer: two slots and a commit counter.

It has one writer, any number of readers and no lock. The parity of ``commits`` selects the current slot. The writer
fills the other slot and increments ``commits`` last; if it is killed before that, the record is unchanged. The previous
record stays intact until the next replacement begins. So a reader that finds ``commits`` unchanged after copying has
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
    """Reader and writer of one record, which may consist of several arrays."""

    def __init__(self, commits: NDArray[np.int64], *slots: NDArray[Any]) -> None:
        """Bind to ``commits`` [n], whose first word is used, and to one array [SLOTS, …] per part of the record."""
        self._commits = commits
        self._slots = [tuple(array[slot] for array in slots) for slot in range(SLOTS)]

    @property
    def commits(self) -> int:
        """Number of times that the record was replaced."""
        return int(self._commits[0])

    @property
    def now(self) -> tuple[NDArray[Any], ...]:
        """Views of the current arrays; for the writer only, because a reader's view could be overwritten."""
        return self._slots[self.commits % SLOTS]

    @property
    def before(self) -> tuple[NDArray[Any], ...]:
        """Views of the previous record's arrays, which the next replacement overwrites."""
        return self._slots[(self.commits + 1) % SLOTS]

    def replace(self, *values: ArrayLike) -> None:
        """Replace the record by ``values``, one for each array, atomically; called by the writer only.

        A value shorter than its array leaves the rest of the slot as it is.
        """
        for array, value in zip(self.before, values, strict=True):
            array[: np.shape(value)[0]] = value
            hit("record.written")
        self._commits[0] = self.commits + 1  # last: this makes the record current
        hit("record.committed")

    def read(self, words: slice | Sequence[int] = slice(None)) -> tuple[NDArray[Any], ...]:
        """Return copies of the given words of every array, all from one record; any process may call this.

        Raises RuntimeError if the record changed during each of 1,000 attempts.
        """
        for _ in range(_ATTEMPTS):
            commits = self.commits
            copies = tuple(np.array(array[words]) for array in self._slots[commits % SLOTS])
            if self.commits == commits:  # otherwise the writer may have begun to overwrite it
                return copies
        raise RuntimeError(
            f"the record could not be read in {_ATTEMPTS} attempts: its segment is damaged, or has several writers"
        )
