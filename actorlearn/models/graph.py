"""A network's forward pass as one CUDA graph: a single launch in place of one for every layer.

For inference, whose batches are so small that launching costs more than computing. Knows no process.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from actorlearn.models.make import autocast

_WARMUPS = 3


class Graph:
    """One forward pass for observations of one shape; the weights are read anew in every replay."""

    def __init__(self, network: nn.Module, example: Tensor, precision: str) -> None:
        """Capture the pass for observations like ``example`` on its GPU, and check it against the eager one.

        Raises RuntimeError when the replay gives other numbers: a network whose pass depends on more than its input
        cannot be captured.
        """
        self._observation = example.clone()
        side = torch.cuda.Stream(example.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(example.device))
        with torch.cuda.stream(side), autocast(str(example.device), precision):
            for _ in range(_WARMUPS):  # libraries choose their kernels now, not during the capture
                eager = network(self._observation)
        torch.cuda.current_stream(example.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph), autocast(str(example.device), precision):
            self._outputs: Mapping[str, Tensor] = network(self._observation)
        replayed = self(example)
        for name, output in eager.items():
            if not torch.allclose(replayed[name], output, rtol=1e-3, atol=1e-3):
                raise RuntimeError(f"the CUDA graph of {type(network).__name__} differs from its eager pass in {name}")

    def __call__(self, observation: Tensor) -> Mapping[str, Tensor]:
        """Outputs for observations of the captured shape; they are overwritten by the next call."""
        self._observation.copy_(observation, non_blocking=True)
        self._graph.replay()
        return self._outputs
