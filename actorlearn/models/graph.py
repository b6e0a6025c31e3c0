"""CUDA graphs: many operations as a single launch from the CPU, instead of one launch for each operation.

They save time with small networks, for which launching an operation takes longer than computing it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from actorlearn.models.interface import Outputs, unroll
from actorlearn.models.make import autocast

T = TypeVar("T")

_WARMUPS = 3


class Captured(Generic[T]):
    """The operations of a function on a GPU, as one CUDA graph that can be replayed.

    Each replay overwrites the tensors of ``result``, which the function has returned.
    """

    def __init__(self, work: Callable[[], T], device: torch.device, generator: torch.Generator | None = None) -> None:
        """Call ``work`` three times, then capture a fourth call.

        A replay draws the numbers that ``work`` would draw from ``generator`` in its present state. Raises RuntimeError
        if ``work`` waits for the GPU, for example to read a number from it.
        """
        self._device = device
        with torch.cuda.device(device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARMUPS - 1):  # libraries choose their kernels now, not during the capture
                    work()
                with _no_waiting():  # a wait during the capture would leave torch's allocator in a wrong state
                    work()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            if generator is not None:
                self._graph.register_generator_state(generator)
            with (
                torch.cuda.stream(torch.cuda.current_stream()),  # restores the stream if the capture fails
                torch.cuda.graph(self._graph, capture_error_mode="thread_local"),  # other threads may use the GPU
            ):
                self.result = work()

    def replay(self) -> T:
        """Repeat the operations with the same tensors as inputs; return the result."""
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self.result


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Make torch raise RuntimeError where it would wait for a GPU; torch does not detect every such place."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


class Graph:
    """A captured call of `interface.unroll` for inputs of fixed shapes; every call uses the current weights."""

    def __init__(self, network: nn.Module, example: Sequence[Tensor], precision: str) -> None:
        """Capture the pass for inputs of the shapes of ``example``, on its GPU; compare it with a pass without a graph.

        ``example`` has the arguments of `unroll` after the network. Raises RuntimeError if the results differ, as they
        do for a network whose outputs depend on more than its inputs and weights.
        """
        device = example[0].device
        self._rows = [tensor.clone() for tensor in example]

        def forward() -> tuple[Outputs, Tensor | None]:
            with autocast(str(device), precision):
                return unroll(network, *self._rows)

        self._captured = Captured(forward, device)
        other = [tensor.flip(-1) for tensor in example]  # other inputs, so that old outputs do not look correct
        with autocast(str(device), precision):
            eager, _ = unroll(network, *other)
        for name, output in self(*other)[0].items():
            if not torch.allclose(output, eager[name], rtol=1e-3, atol=1e-3):
                raise RuntimeError(
                    f"the CUDA graph of {type(network).__name__} gives other values of the output {name} than the "
                    "network itself, so its forward pass depends on more than its inputs; set inference.cuda_graphs: "
                    "false"
                )

    def __call__(self, *rows: Tensor) -> tuple[Outputs, Tensor | None]:
        """Return what `unroll` returns for inputs of the captured shapes; the next call overwrites these tensors."""
        for captured, tensor in zip(self._rows, rows, strict=True):
            captured.copy_(tensor, non_blocking=True)
        return self._captured.replay()
