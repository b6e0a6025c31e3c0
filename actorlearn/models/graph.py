"""A network's forward pass as one CUDA graph: a single kernel launch from the CPU instead of one for each layer.

Inference servers use it: their batches are so small that launches take longer than the computation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from actorlearn.models.interface import Outputs, unroll
from actorlearn.models.make import autocast

_WARMUPS = 3


class Graph:
    """A captured call of `interface.unroll` for inputs of fixed shapes; every call uses the current weights."""

    def __init__(self, network: nn.Module, example: Sequence[Tensor], precision: str) -> None:
        """Capture the pass for inputs of the shapes of ``example``, on its GPU; compare it with a pass without a graph.

        ``example`` has the arguments of `unroll` after the network. Raises RuntimeError if the results differ, as they
        do for a network whose outputs depend on more than its inputs and weights.
        """
        self._device = example[0].device
        self._rows = [tensor.clone() for tensor in example]
        with torch.cuda.device(self._device):
            self._capture(network, precision)
        other = [tensor.flip(-1) for tensor in example]  # other inputs, so that old outputs do not look correct
        with autocast(str(self._device), precision):
            eager, _ = unroll(network, *other)
        for name, output in self(*other)[0].items():
            if not torch.allclose(output, eager[name], rtol=1e-3, atol=1e-3):
                raise RuntimeError(
                    f"the CUDA graph of {type(network).__name__} gives other values of the output {name} than the "
                    "network itself, so its forward pass depends on more than its inputs; set inference.cuda_graphs: "
                    "false"
                )

    def _capture(self, network: nn.Module, precision: str) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), autocast(str(self._device), precision):
            for _ in range(_WARMUPS):  # libraries choose their kernels now, not during the capture
                unroll(network, *self._rows)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph), autocast(str(self._device), precision):
            self._outputs = unroll(network, *self._rows)

    def __call__(self, *rows: Tensor) -> tuple[Outputs, Tensor | None]:
        """Return what `unroll` returns for inputs of the captured shapes; the next call overwrites these tensors."""
        with torch.cuda.device(self._device):
            for captured, tensor in zip(self._rows, rows, strict=True):
                captured.copy_(tensor, non_blocking=True)
            self._graph.replay()
        return self._outputs
