"""Metrics of a loss that are computed only if they are read.

An update of PPO has many minibatches, and only the metrics of the last one are reported. With small networks, computing
them takes as long as the rest of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import torch
from torch import Tensor


class LazyMetrics(Mapping[str, Tensor]):
    """Detached metrics by name, which a function computes when one of them is read for the first time."""

    def __init__(self, compute: Callable[[], Mapping[str, Tensor]]) -> None:
        """``compute`` is called later, without gradient; it must not read tensors that later optimizer steps change."""
        self._compute = compute

    def uncomputed(self) -> LazyMetrics:
        """Return metrics with the same function and no results, for use after a CUDA graph has changed its inputs."""
        return LazyMetrics(self._compute)

    @cached_property
    def _computed(self) -> dict[str, Tensor]:
        with torch.no_grad():
            return {name: metric.detach() for name, metric in self._compute().items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._computed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._computed)

    def __len__(self) -> int:
        return len(self._computed)
