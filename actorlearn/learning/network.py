"""A network as learning uses it: its weights as one flat vector, and passes over batches on this learner's cores.

Reads: observations of a batch, the state before row 0 and first rows. Writes: gradients, in a backward pass. Knows no
algorithm and no optimizer.
"""

from __future__ import annotations

import copy
from typing import Self

from torch import nn

from actorlearn.algorithms.interface import Batch
from actorlearn.models.make import flatten
from actorlearn.models.unroll import Outputs, state_size
from actorlearn.worker.passes import ComputePool, Passes


class Network:
    """A network that learns, or, without gradients, one that has forward passes only."""

    def __init__(
        self, module: nn.Module, pool: ComputePool, precision: str, compiled: bool, learns: bool = True
    ) -> None:
        """Lay the module's weights out as one vector; ``precision`` and ``compiled`` are those of TrainerSettings."""
        self.module, self.pool = module, pool
        self._how = (pool, precision, compiled)
        self.weights, self.gradients = flatten(module)
        """Parameters, and behind them statistics; gradients are those of the parameters alone."""
        self.parameters = self.weights[: self.gradients.numel()]
        self.state_size = state_size(module)
        self.passes = Passes(module, pool, precision, self.gradients if learns else None, compiled)

    def copy(self) -> Self:
        """Return an equal network with its own weights, for forward passes only."""
        return type(self)(copy.deepcopy(self.module), *self._how, learns=False)

    def outputs(self, batch: Batch, last: int = 0, bootstrap: int = 0) -> Outputs:
        """Return outputs for all rows of a batch, or the ``last``: {head: [rows, B, size]}.

        A recurrent network passes over all rows, from the state it had when it acted on the first. A loss may take the
        outputs of the last ``bootstrap`` rows for constants only.
        """
        state = batch.columns["state"][0] if self.state_size else None
        observation = batch.observation if self.state_size else batch.observation[-last:]
        outputs, _ = self.passes.forward(observation, state, batch.first, bootstrap=bootstrap)
        return {name: output[-last:] for name, output in outputs.items()}
