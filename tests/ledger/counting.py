"""A network whose weights count how often each row (an environment step) was learned from.

Each row has three weights, one in each of three parts of the flat vector, as a store in mode async has chunks. The loss
has slope -1 in the weights of every row of a batch, and the optimizer ``OPTIMIZER`` adds 1 for such a slope. So the
final weights are the counts, whether gradients were applied, lost, repeated or adopted, in any order. A row is
identified by its observation, which ``tests.ledger.env:Ledger`` writes.
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
"""Maximum number of rows of a history; index 0 counts minibatches."""
PARTS = 3
OPTIMIZER = {
    # sqrt(mean square + epsilon) is exactly 16, because in float32 the mean square is too small to change it.
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
"""(stream, nonce, number) of an observation; it stands for the step whose action was chosen from it."""


def row_of(shown: Shown) -> Row:
    """Return the row of an observation."""
    return shown.stream, shown.nonce, shown.number


class Numbers:
    """Numbers for rows, from 1, in the order in which the rows are first seen."""

    def __init__(self) -> None:
        self.of: dict[Row, int] = {}

    def __call__(self, row: Row) -> int:
        """Return the number of a row."""
        number = self.of.setdefault(row, len(self.of) + 1)
        assert number < ROWS, "more rows than the network has weights for"
        return number


class Counting(nn.Module):
    """Returns zeros for every observation; only the loss ``counting`` moves its weights."""

    def __init__(self, observation_shape: tuple[int, ...], heads: Mapping[str, int]) -> None:
        super().__init__()
        self.heads = dict(heads)
        self.counts = nn.Parameter(torch.zeros(PARTS, ROWS))

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Return zeros with a gradient of zeros, because outputs without a gradient are refused."""
        nothing = 0.0 * self.counts[0, 0]
        return {
            name: observation.new_zeros((len(observation), size), dtype=torch.float32) + nothing
            for name, size in self.heads.items()
        }


Loss = Callable[[Mapping[str, Tensor], Batch, float], tuple[Tensor, dict[str, Tensor]]]


def counting(network: nn.Module, numbers: Numbers, replayed: bool, said: Callable[[list[Row]], float]) -> Loss:
    """Return a loss that counts the rows of a batch, or minibatches if they are drawn from a replay.

    ``said`` gets the rows, and returns the number of learners whose gradients are averaged.
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
    """Return the counts [PARTS, ROWS] of flat weights, without statistics of normalisation."""
    flat = np.asarray(weights, np.float32)[: PARTS * ROWS]
    counts = flat.reshape(PARTS, ROWS)
    assert np.isfinite(counts).all()
    return counts
