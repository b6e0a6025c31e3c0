"""Computes the gradient of a minibatch, from one loss for all parameters or from one loss for each network.

The gradient is written to one flat vector, whose elements correspond to those of the flat vector of parameters
(`FlatNetwork`). Optimizer steps are taken elsewhere (``learning/update.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import isfinite
from queue import Empty, SimpleQueue
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Algorithm, Batch, Bootstraps, KeepsState, MultiNetworkAlgorithm, Networks
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.learning.minibatches import Minibatch
from actorlearn.learning.target import Target
from actorlearn.models.graph import Captured
from actorlearn.models.make import autocast
from actorlearn.models.several import networks, spans
from actorlearn.worker.passes import FlatNetwork


class LossAndMetrics(NamedTuple):
    """Loss and metrics of a minibatch."""

    loss: Tensor
    """The loss, a scalar; the sum if there are several losses."""
    metrics: Mapping[str, Tensor]
    """The metrics that the algorithm returned with the loss."""


class Gradient(ABC):
    """Computes loss, metrics and gradient of a minibatch."""

    generator: torch.Generator | None = None
    """Source of the random numbers of the loss; None if it draws none."""

    def compute_gradient(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        """Write the gradient of a minibatch to the flat gradient vector. The minibatch's seed determines random draws.

        ``progress`` is the share of the run's schedules that is over, in [0, 1].
        """
        if self.generator is not None:
            self.generator.manual_seed(minibatch.seed)
        return self.compute(minibatch.batch, progress)

    @abstractmethod
    def compute(self, batch: Batch, progress: float) -> LossAndMetrics:
        """Do what `compute_gradient` does, with the next random numbers of the generator."""


class SingleLoss(Gradient):
    """Computes the gradient of one loss for all parameters; the minibatch is divided among this learner's cores."""

    def __init__(self, algorithm: Algorithm, network: FlatNetwork, detached: bool = False) -> None:
        """With ``detached``, the metrics do not keep the network's autograd graph in memory (`Passes.forward`)."""
        self._algorithm, self._network, self._detached = algorithm, network, detached
        self._bootstrap = algorithm.bootstrap_rows if isinstance(algorithm, Bootstraps) else 0

    def compute(self, batch: Batch, progress: float) -> LossAndMetrics:
        """Do what `Gradient.compute` says."""
        outputs = self._network.outputs(batch, bootstrap=self._bootstrap, detached=self._detached)
        loss, metrics = self._algorithm.loss(outputs, batch, progress)
        self._network.passes.backward(loss)
        return LossAndMetrics(loss, metrics)


MOST_GRAPHS = 4
"""Number of shapes of minibatches that are captured; minibatches of further shapes are computed without a graph."""
SMALLEST_SHARE = 0.05
"""In a comparison, each network's gradient counts as having at least this share of the norm of the whole gradient.

Otherwise rounding errors would exceed LARGEST_ERROR in a network whose gradient is almost 0."""
LARGEST_ERROR = 0.02
"""Largest accepted distance between a network's gradients with and without a graph, as a share of their norm.

Chosen above what rounding in bf16 is expected to cause; the error of a right graph has not been measured."""


class CapturedLoss:
    """Computes the gradients of a `Gradient` by one CUDA graph for each shape of minibatches.

    A minibatch of PPO with 256 steps of pong-fast has 250 operations. Without a graph they take 7 ms, in which the GPU
    computes for 1 ms (one H200).
    """

    def __init__(self, loss: Gradient, detached: Gradient, network: FlatNetwork, warn: Callable[[str], object]) -> None:
        """Capture ``detached`` in graphs, and check their gradients with ``loss``, which computes the same.

        Each graph is checked at its uses 1, 2, 4, 8 and so on. Both losses write the gradient of ``network``. If the
        loss cannot be captured, or gradients differ, ``warn`` gets the reason, and ``loss`` computes all gradients.
        """
        self._loss, self._detached, self._gradients, self._warn = loss, detached, network.gradients, warn
        self._parts = [*spans(network.module).values()] or [slice(None)]
        """Ranges of the gradient that are compared: that of each network."""
        self._graphs: dict[tuple[object, ...], _LossGraph] = {}
        self._uses = Counter[tuple[object, ...]]()
        """Number of minibatches of each shape."""
        self._captures, self._full = True, False

    def compute_gradient(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        """Write the gradient of a minibatch to the flat gradient vector; the next call overwrites loss and metrics.

        ``progress`` is the share of the run's schedules that is over, in [0, 1].
        """
        shape = tuple((name, tensor.shape, tensor.dtype) for name, tensor in minibatch.batch.tensors().items())
        if not self._captures or (shape not in self._graphs and self._is_full()):
            return self._loss.compute_gradient(minibatch, progress)
        self._uses[shape] += 1
        uses = self._uses[shape]
        try:
            compares = shape not in self._graphs or uses & (uses - 1) == 0  # at the uses 1, 2, 4, 8, ...
            if not compares or self._compare(shape, minibatch, progress):
                return self._graphs[shape](minibatch, progress)
        except Exception as error:  # a loss may raise anything in a capture; it is then computed without a graph
            self._captures = False
            self._graphs.clear()
            self._warn(f"trainer.cuda_graphs: gradients are computed without CUDA graphs, because {error}")
        return self._loss.compute_gradient(minibatch, progress)

    def _is_full(self) -> bool:
        """Whether MOST_GRAPHS shapes have been captured; warns at the first further shape."""
        if len(self._graphs) < MOST_GRAPHS:
            return False
        if not self._full:
            self._warn(
                f"trainer.cuda_graphs: minibatches have had {MOST_GRAPHS} shapes; gradients of further shapes are "
                "computed without CUDA graphs"
            )
        self._full = True
        return True

    def _compare(self, shape: tuple[object, ...], minibatch: Minibatch, progress: float) -> bool:
        """Compare the gradient of this shape's graph with the gradient without a graph; captures a missing graph.

        Returns False if this minibatch cannot be used for it, because the gradient is 0 or not finite. Raises
        RuntimeError if the gradients differ.
        """
        self._loss.compute_gradient(minibatch, progress)
        expected = self._gradients.clone()
        norm = float(torch.linalg.vector_norm(expected))
        if not isfinite(norm) or norm == 0.0:
            return False
        graph = self._graphs.get(shape) or _LossGraph(self._detached, minibatch)
        self._gradients.fill_(torch.nan)
        graph(minibatch, progress)
        distances = torch.stack([torch.dist(expected[part], self._gradients[part]) for part in self._parts])
        norms = torch.stack([torch.linalg.vector_norm(expected[part]) for part in self._parts])
        error = float((distances / norms.clamp(min=SMALLEST_SHARE * norm)).max())
        if not error <= LARGEST_ERROR:  # also if it is NaN
            raise RuntimeError(
                f"the gradient of the graph differs by {error:.1%} from the gradient without a graph; probably the "
                "loss depends on more than the weights, the minibatch and the progress"
            )
        self._graphs[shape] = graph
        return True


class _LossGraph:
    """A CUDA graph of loss, metrics and gradient, for minibatches of one shape."""

    def __init__(self, loss: Gradient, minibatch: Minibatch) -> None:
        """Capture the computation, with the minibatch's observations in another order.

        The comparison then detects a graph that repeats the results of its capture.
        """
        self._inputs: Batch = minibatch.batch.map(torch.clone)
        self._inputs.observation.copy_(self._inputs.observation.flip(1))
        self._progress = torch.zeros((), device=self._inputs.reward.device)

        def compute() -> LossAndMetrics:
            computed = loss.compute(self._inputs, cast("float", self._progress))
            return computed._replace(loss=computed.loss.detach())

        self._generator = loss.generator
        self._captured = Captured(compute, self._inputs.reward.device, self._generator)

    def __call__(self, minibatch: Minibatch, progress: float) -> LossAndMetrics:
        given = minibatch.batch.tensors()
        for name, tensor in self._inputs.tensors().items():
            tensor.copy_(given[name])
        self._progress.fill_(progress)
        if self._generator is not None:
            self._generator.manual_seed(minibatch.seed)
        loss, metrics = self._captured.replay()
        return LossAndMetrics(loss, metrics.uncomputed() if isinstance(metrics, LazyMetrics) else metrics)


class LossPerNetwork(Gradient):
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
        self._threads = network.pool.count if device == "cpu" else 1  # a CUDA graph is captured by one thread
        self.generator: torch.Generator = torch.Generator(device)
        own = networks(network.module)
        self._parameters = {name: list(module.parameters()) for name, module in own.items()}
        calls: dict[str, Callable[..., Mapping[str, Tensor]]] = dict(own)
        if target is not None:
            older = networks(target.network.module)
            calls |= {f"target.{name}": partial(_without_gradient, module) for name, module in older.items()}
        self._networks: Networks = calls

    def compute(self, batch: Batch, progress: float) -> LossAndMetrics:
        """Do what `Gradient.compute` says; the gradient of a network without a loss is 0.

        Raises ValueError if the algorithm returns no loss, or a loss for a network that does not exist.
        """
        with autocast(self._device, self._precision, keep_casts=False):  # losses may call a network under no_grad first
            losses, metrics = self._algorithm.losses(self._networks, batch, self.generator, progress)
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

        self._pool.run(take_turns, min(self._threads, len(losses)))


@torch.no_grad()
def _without_gradient(module: nn.Module, *rows: Tensor) -> Mapping[str, Tensor]:
    outputs: Mapping[str, Tensor] = module(*rows)
    return outputs


def make(
    algorithm: Algorithm,
    network: FlatNetwork,
    target: Target | None,
    device: str,
    precision: str,
    warn: Callable[[str], object] | None = None,
) -> Gradient | CapturedLoss:
    """Return the object that computes gradients for this algorithm; ``target`` is its target network, if it has one.

    On a GPU, CUDA graphs compute the gradients, unless the algorithm has a state (`KeepsState`). ``warn`` is called
    with the reason if the loss cannot be captured. With None, no graphs are used.
    """
    loss: Gradient
    detached: Gradient
    if isinstance(algorithm, MultiNetworkAlgorithm):
        loss = detached = LossPerNetwork(algorithm, network, target, device, precision)
    else:
        loss, detached = SingleLoss(algorithm, network), SingleLoss(algorithm, network, detached=True)
    if device == "cpu" or warn is None or isinstance(algorithm, KeepsState):
        return loss
    return CapturedLoss(loss, detached, network, warn)
