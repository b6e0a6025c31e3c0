"""Turns `optimizer.name` into an optimizer for a flat vector; knows no network and no process."""

from __future__ import annotations

from torch import Tensor

from actorlearn.optim.adam import Adam
from actorlearn.optim.interface import Optimizer, OptimizerSettings
from actorlearn.optim.rmsprop import RMSProp


def make(settings: OptimizerSettings, parameters: Tensor) -> Optimizer:
    """Construct the optimizer that the settings name, with state as long as the flat `parameters`, on their device."""
    if settings.name == "adam":
        return Adam(settings, parameters)
    return RMSProp(settings, parameters)
