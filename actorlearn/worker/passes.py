"""Forward and backward passes that are divided among cores by the rows of the batch.

Each core computes its share of the rows with one thread, and the cores wait for each other once in each pass. The
threads of torch instead divide every operation, and wait for each other after each, hundreds of times in an update. If
another process then uses one of the cores, it delays the others hundreds of times. The update of PAAC with 192 rows on
two cores of an AMD EPYC took (medians):

==================  ====================  ==============
other load          two threads of torch  two shares
==================  ====================  ==============
none                16.4 ms               17.0 ms
one busy process    142 ms                29 ms
==================  ====================  ==============

The loss is computed from the outputs of all shares together, so shares change only the order in which gradients are
summed. The same number of shares gives the same bits, if the network draws no random numbers in a pass (the noise of
``models/noisy.py`` is drawn before).
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Batch
from actorlearn.models.interface import Outputs, state_size, unroll
from actorlearn.models.make import autocast, flatten

T = TypeVar("T")
Task = Callable[[], None]

SLICED = 250_000
"""Number of elements from which an operation on a vector is divided among threads.

Adam's step on 0.7M elements takes 1.5 ms, and in two shares 1.1 ms."""


class ComputePool:
    """A pool of threads that compute the shares of a batch at the same time, the first in the caller's thread."""

    def __init__(self, count: int = 1) -> None:
        """Start ``count`` - 1 threads, which end when the pool is garbage-collected."""
        self.count = count
        self._tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(count - 1)]
        threads = [Thread(target=_serve, args=(tasks,), name="share", daemon=True) for tasks in self._tasks]
        for thread in threads:
            thread.start()
        weakref.finalize(self, _end, self._tasks, threads)

    def run(self, work: Callable[[int], T], count: int) -> list[T]:
        """Call work(0), …, work(count - 1) at the same time; returns their results. ``count``: at most ``self.count``.

        If calls raise, the exception of the lowest index is raised after all calls have ended.
        """
        done: SimpleQueue[tuple[int, T | None, BaseException | None]] = SimpleQueue()

        def task(index: int) -> None:
            try:
                done.put((index, work(index), None))
            except BaseException as error:
                done.put((index, None, error))

        for index in range(1, count):
            self._tasks[index - 1].put(lambda index=index: task(index))  # type: ignore[misc]
        task(0)
        results: list[Any] = [None] * count
        errors = {}
        for _ in range(count):
            index, results[index], error = done.get()
            if error is not None:
                errors[index] = error
        if errors:
            raise errors[min(errors)]
        return results

    def spread(self, work: Callable[[slice], object], length: int) -> None:
        """Call ``work`` with slices that together cover a vector of ``length`` elements.

        There is one slice for each thread, or a single slice if the vector is shorter than SLICED.
        """
        count = self.count if length >= SLICED else 1
        self.run(lambda index: work(slice(length * index // count, length * (index + 1) // count)), count)


def _serve(tasks: SimpleQueue[Task | None]) -> None:
    torch.set_num_threads(1)
    while (task := tasks.get()) is not None:
        task()


def _end(queues: Sequence[SimpleQueue[Task | None]], threads: Sequence[Thread]) -> None:
    for tasks in queues:
        tasks.put(None)
    for thread in threads:
        if thread is not current_thread():  # the last reference may be dropped in one of these threads
            thread.join()


class Passes:
    """Forward and backward passes of a network; on a CPU, its threads share the environments of a batch."""

    def __init__(
        self,
        network: nn.Module,
        pool: ComputePool,
        precision: str,
        gradients: Tensor | None = None,
        compiled: bool = False,
    ) -> None:
        """Make passes of a network whose parameters are views of one flat vector (`models.make.flatten`).

        ``gradients`` is the flat vector of gradients; with None there is no backward pass. Every thread but the first
        uses a copy of the network, with the same memory for weights and its own gradients.
        """
        self._pool, self._precision = pool, precision
        self._gradients = gradients
        networks, self._copies_gradients = [network], []
        for _ in range(1, pool.count if gradients is not None else 1):
            networks.append(_with_weights_of(network))
            self._copies_gradients.append(torch.zeros_like(gradients))  # type: ignore[arg-type]
            _lay_gradients(networks[-1], self._copies_gradients[-1])
        self._networks = [torch.compile(network) for network in networks] if compiled else networks
        self._pending: tuple[Outputs, list[Outputs]] | None = None
        """Outputs of the newest forward pass, until its backward pass.

        It is None if the loss is computed from the network's own outputs, not from detached copies. Otherwise the first
        element has the outputs from which the loss is computed, the second those of each share."""

    def forward(
        self,
        observation: Tensor,
        state: Tensor | None = None,
        first: Tensor | None = None,
        *,
        bootstrap: int = 0,
        detached: bool = False,
    ) -> tuple[Outputs, Tensor | None]:
        """Return outputs {head: [T, B, size]} and the state after the last step, as `models.interface.unroll` does.

        The caller uses the outputs of the last ``bootstrap`` time steps as constants, so no gradient is computed for
        them where that saves time. With ``detached``, the outputs are detached copies: a loss that the caller keeps
        then does not keep the network's operations in memory.
        """
        count = max(1, min(self._pool.count, observation.shape[1]))
        if count == 1:
            outputs, after = self._pass(0, observation, state, first, bootstrap)
            if not detached:
                self._pending = None
                return outputs, after
            leaves = {name: output.detach().requires_grad_() for name, output in outputs.items()}
            self._pending = leaves, [outputs]
            return leaves, after
        rows = observation.tensor_split(count, 1)
        initial_states = state.tensor_split(count) if state is not None else [None] * count
        firsts = first.tensor_split(count, 1) if first is not None else [None] * count
        modes = torch.is_grad_enabled() and self._gradients is not None, torch.is_inference_mode_enabled()

        def share(index: int) -> tuple[Outputs, Tensor | None]:
            with ExitStack() as stack:  # grad and inference mode are per thread
                stack.enter_context(torch.inference_mode(modes[1]))
                stack.enter_context(torch.set_grad_enabled(modes[0]))
                if modes[0] and index:
                    self._copies_gradients[index - 1].zero_()
                return self._pass(
                    index if modes[0] else 0, rows[index], initial_states[index], firsts[index], bootstrap
                )

        passed = self._pool.run(share, count)
        parts = [outputs for outputs, _ in passed]
        joined = {name: torch.cat([part[name].detach() for part in parts], 1) for name in parts[0]}
        if modes[0]:
            for output in joined.values():
                output.requires_grad_()
            self._pending = joined, parts
        states = [state for _, state in passed if state is not None]
        return joined, torch.cat(states) if states else None

    def _pass(
        self, index: int, observation: Tensor, state: Tensor | None, first: Tensor | None, bootstrap: int = 0
    ) -> tuple[Outputs, Tensor | None]:
        network = self._networks[index]
        with autocast(observation.device.type, self._precision):
            if not bootstrap or state is not None or observation.is_cuda or not torch.is_grad_enabled():
                return unroll(network, observation, state, first)
            outputs, _ = unroll(network, observation[:-bootstrap])
            with torch.no_grad():  # so that the backward pass, which takes longer, has fewer rows
                constant, _ = unroll(network, observation[-bootstrap:])
        return {name: torch.cat([output, constant[name]]) for name, output in outputs.items()}, None

    @torch.no_grad()
    def whole(self, observation: Tensor) -> Outputs:
        """Return the outputs of a network that is not recurrent, computed by the calling thread alone.

        The calling thread may itself belong to the pool.
        """
        return self._pass(0, observation, None, None)[0]

    def backward(self, loss: Tensor) -> None:
        """Compute the flat gradients of a loss, which must depend on the outputs of the last `forward`."""
        assert self._gradients is not None
        self._gradients.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._pending is None:
            return
        (joined, parts), self._pending = self._pending, None
        count = len(parts)
        slopes = {
            name: output.grad.tensor_split(count, 1) for name, output in joined.items() if output.grad is not None
        }

        def share(index: int) -> None:
            reached = [name for name in slopes if parts[index][name].requires_grad]
            outputs = [parts[index][name] for name in reached]
            torch.autograd.backward(outputs, [slopes[name][index] for name in reached])

        self._pool.run(share, count)
        for gradients in self._copies_gradients[: count - 1]:
            self._gradients.add_(gradients)


class FlatNetwork:
    """A network whose weights are views of one flat vector, with passes over batches on this learner's cores.

    The vector can be published, saved, exchanged and changed by an optimizer in one operation.
    """

    def __init__(
        self, module: nn.Module, pool: ComputePool, precision: str, compiled: bool, learns: bool = True
    ) -> None:
        """Flatten the module's weights to one vector; ``precision`` and ``compiled`` are those of TrainerSettings.

        A network that does not learn has forward passes only.
        """
        self.module, self.pool = module, pool
        self._how = (pool, precision, compiled)
        self.weights, self.gradients = flatten(module)
        """The flat vectors: ``weights`` has the parameters and then the statistics of normalisation; ``gradients`` has
        the gradients of the parameters."""
        self.parameters = self.weights[: self.gradients.numel()]
        self.state_size = state_size(module)
        self.passes = Passes(module, pool, precision, self.gradients if learns else None, compiled)

    def copy(self) -> Self:
        """Return a copy of the network with its own weights, for forward passes only."""
        return type(self)(copy.deepcopy(self.module), *self._how, learns=False)

    def outputs(self, batch: Batch, last: int = 0, bootstrap: int = 0, detached: bool = False) -> Outputs:
        """Return outputs {head: [last, B, size]} for the last ``last`` time steps of a batch; 0 = for all.

        A recurrent network passes over all time steps, from the state with which it acted on the first. The caller must
        use the outputs of the last ``bootstrap`` time steps as constants; ``detached`` is as for `Passes.forward`.
        """
        state = batch.columns["state"][0] if self.state_size else None
        observation = batch.observation if self.state_size else batch.observation[-last:]
        outputs, _ = self.passes.forward(observation, state, batch.first, bootstrap=bootstrap, detached=detached)
        return {name: output[-last:] for name, output in outputs.items()}


def _with_weights_of(network: nn.Module) -> nn.Module:
    """Return a copy that shares the memory of parameters and buffers, and has no gradients yet."""
    same: dict[int, Any] = {
        id(parameter): nn.Parameter(parameter.data, parameter.requires_grad) for parameter in network.parameters()
    }
    same |= {id(buffer): buffer for buffer in network.buffers()}
    return copy.deepcopy(network, same)


def _lay_gradients(network: nn.Module, gradients: Tensor) -> None:
    """Make the gradients of a network's parameters views of one flat vector, in their order."""
    start = 0
    for parameter in network.parameters():
        end = start + parameter.numel()
        parameter.grad = gradients[start:end].view(parameter.shape)
        start = end
