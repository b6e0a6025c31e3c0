"""An update rule whose numbers tell which changes each version of a shard was made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor


class Witness:
    """An update rule for changes that each have a 1 in a cell of their own.

    The weights have each change's share of its version. The state has as many parts as Adam's: a vector with the
    version in which each cell was changed, an unused vector, and the number of versions.
    """

    rates = 0

    def __init__(self, cells: int) -> None:
        self.weights = torch.zeros(cells)
        self._versions, self._idle, self._made = torch.zeros(cells), torch.zeros(cells), 0.0

    def change(self, values: Tensor, rates: Sequence[float]) -> None:
        """Make a version of the mean of some changes."""
        self._made += 1
        self._versions[values != 0] = self._made
        self.weights += values

    def state(self) -> tuple[list[Tensor], list[float]]:
        return [self._versions, self._idle], [self._made]

    def restore(self, vectors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        self._versions.copy_(vectors[0])
        (self._made,) = scalars


def made_of(weights: Tensor, versions: Tensor, cells_of_each: int) -> dict[int, list[int]]:
    """The learners whose changes each version was made of; fails if the share of a change is not that of a mean.

    A change that was applied twice has a larger share; a mean over more changes than the version has, smaller ones.
    """
    cells: dict[int, list[int]] = defaultdict(list)
    for cell in torch.nonzero(weights).flatten().tolist():
        cells[int(versions[cell])].append(cell)
    for version, own in cells.items():
        shares = weights[own]
        assert torch.allclose(shares, torch.full_like(shares, 1.0 / len(own))), (version, shares.tolist())
    return {version: [cell // cells_of_each for cell in cells[version]] for version in sorted(cells)}
