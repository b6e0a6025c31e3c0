"""Turns `optimizer.name` into an optimizer for a flat vector; knows no network and no process."""

from __future__ import annotations

from torch import Tensor

from actorlearn.optim.adam import Adam
from actorlearn.optim.interface import Optimizer, OptimizerSettings, Spread, whole
from actorlearn.optim.rmsprop import RMSProp


def make(settings: OptimizerSettings, parameters: Tensor, spread: Spread = whole) -> Optimizer:
    """Construct the optimizer that the settings name, with state as long as the flat `parameters`, on their device.

    `spread` says by which slices its steps are made; they change nothing but the time it takes.
    """
    if settings.name == "adam":
        return Adam(settings, parameters, spread)
    return RMSProp(settings, parameters, spread)
