"""Sum tree: draws indices with probabilities proportional to their priorities, many at once (Schaul et al. 2016).

float64 throughout: sums in float32 drift, and then indices of priority 0 are drawn. A parent is always computed anew
from its two children and never by adding differences, so a tree is a function of its leaves alone: rebuilt from saved
priorities it draws the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit


class SumTree:
    """Priorities of ``size`` indices, all 0 at first."""

    def __init__(self, size: int, node: NDArray[np.float64] | None = None) -> None:
        """Use ``node``, which may hold a tree already, as memory of ``tree_bytes(size)``; None = new zeros."""
        if size < 1:
            raise ValueError(f"size {size} must be 1 or more")
        self.size = size
        self._leaves = _leaves(size)
        self._node = np.zeros(2 * self._leaves, np.float64) if node is None else node
        """Nodes: node i has the children 2i and 2i + 1, the root is node 1, the leaves are the second half."""

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._node[1])

    @property
    def priorities(self) -> NDArray[np.float64]:
        """Priorities of all indices [size], as a view that must not be written."""
        return self._node[self._leaves : self._leaves + self.size]

    def set(self, index: NDArray[np.int64], priority: NDArray[np.float64] | float) -> None:
        """Set the priorities of indices [N]; of an index that occurs twice the last one counts.

        Raises ValueError for a priority that is negative or not finite, before anything is changed.
        """
        if not (np.isfinite(priority) & (np.asarray(priority) >= 0.0)).all():
            raise ValueError(f"priorities must be finite and 0 or more, not {np.min(priority)} … {np.max(priority)}")
        node = index + self._leaves
        self._node[node] = priority  # numpy's rule for repeated indices: the last value remains
        hit("sum_tree.leaves")
        while node.size and node[0] > 1:  # all nodes are of one level
            node = np.unique(node >> 1) if node.size > 64 else node >> 1
            self._node[node] = self._node[2 * node] + self._node[2 * node + 1]

    def fill(self, priorities: NDArray[np.float64]) -> None:
        """Set all priorities [size] at once."""
        self._node[self._leaves : self._leaves + self.size] = priorities
        hit("sum_tree.filled")
        level = self._leaves
        while level > 1:
            level //= 2
            self._node[level : 2 * level] = self._node[2 * level : 4 * level].reshape(-1, 2).sum(axis=1)

    def find(self, mass: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index at each mass [N] in [0, total): the last one before which priorities sum to at most it.

        Never an index of priority 0, as long as the total is not 0. A rest left by rounding falls to the last index.
        """
        node, mass = np.ones(mass.shape, np.int64), mass.copy()
        for _ in range(self._leaves.bit_length() - 1):
            node *= 2
            left = self._node[node]
            right = (mass >= left) & (self._node[node + 1] > 0.0)
            mass -= np.where(right, left, 0.0)
            node += right
        return node - self._leaves

    def stratified(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw one index from each of ``count`` equal parts of the total; raises LookupError when that is 0."""
        if not self.total > 0.0:
            raise LookupError("all priorities are 0: there is nothing to draw")
        return self.find((np.arange(count) + random.random(count)) * (self.total / count))


def tree_bytes(size: int) -> int:
    """Return the bytes of a tree of so many indices."""
    return 2 * _leaves(size) * 8


def _leaves(size: int) -> int:
    return 1 << (size - 1).bit_length()
