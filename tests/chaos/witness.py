"""A network with one weight for each row of a run, which falls by 1 with each surviving gradient of the row.

``model.name: tests.chaos.witness:Witness``, with rmsprop of decay 0 and rate 1: then an optimizer step is the sign of
the gradient, so a weight counts updates, exactly in all modes except gossip. Weights that are rolled back lose their
counts; adopted weights bring those of the other learner. The policy acts at random, and all rows have one value.

The network also checks every observation of a gradient, and reports damaged ones in the file ``damaged``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from actorlearn import failpoints
from tests.chaos.rows import SIZE, VARIABLE, Rows, own_mark
from tests.ledger.env import DamagedRowError, read_all

OPTIMIZER = (
    *("optimizer.name=rmsprop", "optimizer.decay=0.0", "optimizer.epsilon=1.0e-30", "optimizer.centered=false"),
    *("optimizer.learning_rate=1.0", "optimizer.learning_rate_final=1.0", "optimizer.clip_norm=0.0"),
    *("optimizer.epsilon_inside_root=false", "optimizer.accumulator_init=0.0", "learners.rate_scaling=none"),
)
VALUE = 0.3719
"""Value of every row; no return equals it, so the gradient of each valid row is not 0."""


class _Counted(torch.autograd.Function):
    """Passes the output on; the gradient shows which rows are learned from."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, tally: Tensor, numbers: Tensor, witness: Witness) -> Tensor:
        ctx.save_for_backward(numbers)
        ctx.size, ctx.witness = tally.numel(), witness
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, Tensor, None, None]:
        (numbers,) = ctx.saved_tensors
        learned = numbers[slopes[0].ne(0).any(-1)]
        ctx.witness.learned_from(learned.numpy())
        return None, torch.zeros(ctx.size).index_add_(0, learned, torch.ones(len(learned))), None, None


class _Claims:
    """Listens at failpoints for the moment when a learner claims rows, before it shows their effect to others."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.pending: list[np.ndarray[Any, Any]] = []
        """Rows that were learned from and not yet claimed."""

    def reach(self, name: str, data: memoryview | None = None) -> memoryview | None:
        """Called at each failpoint."""
        if name == "shared_counts.claimed":
            for numbers in self.pending:
                np.add.at(self.rows.shown, numbers[numbers < SIZE], 1)
            self.pending.clear()
        return data


_claims: list[_Claims] = []
"""Claims of this process: one, where it is a trainer."""
_counted: Any = _Counted.apply


class Witness(nn.Module):
    """The network; without a folder of rows it can only be described."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__()
        self.tally = nn.Parameter(torch.zeros(SIZE))
        self._heads = heads
        folder = os.environ.get(VARIABLE)
        self._mark = own_mark(Path(folder)) if folder else None
        self._trainer = os.environ.get("ACTORLEARN_PROCESS", "").startswith("trainer")
        self._rows = Rows(Path(folder)) if folder and self._trainer else None
        if self._rows is not None and not _claims and "ACTORLEARN_PARENT_PID" in os.environ:  # a role of a run
            _claims.append(_Claims(self._rows))
            failpoints.watch(_claims[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> Witness:
        """Return a copy for a target network, with weights of its own."""
        copied = Witness((), self._heads)
        copied.load_state_dict(self.state_dict())
        return copied

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        """Outputs that are the same for every row."""
        outputs = {name: torch.full((len(observation), size), VALUE) for name, size in self._heads.items()}
        if self._mark and not self._trainer:
            self._mark.now()
        if torch.is_grad_enabled() and not self._trainer:  # `describe` refuses outputs without a gradient
            return {name: output + 0.0 * self.tally[0] for name, output in outputs.items()}
        if torch.is_grad_enabled() and self._trainer:
            numbers = torch.tensor(self._read(observation.numpy()))
            name = "value" if "value" in outputs else "q"
            outputs[name] = _counted(outputs[name], self.tally, numbers, self)
        return outputs

    def learned_from(self, numbers: np.ndarray[Any, Any]) -> None:
        """Record a gradient of these rows."""
        if self._rows is not None and self._mark is not None:
            np.add.at(self._rows.gradients, numbers[numbers < SIZE], 1)
            for claims in _claims:
                claims.pending.append(numbers)
            self._mark.now()

    def _read(self, observations: np.ndarray[Any, Any]) -> list[int]:
        try:
            return [min(shown.nonce, SIZE - 1) for shown in read_all(observations)]
        except DamagedRowError as error:
            with Path(os.environ[VARIABLE], "damaged").open("a") as file:
                file.write(f"{os.environ.get('ACTORLEARN_PROCESS')}: {error}\n")
            raise
