"""Sum tree: draws many indices at once with probabilities proportional to their priorities (Schaul et al. 2016).

It is a binary tree whose leaves are the priorities, and in which each other node is the sum of its two children. All
numbers are float64: in float32 rounding errors of sums could let indices with priority 0 be drawn. A sum is always
computed from the children, never by adding a difference. So a tree that is built from saved priorities draws the same
indices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from actorlearn.failpoints import hit


class SumTree:
    """Priorities of ``size`` indices, all 0 at first."""

    def __init__(self, size: int, node: NDArray[np.float64] | None = None) -> None:
        """Use the array ``node`` of ``tree_bytes(size)`` bytes, which may contain a tree already; None: make one."""
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
        """Priorities of all indices [size], as a view that must not be changed."""
        return self._node[self._leaves : self._leaves + self.size]

    def set(self, index: NDArray[np.int64], priority: NDArray[np.float64] | float) -> None:
        """Set the priorities of indices [N]; for an index that occurs twice the last priority counts.

        Raises ValueError, without a change, for a priority that is negative or not finite.
        """
        if not (np.isfinite(priority) & (np.asarray(priority) >= 0.0)).all():
            raise ValueError(f"priorities must be finite and 0 or more, not {np.min(priority)} … {np.max(priority)}")
        node = index + self._leaves
        self._node[node] = priority  # numpy's rule for repeated indices: the last value remains
        hit("sum_tree.leaves")
        while node.size and node[0] > 1:  # all nodes are on one level
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
        """Return for each ``mass`` [N], from 0 to the total, the first index at which the running sum exceeds it.

        An index with priority 0 is never returned, unless the total is 0. If rounding makes a mass too large, the last
        index with a priority is returned.
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
        """Draw one index from each of ``count`` equal parts of the total; raises LookupError if the total is 0."""
        if not self.total > 0.0:
            raise LookupError("all priorities are 0: there is nothing to draw")
        return self.find((np.arange(count) + random.random(count)) * (self.total / count))


def tree_bytes(size: int) -> int:
    """Return the size in bytes of a tree for ``size`` indices."""
    return 2 * _leaves(size) * 8


def _leaves(size: int) -> int:
    return 1 << (size - 1).bit_length()
