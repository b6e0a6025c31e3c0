"""Whose ring is whose: environments come and go, rings stay. Knows names and numbers, and no memory."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class Rings:
    """One ring for each environment of every owner; who comes gets those that have been free for longest."""

    def __init__(self, rings: int) -> None:
        """All are free."""
        self._free = deque(range(rings))
        self._owned: dict[str, tuple[NDArray[np.int64], int]] = {}
        """Owner -> its rings [B], and the round it is to store next."""

    def seat(self, owner: str, round_: int, environments: int) -> tuple[NDArray[np.int64], bool] | None:
        """An owner's rings [B], and whether this round follows the last one it stored; None when too few are free."""
        if owner in self._owned:
            rings, expected = self._owned[owner]
        elif environments <= len(self._free):
            rings, expected = np.array([self._free.popleft() for _ in range(environments)], np.int64), -1
        else:
            return None
        self._owned[owner] = rings, round_ + 1
        return rings, round_ == expected

    def leave(self, owner: str) -> None:
        """Free an owner's rings; nothing for one that has none."""
        if owner in self._owned:
            self._free.extend(self._owned.pop(owner)[0].tolist())


def cells_between(begin: NDArray[np.int64], end: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Cells of the positions begin … end - 1 of every ring [R], ring after ring; ``rows`` is a ring's length."""
    counts = np.maximum(end - begin, 0)
    ring = np.repeat(np.arange(len(begin)), counts)
    nth = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    cell: NDArray[np.int64] = ring * rows + (begin[ring] + nth) % rows
    return cell
