"""Losses: from a minibatch to the flat gradient, by one loss of all parameters or by one of each network.

Reads: minibatches, the networks. Writes: the network's flat gradient. Refuses to know: steps and optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Algorithm, Networks, SeveralLosses
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.network import Network
from actorlearn.learning.target import Target
from actorlearn.models.beside import networks
from actorlearn.models.make import autocast


class Descent(NamedTuple):
    """Loss and metrics of a minibatch whose gradient has been made."""

    loss: Tensor
    """Scalar; of several losses their sum."""
    metrics: dict[str, Tensor]
    """Metrics of the algorithm's own."""


class Losses(Protocol):
    """A way from a minibatch to a gradient."""

    def descend(self, minibatch: Minibatch, progress: float) -> Descent:
        """Make the network's flat gradient that of a minibatch."""


class OneLoss:
    """One loss of all parameters, from one forward pass, which this learner's cores share out."""

    def __init__(self, algorithm: Algorithm, network: Network) -> None:
        """Take the loss of this algorithm."""
        self._algorithm, self._network = algorithm, network

    def descend(self, minibatch: Minibatch, progress: float) -> Descent:
        """Make the network's flat gradient that of a minibatch."""
        loss, metrics = self._algorithm.loss(self._network.outputs(minibatch.batch), minibatch.batch, progress)
        self._network.passes.backward(loss)
        return Descent(loss, metrics)


class LossOfEach:
    """A loss of each network, whose gradient goes to that network's parameters alone; on one core."""

    def __init__(
        self, algorithm: SeveralLosses, network: Network, target: Target | None, device: str, precision: str
    ) -> None:
        """Take the losses of this algorithm; its networks are those in one module, and those of the target's."""
        self._algorithm, self._gradients = algorithm, network.gradients
        self._device, self._precision = device, precision
        self._generator = torch.Generator(device)
        own = networks(network.module)
        self._parameters = {name: list(module.parameters()) for name, module in own.items()}
        calls: dict[str, Callable[..., Mapping[str, Tensor]]] = dict(own)
        if target is not None:
            older = networks(target.network.module)
            calls |= {f"target.{name}": partial(_without_gradient, module) for name, module in older.items()}
        self._networks: Networks = calls

    def descend(self, minibatch: Minibatch, progress: float) -> Descent:
        """Make the network's flat gradient that of a minibatch: zeros for networks without a loss."""
        self._generator.manual_seed(minibatch.seed)
        with autocast(self._device, self._precision):
            losses, metrics = self._algorithm.losses(self._networks, minibatch.batch, self._generator, progress)
        self._gradients.zero_()
        for left, (name, loss) in enumerate(losses.items(), 1 - len(losses)):
            torch.autograd.backward(loss, inputs=self._parameters[name], retain_graph=left < 0)
        return Descent(torch.stack([loss.detach() for loss in losses.values()]).sum(), metrics)


@torch.no_grad()
def _without_gradient(module: nn.Module, *rows: Tensor) -> Mapping[str, Tensor]:
    outputs: Mapping[str, Tensor] = module(*rows)
    return outputs


def make(algorithm: Algorithm, network: Network, target: Target | None, device: str, precision: str) -> Losses:
    """Make the way from minibatches to gradients that an algorithm asks for."""
    if isinstance(algorithm, SeveralLosses):
        return LossOfEach(algorithm, network, target, device, precision)
    return OneLoss(algorithm, network)
