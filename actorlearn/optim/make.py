"""Makes the optimizer of the settings for a flat vector."""

from __future__ import annotations

from torch import Tensor

from actorlearn.optim.interface import Optimizer, Spread, whole
from actorlearn.optim.specs import OPTIMIZERS, OptimizerSettings


def make(settings: OptimizerSettings, parameters: Tensor, spread: Spread = whole) -> Optimizer:
    """Make the optimizer, with state as long as the flat `parameters` and on their device.

    `spread` may divide its steps into slices for several cores; the result is the same.
    """
    made: Optimizer = OPTIMIZERS.spec(settings.name).load()(settings, parameters, spread)
    return made
