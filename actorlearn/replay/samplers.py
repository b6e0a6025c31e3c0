"""Samplers: draw the cells of a minibatch's items and return their probabilities. They do not read the stored rows.

At a flush, the replay removes cells at which items can no longer be drawn, and then inserts new ones; per minibatch it
draws, and updates priorities. After its process was killed, it first calls ``recover``. A restored sampler draws the
same cells for the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.replay.saved import check_cells, check_priorities
from actorlearn.replay.sum_tree import SumTree

Cells = NDArray[np.int64]


class Drawn(NamedTuple):
    """Cells drawn with replacement, and the probability of each; both [B]."""

    cell: Cells
    probability: NDArray[np.float64]


class Uniform:
    """Draws every cell with the same probability."""

    def __init__(self, cells: int) -> None:
        """Make a sampler of cells 0 … cells - 1, none of which can be drawn yet."""
        self._cell = np.full(cells, -1, np.int64)
        """List of the drawable cells in the first ``_count`` elements; -1 after them."""
        self._place = np.full(cells, -1, np.int64)
        """Index of each cell in that list; -1 if it is not in it."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def insert(self, cell: Cells) -> None:
        """Append the cells [N], which are not in it, to the list."""
        place = np.arange(self._count, self._count + len(cell))
        self._cell[place] = cell
        self._place[cell] = place
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Remove the cells [N], which are all in it, from the list, and fill the gaps with its last elements."""
        kept = self._count - len(cell)
        gaps = self._place[cell]
        gaps = gaps[gaps < kept]
        self._place[cell] = -1
        last = self._cell[kept : self._count]
        last = last[self._place[last] >= 0]
        self._cell[gaps] = last
        self._place[last] = gaps
        self._count = kept

    def recover(self, cell: Cells, new: Cells) -> None:
        """Insert the cells in the given order."""
        self.insert(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw elements of the list independently; raises LookupError if it is empty."""
        if not self._count:
            raise LookupError("the replay has no item that can be drawn")
        cell = self._cell[random.integers(self._count, size=count)]
        return Drawn(cell, np.full(count, 1.0 / self._count))

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Ignore the priorities."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the list of cells, in its order."""
        return {"cell": self._cell[: self._count]}

    def state(self) -> dict[str, Any]:
        """Return no numbers: a uniform sampler needs none."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Restore the list; raises ValueError unless its cells are valid and different."""
        check_cells(arrays["cell"], len(self._cell))
        self._place[:], self._count = -1, 0
        self.insert(arrays["cell"])


class Prioritised:
    """Draws each cell in proportion to priority^alpha, stratified by equal mass (Schaul et al. 2016, section 3.3).

    A cell may occur twice in a minibatch; the last one of its new priorities is kept.
    """

    def __init__(
        self,
        cells: int,
        alpha: float,
        new: float | None,
        memory: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> None:
        """Make a sampler of cells 0 … cells - 1, none of which can be drawn yet.

        ``new`` is the priority of a cell that was never drawn (accel_rl's rule). With None it is the largest priority
        so far, and 1 before there is any (the paper's rule). ``memory`` has the tree's nodes and the largest priority
        [1], initially 1; if it is shared memory, a later process can ``recover`` the priorities.
        """
        if alpha < 0.0:
            raise ValueError(f"alpha {alpha} must be 0 or more")
        node, largest = memory or (None, np.ones(1))
        self._tree = SumTree(cells, node)
        self._largest: NDArray[np.float64] = largest
        self._alpha = alpha
        self._new = new
        if new is not None:
            self._largest[0] = new
        self._count = 0

    def __len__(self) -> int:
        """Return the number of inserted cells, including those with priority 0."""
        return self._count

    def insert(self, cell: Cells) -> None:
        """Give the cells the priority of new cells."""
        self._tree.set(cell, self._largest[0] ** self._alpha)
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Set the priorities of the cells to 0."""
        self._tree.set(cell, 0.0)
        self._count -= len(cell)

    def recover(self, cell: Cells, new: Cells) -> None:
        """Keep the priorities of these cells [N] from memory, and remove all other cells.

        The insertion of the ``new`` cells [M] among them was interrupted or not begun: they get the priority of new
        ones.
        """
        priority = np.zeros_like(self._tree.priorities)
        priority[cell] = self._tree.priorities[cell]
        priority[new] = self._largest[0] ** self._alpha
        self._tree.fill(priority)
        self._count = len(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw one cell from each stratum; raises LookupError also if all priorities are 0."""
        cell = self._tree.stratified(count, random)
        return Drawn(cell, self._tree.priorities[cell] / self._tree.total)

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Set priority^alpha [N]; raises ValueError for a priority that is negative or not finite."""
        self._tree.set(cell, priority.astype(np.float64) ** self._alpha)
        if self._new is None and len(priority):
            self._largest[0] = max(self._largest[0], priority.max())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return priority^alpha of all cells, as in the tree."""
        return {"priority": self._tree.priorities}

    def state(self) -> dict[str, Any]:
        """Return the largest priority so far and the number of inserted cells."""
        return {"largest": float(self._largest[0]), "count": self._count}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Fill the tree with the saved priorities, and restore the numbers."""
        check_priorities(arrays["priority"], self._tree.size, state)
        self._tree.fill(arrays["priority"])
        self._largest[0], self._count = state["largest"], int(state["count"])


Sampler = Uniform | Prioritised


def importance(probability: NDArray[np.float64], beta: float) -> NDArray[np.float32]:
    """Return importance weights [B]: probability^-beta, divided by the largest in the minibatch.

    The paper's (N * probability)^-beta is the same: N cancels (Schaul et al. 2016, section 3.4).
    """
    weight: NDArray[np.float64] = (probability / probability.min()) ** -beta
    return weight.astype(np.float32)
