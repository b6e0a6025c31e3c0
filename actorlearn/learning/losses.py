"""Losses: the flat gradient of a minibatch, from one loss for all parameters or one loss for each network.

Reads: minibatches, the networks. Writes: the network's flat gradient. Takes no optimizer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Algorithm, Bootstraps, MultiNetworkAlgorithm, Networks
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.target import Target
from actorlearn.models.make import autocast
from actorlearn.models.several import networks
from actorlearn.worker.passes import FlatNetwork


class LossAndMetrics(NamedTuple):
    """Loss and metrics of a minibatch whose gradient was computed."""

    loss: Tensor
    """Scalar; the sum if there are several losses."""
    metrics: dict[str, Tensor]
    """Metrics of the algorithm."""


class SingleLoss:
    """One loss for all parameters, from outputs for all rows; the passes are divided among this learner's cores."""

    def __init__(self, algorithm: Algorithm, network: FlatNetwork) -> None:
        self._algorithm, self._network = algorithm, network
        self._bootstrap = algorithm.bootstrap_rows if isinstance(algorithm, Bootstraps) else 0

    def compute_gradient(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        """Write the flat gradient of a minibatch."""
        outputs = self._network.outputs(minibatch.batch, bootstrap=self._bootstrap)
        loss, metrics = self._algorithm.loss(outputs, minibatch.batch, progress)
        self._network.passes.backward(loss)
        return LossAndMetrics(loss, metrics)


class LossPerNetwork:
    """A loss for each network, which gives the gradient of that network's parameters only.

    One core computes the losses; the backward passes are divided among the cores, one loss at a time. An update of SAC
    with 256 transitions and layers of 256 units takes 11.7 ms on one core of an AMD EPYC and 9.7 ms on two.
    """

    def __init__(
        self, algorithm: MultiNetworkAlgorithm, network: FlatNetwork, target: Target | None, device: str, precision: str
    ) -> None:
        self._algorithm, self._gradients, self._pool = algorithm, network.gradients, network.pool
        self._device, self._precision = device, precision
        self._generator = torch.Generator(device)
        own = networks(network.module)
        self._parameters = {name: list(module.parameters()) for name, module in own.items()}
        calls: dict[str, Callable[..., Mapping[str, Tensor]]] = dict(own)
        if target is not None:
            older = networks(target.network.module)
            calls |= {f"target.{name}": partial(_without_gradient, module) for name, module in older.items()}
        self._networks: Networks = calls

    def compute_gradient(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        """Write the flat gradient of a minibatch, with zeros for networks without a loss.

        Raises ValueError if there is no loss, or one for an unknown network.
        """
        self._generator.manual_seed(minibatch.seed)
        with autocast(self._device, self._precision):
            losses, metrics = self._algorithm.losses(self._networks, minibatch.batch, self._generator, progress)
        if not losses:
            raise ValueError(f"losses returns no loss; it must return at least one, for {', '.join(self._parameters)}")
        if unknown := losses.keys() - self._parameters.keys():
            raise ValueError(
                f"losses returns a loss for {min(unknown)!r}, which is not one of {', '.join(self._parameters)}"
            )
        self._gradients.zero_()
        self._backward(losses)
        return LossAndMetrics(torch.stack([loss.detach() for loss in losses.values()]).sum(), metrics)

    def _backward(self, losses: Mapping[str, Tensor]) -> None:
        """Make the backward pass of each loss to its own network's parameters; a free core takes the next loss.

        One thread writes the whole gradient of a network, so the gradient is the same bit for bit, however the work is
        divided.
        """
        left = SimpleQueue[str]()
        for name in losses:
            left.put(name)

        def take_turns(_: int) -> None:
            with suppress(Empty):
                while name := left.get_nowait():
                    torch.autograd.backward(losses[name], inputs=self._parameters[name], retain_graph=True)

        self._pool.run(take_turns, min(self._pool.count, len(losses)))


@torch.no_grad()
def _without_gradient(module: nn.Module, *rows: Tensor) -> Mapping[str, Tensor]:
    outputs: Mapping[str, Tensor] = module(*rows)
    return outputs


def make(
    algorithm: Algorithm, network: FlatNetwork, target: Target | None, device: str, precision: str
) -> SingleLoss | LossPerNetwork:
    """Make the rule that computes gradients for this algorithm."""
    if isinstance(algorithm, MultiNetworkAlgorithm):
        return LossPerNetwork(algorithm, network, target, device, precision)
    return SingleLoss(algorithm, network)
