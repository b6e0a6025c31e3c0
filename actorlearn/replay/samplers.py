"""Samplers: they draw the transitions or sequences of a minibatch, and return the probability of each.

A transition or sequence is given by its cell, the index of its first time step in the replay. ``insert`` and ``remove``
change which cells can be drawn, and ``update`` sets their priorities. If the process was killed, the next one calls
``recover`` first. A restored sampler draws the same cells for the same random numbers.
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
    """Cells (indices) drawn with replacement, and the probability of each; both [B]."""

    cell: Cells
    probability: NDArray[np.float64]


class Uniform:
    """Draws all transitions or sequences with the same probability."""

    def __init__(self, cells: int) -> None:
        """Make a sampler for cells 0 … cells - 1, of which none can be drawn before it is inserted."""
        self._cell = np.full(cells, -1, np.int64)
        """List of the drawable cells in the first ``_count`` elements; -1 after them."""
        self._place = np.full(cells, -1, np.int64)
        """Index of each cell in that list; -1 if it is not in it."""
        self._count = 0

    def insert(self, cell: Cells) -> None:
        """Make cells [N] drawable, none of which may be drawable yet: append them to the list."""
        place = np.arange(self._count, self._count + len(cell))
        self._cell[place] = cell
        self._place[cell] = place
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Remove drawable cells [N] from the list, and fill the gaps with the cells at its end."""
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
        """Make the cells [N] drawable, in this order; ``new`` is ignored."""
        self.insert(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw ``count`` cells independently; raises LookupError if none can be drawn."""
        if not self._count:
            raise LookupError("the replay has no item that can be drawn")
        cell = self._cell[random.integers(self._count, size=count)]
        return Drawn(cell, np.full(count, 1.0 / self._count))

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Ignore the priorities."""

    def keep(self) -> None:
        """Do nothing, as there are no priorities."""

    def go_back(self) -> None:
        """Do nothing, as there are no priorities."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the list of drawable cells, for a checkpoint."""
        return {"cell": self._cell[: self._count]}

    def state(self) -> dict[str, Any]:
        """Return {}: a uniform sampler has no state except its arrays."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Restore the list of drawable cells; raises ValueError unless its cells are valid and different."""
        check_cells(arrays["cell"], len(self._cell))
        self._place[:], self._count = -1, 0
        self.insert(arrays["cell"])


class Prioritised:
    """Draws transitions or sequences in proportion to priority^alpha (Schaul et al. 2016, section 3.3).

    Draws are stratified: the probability mass is divided into equal parts, and one item is drawn from each. If an item
    occurs twice in a minibatch, the last of its new priorities is kept.
    """

    def __init__(
        self,
        cells: int,
        alpha: float,
        memory: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> None:
        """Make a sampler for cells 0 … cells - 1, of which none can be drawn before it is inserted.

        A new cell gets the largest priority so far, as in the paper, which is 1 before the first update. ``memory`` has
        the nodes of the sum tree, and the largest priority [1], initially 1. If it is shared memory, a later process
        can ``recover`` priorities.
        """
        if alpha < 0.0:
            raise ValueError(f"alpha {alpha} must be 0 or more")
        node, largest = memory or (None, np.ones(1))
        self._tree = SumTree(cells, node)
        self._largest: NDArray[np.float64] = largest
        self._alpha = alpha
        self._kept: list[tuple[Cells, NDArray[np.float64]]] | None = None
        """Cells of each update since `keep`, and their priorities^alpha before it; None: nothing is kept."""
        self._largest_kept = 0.0

    def insert(self, cell: Cells) -> None:
        """Make the cells [N] drawable, with the priority of new cells."""
        self._tree.set(cell, self._largest[0] ** self._alpha)

    def remove(self, cell: Cells) -> None:
        """Make the cells [N] not drawable: set their priorities to 0."""
        self._tree.set(cell, 0.0)

    def recover(self, cell: Cells, new: Cells) -> None:
        """Make exactly the cells [N] drawable, with their priorities in memory, which a killed process has left.

        ``new`` [M] are those cells that the killed process may not have inserted; they get the priority of new cells.
        """
        priority = np.zeros_like(self._tree.priorities)
        priority[cell] = self._tree.priorities[cell]
        priority[new] = self._largest[0] ** self._alpha
        self._tree.fill(priority)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw ``count`` cells, one from each equal part of the probability mass; raises LookupError if it is 0."""
        cell = self._tree.stratified(count, random)
        return Drawn(cell, self._tree.priorities[cell] / self._tree.total)

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Set the priorities of the cells [N]; raises ValueError for a priority that is negative or not finite."""
        if self._kept is not None:
            self._kept.append((cell, self._tree.priorities[cell]))
        self._tree.set(cell, priority.astype(np.float64) ** self._alpha)
        if len(priority):
            self._largest[0] = max(self._largest[0], priority.max())

    def keep(self) -> None:
        """Keep the present priorities for `go_back`, until the next call of `keep`."""
        self._kept, self._largest_kept = [], float(self._largest[0])

    def go_back(self) -> None:
        """Undo the updates since `keep`. Between the two calls, no cell may be inserted or removed."""
        for cell, priority in reversed(self._kept or []):
            self._tree.set(cell, priority)
        self._kept, self._largest[0] = None, self._largest_kept

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return priority^alpha of all cells, for a checkpoint."""
        return {"priority": self._tree.priorities}

    def state(self) -> dict[str, Any]:
        """Return the largest priority so far."""
        return {"largest": float(self._largest[0])}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Restore the saved priorities and the largest one; raises ValueError if they are not valid."""
        check_priorities(arrays["priority"], self._tree.size, state)
        self._tree.fill(arrays["priority"])
        self._largest[0] = state["largest"]


Sampler = Uniform | Prioritised


def importance(probability: NDArray[np.float64], beta: float) -> NDArray[np.float32]:
    """Return the importance weights [B] of transitions or sequences drawn with these probabilities [B].

    They are probability^-beta, divided by the largest in the minibatch. The paper has (N * probability)^-beta, divided
    in the same way, in which N cancels (Schaul et al. 2016, section 3.4).
    """
    weight: NDArray[np.float64] = (probability / probability.min()) ** -beta
    return weight.astype(np.float32)
