"""A network's forward pass as one CUDA graph: a single launch instead of one for each layer.

It is for inference, whose batches are so small that launches take longer than the computation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from actorlearn.models.interface import Outputs, unroll
from actorlearn.models.make import autocast

_WARMUPS = 3


class Graph:
    """One forward pass over rows of one shape, as in `unroll`; every replay reads the current weights."""

    def __init__(self, network: nn.Module, example: Sequence[Tensor], precision: str) -> None:
        """Capture the pass for rows like ``example`` on their GPU, and compare it with the eager pass.

        Raises RuntimeError if the replay gives other numbers: a network whose pass depends on more than its input
        cannot be captured.
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
                    f"the CUDA graph of {type(network).__name__} differs from its eager pass in {name}: its pass "
                    "depends on more than its input; set inference.cuda_graphs: false"
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
        """Return outputs and state for rows of the captured shape; the next call overwrites them."""
        with torch.cuda.device(self._device):
            for captured, tensor in zip(self._rows, rows, strict=True):
                captured.copy_(tensor, non_blocking=True)
            self._graph.replay()
        return self._outputs
