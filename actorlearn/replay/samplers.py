"""Samplers: choose the stored transitions of a minibatch, and give their probabilities. Know cells, no transitions.

The replay inserts and removes the cells that hold a drawable transition. A restored sampler draws the same cells for
the same random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from actorlearn.replay.saved import check_cells, check_priorities
from actorlearn.replay.sum_tree import SumTree

Cells = NDArray[np.int64]


class Drawn(NamedTuple):
    """Cells drawn with replacement, and the probability of each; both [B]."""

    cell: Cells
    probability: NDArray[np.float64]


class Sampler(Protocol):
    """A sampler as replays call it: ``remove``, then ``insert`` at a flush; ``draw``, then ``update`` a minibatch."""

    def __len__(self) -> int:
        """Return how many cells can be drawn."""

    def insert(self, cell: Cells) -> None:
        """Let these cells [N] be drawn from now on; none of them could be before."""

    def remove(self, cell: Cells) -> None:
        """Let these cells [N] be drawn no more; all of them could be before."""

    def recover(self, cell: Cells, new: Cells) -> None:
        """Make exactly these cells [N] drawable after a process was killed; called before any other method.

        Insertion of the ``new`` cells [M] among them was interrupted or not begun: they count as inserted now.
        """

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw ``count`` cells; raises LookupError when none can be drawn."""

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Set the priorities [N] of cells that can be drawn."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to be saved, as views."""

    def state(self) -> dict[str, Any]:
        """Return the plain numbers to be saved."""

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Take back the saved arrays and numbers; raises ValueError for those that do not fit."""


class Uniform:
    """Draws every cell with the same probability."""

    def __init__(self, cells: int) -> None:
        """Make a sampler of cells 0 … cells - 1, none of which can be drawn yet."""
        self._cell = np.full(cells, -1, np.int64)
        """List of the cells that can be drawn, in its first ``_count`` places; -1 after them."""
        self._place = np.full(cells, -1, np.int64)
        """Place of each cell in that list; -1 for those that are not in it."""
        self._count = 0

    def __len__(self) -> int:
        """Return the length of the list."""
        return self._count

    def insert(self, cell: Cells) -> None:
        """Append the cells to the list."""
        place = np.arange(self._count, self._count + len(cell))
        self._cell[place] = cell
        self._place[cell] = place
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Take the cells out of the list, and fill the gaps with the last ones in it."""
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
        """Insert the cells, in the order given."""
        self.insert(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw places of the list independently."""
        if not self._count:
            raise LookupError("nothing has been stored that can be drawn")
        cell = self._cell[random.integers(self._count, size=count)]
        return Drawn(cell, np.full(count, 1.0 / self._count))

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Ignore the priorities."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the list of cells, in its order."""
        return {"cell": self._cell[: self._count]}

    def state(self) -> dict[str, Any]:
        """Return no numbers: all cells are drawn alike."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Take back the list; raises ValueError unless it is of different cells."""
        check_cells(arrays["cell"], len(self._cell))
        self._place[:], self._count = -1, 0
        self.insert(arrays["cell"])


class Prioritised:
    """Draws each cell in proportion to priority^alpha, stratified by equal mass (Schaul et al. 2016, section 3.3).

    With replacement: a cell may occur twice in a minibatch; of its new priorities the last one is kept.
    """

    def __init__(
        self,
        cells: int,
        alpha: float,
        new: float | None,
        memory: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> None:
        """Make a sampler of cells 0 … cells - 1, none of which can be drawn yet.

        ``new`` is the priority of a cell that was never drawn (accel_rl's rule); None = the largest priority so far, 1
        before there is any (the paper's). ``memory`` holds the tree's nodes and the largest priority [1], 1 at first;
        where it is shared memory, the process after this one can ``recover`` the priorities.
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
        """Return the count, which includes cells of priority 0."""
        return self._count

    def insert(self, cell: Cells) -> None:
        """Give the cells the priority of new ones."""
        self._tree.set(cell, self._largest[0] ** self._alpha)
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Set the priorities of the cells to 0."""
        self._tree.set(cell, 0.0)
        self._count -= len(cell)

    def recover(self, cell: Cells, new: Cells) -> None:
        """Keep the priorities of these cells that are in memory, and give the ``new`` ones that of new cells."""
        priority = np.zeros_like(self._tree.priorities)
        priority[cell] = self._tree.priorities[cell]
        priority[new] = self._largest[0] ** self._alpha
        self._tree.fill(priority)
        self._count = len(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw one cell from each stratum; raises LookupError also when all priorities are 0."""
        cell = self._tree.stratified(count, random)
        return Drawn(cell, self._tree.priorities[cell] / self._tree.total)

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Write priority^alpha [N]; raises ValueError for one that is negative or not finite."""
        self._tree.set(cell, priority.astype(np.float64) ** self._alpha)
        if self._new is None and len(priority):
            self._largest[0] = max(self._largest[0], priority.max())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return priority^alpha of all cells, as in the tree."""
        return {"priority": self._tree.priorities}

    def state(self) -> dict[str, Any]:
        """Return the largest priority so far, and how many cells can be drawn."""
        return {"largest": float(self._largest[0]), "count": self._count}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Fill the tree with the priorities, and take back the numbers."""
        check_priorities(arrays["priority"], self._tree.size, state)
        self._tree.fill(arrays["priority"])
        self._largest[0], self._count = state["largest"], int(state["count"])


def importance(probability: NDArray[np.float64], beta: float) -> NDArray[np.float32]:
    """Return weights [B] that correct for unequal probabilities: probability^-beta over its largest in the minibatch.

    The paper's (N * probability)^-beta is the same: N cancels (Schaul et al. 2016, section 3.4).
    """
    weight: NDArray[np.float64] = (probability / probability.min()) ** -beta
    return weight.astype(np.float32)
