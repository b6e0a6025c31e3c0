"""A record that is replaced whole or not at all, and outlives its writer: two slots, and a word that says which holds.

One writer, any number of readers, no lock. The writer fills the slot that does not hold and raises the word ``commits``
last: killed before that, it has changed nothing. The parity of the word names the slot that holds. The other slot keeps
what held before until the next replacement begins, so a reader that is overtaken once has still read one whole record;
one that looks at the word again afterwards knows that it has.
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
    """Both ends of one record, which may consist of several arrays."""

    def __init__(self, commits: NDArray[np.int64], *slots: NDArray[Any]) -> None:
        """Bind to the word ``commits`` [n], of which the first is used, and to arrays [SLOTS, …]."""
        self._commits = commits
        self._slots = [tuple(array[slot] for array in slots) for slot in range(SLOTS)]

    @property
    def commits(self) -> int:
        """Number of times the record was replaced."""
        return int(self._commits[0])

    @property
    def now(self) -> tuple[NDArray[Any], ...]:
        """The arrays that hold, where they lie: for the writer, who alone knows that they will not change."""
        return self._slots[self.commits % SLOTS]

    @property
    def before(self) -> tuple[NDArray[Any], ...]:
        """The arrays that held before; the next replacement is written over them."""
        return self._slots[(self.commits + 1) % SLOTS]

    def replace(self, *values: ArrayLike) -> None:
        """Make these the record, one for each array, all or none; the writer alone.

        Of a value shorter than its array the rest is left as it is.
        """
        for array, value in zip(self.before, values, strict=True):
            array[: np.shape(value)[0]] = value
            hit("record.written")
        self._commits[0] = self.commits + 1  # the word last
        hit("record.committed")

    def read(self, words: slice | Sequence[int] = slice(None)) -> tuple[NDArray[Any], ...]:
        """Copy these words of the arrays, all of one record; any process may ask.

        Raises RuntimeError when it never holds still.
        """
        for _ in range(_ATTEMPTS):
            commits = self.commits
            copies = tuple(np.array(array[words]) for array in self._slots[commits % SLOTS])
            if self.commits == commits:  # only then can nobody have begun to write over it
                return copies
        raise RuntimeError(f"no whole record in {_ATTEMPTS} attempts: its segment is damaged, or several write it")
