"""Makes the optimizer that settings are for, of a flat vector; knows no network and no process."""

from __future__ import annotations

from torch import Tensor

from actorlearn.optim.interface import Optimizer, Spread, whole
from actorlearn.optim.specs import OPTIMIZERS, OptimizerSettings


def make(settings: OptimizerSettings, parameters: Tensor, spread: Spread = whole) -> Optimizer:
    """Construct the optimizer, with state as long as the flat `parameters`, on their device.

    `spread` says by which slices its steps are made; they change nothing but the time it takes.
    """
    made: Optimizer = OPTIMIZERS.spec(settings.name).load()(settings, parameters, spread)
    return made
