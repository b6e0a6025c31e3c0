"""Networks and algorithms with one fault each; named as tests.nasty.plugins:Name.

Those whose names end in Late are sound in the rehearsal, and fail in a run.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn

from actorlearn.algorithms.a2c import A2C
from tests.nasty.environments import LONG_S

AFTER = 30
"""Passes with a gradient, or losses, before a late fault; a rehearsal makes fewer of one object."""


class Net(nn.Module):
    """A sound network of one layer for each head."""

    passes = 0

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__()
        (width,) = observation_shape
        self.layers = nn.ModuleDict({name: nn.Linear(width, size) for name, size in heads.items()})

    def forward(self, observation: Tensor) -> Any:
        outputs = {name: layer(observation) for name, layer in self.layers.items()}
        self.passes += torch.is_grad_enabled()
        return self.spoilt(outputs) if self.passes > AFTER else outputs

    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        """Return something else than these outputs."""
        return outputs


class NetOfOtherShape(Net):
    def forward(self, observation: Tensor) -> Any:
        return {name: output[:, :1] for name, output in super().forward(observation).items()}


class NetNan(Net):
    def forward(self, observation: Tensor) -> Any:
        return {name: output * torch.nan for name, output in super().forward(observation).items()}


class NetRaises(Net):
    def forward(self, observation: Tensor) -> Any:
        raise LookupError("no such layer")


class NetOfOtherShapeLate(Net):
    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        return {name: output[:1] for name, output in outputs.items()}


class NetNanLate(Net):
    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        return {name: output * torch.nan for name, output in outputs.items()}


class NetRaisesLate(Net):
    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        raise LookupError("no such layer")


class NetHangsLate(Net):
    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        time.sleep(LONG_S)


class NetCrashesLate(Net):
    def spoilt(self, outputs: dict[str, Tensor]) -> Any:
        ctypes.string_at(0)


class Algorithm(A2C):
    """A sound algorithm."""

    losses_made = 0

    def loss(self, outputs: Any, batch: Any, progress: float) -> Any:
        found = super().loss(outputs, batch, progress)
        self.losses_made += 1
        return self.spoilt(*found) if self.losses_made > AFTER else found

    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        """Return something else than this loss and these metrics."""
        return loss, metrics


class LossRaisesLate(Algorithm):
    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        raise ArithmeticError("negative variance")


class LossNanLate(Algorithm):
    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        return loss * torch.nan, metrics


class LossIsTextLate(Algorithm):
    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        return "a lot", metrics


class LossHangsLate(Algorithm):
    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        time.sleep(LONG_S)


class LossExitsLate(Algorithm):
    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        sys.exit(0)


class MetricNanLate(Algorithm):
    """Accepted: a number that is not finite is left out of its row."""

    def spoilt(self, loss: Tensor, metrics: dict[str, Tensor]) -> Any:
        return loss, metrics | dict.fromkeys(metrics, torch.tensor(torch.nan))
