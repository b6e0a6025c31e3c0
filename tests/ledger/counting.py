"""A network whose weights are the ledger: each row has three of its own, which say how often it was learned from.

The three lie in the three parts of the flat vector, as do an async store's chunks. The loss has slope -1 in the weights
of every row that is learned from, and the optimizer of ``OPTIMIZER`` goes one whole unit down such a slope; so whatever
becomes of gradients, in which order they are applied, lost, repeated or adopted, the final weights are the counts.
Rows are known by what ``tests.ledger.env:Ledger`` writes into observations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Batch
from tests.ledger.env import Shown, read

ROWS = 1024
"""Most rows of a history; row 0 counts minibatches."""
PARTS = 3
OPTIMIZER = {
    # The root of the mean of squares is that of epsilon, exactly: what is added to it is lost in float32.
    "name": "rmsprop",
    "learning_rate": 16.0,
    "learning_rate_final": 16.0,
    "epsilon": 256.0,
    "epsilon_inside_root": True,
    "accumulator_init": 0.0,
    "decay": 0.9999999,
    "clip_norm": 0.0,
}

Row = tuple[int, int, int]
"""Stream, nonce and number of what an action was chosen from: the step is the one that this action took."""


def row_of(shown: Shown) -> Row:
    """The row that an observation is."""
    return shown.stream, shown.nonce, shown.number


class Numbers:
    """A number for each row that there was, in the order in which they were met."""

    def __init__(self) -> None:
        """None was."""
        self.of: dict[Row, int] = {}

    def __call__(self, row: Row) -> int:
        """The number of a row, from 1."""
        number = self.of.setdefault(row, len(self.of) + 1)
        assert number < ROWS, "more rows than the network has weights for"
        return number


class Counting(nn.Module):
    """Says the same of every observation; its weights are moved by ``counting`` alone."""

    def __init__(self, observation_shape: tuple[int, ...], heads: Mapping[str, int]) -> None:
        """So many heads as are asked for."""
        super().__init__()
        self.heads = dict(heads)
        self.counts = nn.Parameter(torch.zeros(PARTS, ROWS))

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Zeros, with a gradient of zeros: outputs without one are refused."""
        nothing = 0.0 * self.counts[0, 0]
        return {
            name: observation.new_zeros((len(observation), size), dtype=torch.float32) + nothing
            for name, size in self.heads.items()
        }


Loss = Callable[[Mapping[str, Tensor], Batch, float], tuple[Tensor, dict[str, Tensor]]]


def counting(network: nn.Module, numbers: Numbers, replayed: bool, said: Callable[[list[Row]], float]) -> Loss:
    """A loss that counts: the rows of a batch, or minibatches where these are drawn from a replay.

    ``said`` is told the rows, and answers with the number of learners whose gradients are averaged.
    """
    counts = next(network.parameters())

    def loss(_outputs: Mapping[str, Tensor], batch: Batch, _progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        metrics: dict[str, Tensor] = {}
        rows: list[Row] = []
        if replayed:
            metrics["priority"] = torch.ones(batch.valid.shape)
            index = torch.zeros(1, dtype=torch.long)
        else:
            observations = batch.observation[: len(batch.valid)][batch.valid]
            rows = [row_of(read(observation.numpy())) for observation in observations]
            index = torch.tensor([numbers(row) for row in rows], dtype=torch.long)
        return -said(rows) * counts[:, index].sum(), metrics

    return loss


def counts_of(weights: Any) -> np.ndarray[Any, Any]:
    """Counts [PARTS, ROWS] that flat weights hold, and statistics are left out."""
    flat = np.asarray(weights, np.float32)[: PARTS * ROWS]
    counts = flat.reshape(PARTS, ROWS)
    assert np.isfinite(counts).all()
    return counts
