"""Which of the stored transitions are drawn, and with which probability. Knows cells (numbers), and no transition.

A sampler is told which cells hold a transition that may be drawn, and which do so no more. Restored, and with the same
random numbers, it draws what it would have drawn.
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
    """Cells drawn, with replacement, and the probability that each had; both [B]."""

    cell: Cells
    probability: NDArray[np.float64]


class Sampler(Protocol):
    """Called by the replay: ``remove``, then ``insert`` at a flush; ``draw`` for a minibatch, ``update`` after it."""

    def __len__(self) -> int:
        """Return how many cells can be drawn."""

    def insert(self, cell: Cells) -> None:
        """These [N] can be drawn from now on; none of them could before."""

    def remove(self, cell: Cells) -> None:
        """These [N] cannot be drawn any more; all of them could before."""

    def recover(self, cell: Cells, new: Cells) -> None:
        """These [N] can be drawn, and no others: a process that was killed had inserted them. Before anything else.

        Of ``new`` it had not, or not all: they are to be as if they were inserted now.
        """

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw so many; raises LookupError when there is none."""

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """New priorities [N] of cells that can be drawn."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is long, to be saved; views."""

    def state(self) -> dict[str, Any]:
        """Return what is short, to be saved: plain numbers."""

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Take both back."""


class Uniform:
    """Every cell with the same probability."""

    def __init__(self, cells: int) -> None:
        """For cells 0 … cells - 1, of which none can be drawn yet."""
        self._cell = np.full(cells, -1, np.int64)
        """The cells that can be drawn, first of all and without gaps."""
        self._place = np.full(cells, -1, np.int64)
        """Place of each cell in that list."""
        self._count = 0

    def __len__(self) -> int:
        """Return how many cells can be drawn."""
        return self._count

    def insert(self, cell: Cells) -> None:
        """Append them."""
        place = np.arange(self._count, self._count + len(cell))
        self._cell[place] = cell
        self._place[cell] = place
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Close the gaps they leave with the last ones of the list."""
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
        """Take them up, in any order."""
        self.insert(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw so many, each for itself; raises LookupError when there is none."""
        if not self._count:
            raise LookupError("nothing has been stored that can be drawn")
        cell = self._cell[random.integers(self._count, size=count)]
        return Drawn(cell, np.full(count, 1.0 / self._count))

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Priorities mean nothing here."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The list, in its order."""
        return {"cell": self._cell[: self._count]}

    def state(self) -> dict[str, Any]:
        """Return nothing: all are drawn alike."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Take both back; raises ValueError."""
        check_cells(arrays["cell"], len(self._cell))
        self._place[:], self._count = -1, 0
        self.insert(arrays["cell"])


class Prioritised:
    """Each with a probability proportional to its priority^alpha, by parts of equal mass (Schaul et al. 2016, 3.3).

    With replacement: a cell may come twice in a minibatch; of its new priorities the last one is kept.
    """

    def __init__(
        self,
        cells: int,
        alpha: float,
        new: float | None,
        memory: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> None:
        """``new``: priority of what was never drawn; None = the largest one so far, 1 before there is any.

        The constant is accel_rl's rule, the largest that of the paper. ``memory``: of the tree, and of the largest
        priority [1], which is 1 at first; where they outlive this process, the next can ``recover`` them.
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
        """Return how many cells can be drawn, those of priority 0 included."""
        return self._count

    def insert(self, cell: Cells) -> None:
        """Give them the priority of what is new."""
        self._tree.set(cell, self._largest[0] ** self._alpha)
        self._count += len(cell)

    def remove(self, cell: Cells) -> None:
        """Give them none."""
        self._tree.set(cell, 0.0)
        self._count -= len(cell)

    def recover(self, cell: Cells, new: Cells) -> None:
        """Take them up with the priorities that memory still has for them."""
        priority = np.zeros_like(self._tree.priorities)
        priority[cell] = self._tree.priorities[cell]
        priority[new] = self._largest[0] ** self._alpha
        self._tree.fill(priority)
        self._count = len(cell)

    def draw(self, count: int, random: np.random.Generator) -> Drawn:
        """Draw so many; raises LookupError when all priorities are 0."""
        cell = self._tree.stratified(count, random)
        return Drawn(cell, self._tree.priorities[cell] / self._tree.total)

    def update(self, cell: Cells, priority: NDArray[np.floating[Any]]) -> None:
        """Write priority^alpha [N]; raises ValueError for one that is negative or not finite."""
        self._tree.set(cell, priority.astype(np.float64) ** self._alpha)
        if self._new is None and len(priority):
            self._largest[0] = max(self._largest[0], priority.max())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All priorities, as they are in the tree."""
        return {"priority": self._tree.priorities}

    def state(self) -> dict[str, Any]:
        """The largest priority, and how many there are."""
        return {"largest": float(self._largest[0]), "count": self._count}

    def restore(self, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Take both back; raises ValueError."""
        check_priorities(arrays["priority"], self._tree.size, state)
        self._tree.fill(arrays["priority"])
        self._largest[0], self._count = state["largest"], int(state["count"])


def importance(probability: NDArray[np.float64], beta: float) -> NDArray[np.float32]:
    """Weights [B] that make up for unequal probabilities: probability^-beta, by the largest of the minibatch.

    The paper's (N * probability)^-beta is the same thing: N goes out.
    """
    weight: NDArray[np.float64] = (probability / probability.min()) ** -beta
    return weight.astype(np.float32)
