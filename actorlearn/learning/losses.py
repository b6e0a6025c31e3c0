"""Computes the gradient of a minibatch, from one loss for all parameters or from one loss for each network.

The gradient is written to one flat vector, whose elements correspond to those of the flat vector of parameters
(`FlatNetwork`). Optimizer steps are taken elsewhere (``learning/update.py``).
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
    """Loss and metrics of a minibatch."""

    loss: Tensor
    """The loss, a scalar; the sum if there are several losses."""
    metrics: Mapping[str, Tensor]
    """The metrics that the algorithm returned with the loss."""


class SingleLoss:
    """Computes the gradient of one loss for all parameters; the minibatch is divided among this learner's cores."""

    def __init__(self, algorithm: Algorithm, network: FlatNetwork) -> None:
        self._algorithm, self._network = algorithm, network
        self._bootstrap = algorithm.bootstrap_rows if isinstance(algorithm, Bootstraps) else 0

    def compute_gradient(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        """Write the gradient of a minibatch to the flat gradient vector.

        ``progress`` is the share of the run's schedules that is over, in [0, 1].
        """
        outputs = self._network.outputs(minibatch.batch, bootstrap=self._bootstrap)
        loss, metrics = self._algorithm.loss(outputs, minibatch.batch, progress)
        self._network.passes.backward(loss)
        return LossAndMetrics(loss, metrics)


class LossPerNetwork:
    """Computes the gradient of one loss for each network, as SAC has, with respect to that network's parameters only.

    One core computes all losses. Each core then takes the backward pass of one loss after the other, until all are
    done. An update of SAC with 256 transitions and layers of 256 units takes 11.7 ms on one core of an AMD EPYC and 9.7
    ms on two.
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
        """Write the gradient of a minibatch to the flat gradient vector, with zeros for networks without a loss.

        ``progress`` is the share of the run's schedules that is over, in [0, 1]. Raises ValueError if the algorithm
        returns no loss, or a loss for a network that does not exist.
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
        """Make the backward pass of each loss, for its network's parameters only. A free core takes the next loss.

        One thread writes the whole gradient of a network, so it is the same bit for bit whichever core takes it.
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
    """Return the object that computes gradients for this algorithm; ``target`` is its target network, if it has one."""
    if isinstance(algorithm, MultiNetworkAlgorithm):
        return LossPerNetwork(algorithm, network, target, device, precision)
    return SingleLoss(algorithm, network)
