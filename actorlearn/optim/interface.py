"""The interface of an optimizer, which is three methods on one flat vector, and the function that makes one.

The settings of optimizers, and their specs, which describe them without importing them, are in ``specs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from actorlearn.optim.specs import OPTIMIZERS, OptimizerSettings

if TYPE_CHECKING:
    from torch import Tensor


Spread = Callable[[Callable[[slice], object], int], object]
"""A function spread(work, length), which calls ``work`` for slices that together cover a vector of this length.

It may call ``work`` on several cores at the same time. `whole` is the simplest one."""


def whole(work: Callable[[slice], object], length: int) -> None:
    """Call ``work`` once, for a slice of the whole vector (a `Spread`)."""
    work(slice(0, length))


class Optimizer(Protocol):
    """An update rule for one flat float32 vector of parameters, and the state that it keeps between steps.

    It must update each element independently, so that several optimizers for slices give the same result as one.
    """

    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change `parameters` in place by one step with these `gradients`, which are clipped already."""

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save in a checkpoint, without a copy: the next step changes them."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy the `state` of a checkpoint into this optimizer."""


def make(settings: OptimizerSettings, parameters: Tensor, spread: Spread = whole) -> Optimizer:
    """Make the optimizer that the settings name, for flat `parameters`, with its state on their device.

    `spread` may divide its steps among several cores; the result is the same.
    """
    made: Optimizer = OPTIMIZERS.spec(settings.name).load()(settings, parameters, spread)
    return made


def copy_state(saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Copy the optimizer state of a checkpoint into the tensors ``own``.

    Raises ValueError if names or shapes differ, because it is the state of another optimizer or another network.
    """
    found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    needed = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if found != needed:
        raise ValueError(
            f"optimizer: the checkpoint's state is {found}, but this run needs {needed}; resume with the model.*, "
            "optimizer.name and optimizer.centered of the checkpoint's run"
        )
    for name, tensor in own.items():
        tensor.copy_(saved[name])
