"""The interface of an optimizer, which is three methods on one flat vector, and the function that makes one.

Reads and writes nothing. Optimizers' settings and specs, which exist before an optimizer is made, are in ``specs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from actorlearn.optim.specs import OPTIMIZERS, OptimizerSettings

if TYPE_CHECKING:
    from torch import Tensor


Spread = Callable[[Callable[[slice], object], int], object]
"""Function that calls ``work`` for slices that together cover a vector of a given length, perhaps on several cores."""


def whole(work: Callable[[slice], object], length: int) -> None:
    """Call ``work`` once, for a slice of the whole length."""
    work(slice(0, length))


class Optimizer(Protocol):
    """An update rule for one flat float32 vector, with its state between steps.

    Elements of the vector are updated independently, so several optimizers for slices give the same result as one.
    """

    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change `parameters` in place by `gradients`; called for each optimizer step, after clipping."""

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save in a checkpoint, without a copy: the next step changes them."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's `state` into this one; called before the first step of a resumed run."""


def make(settings: OptimizerSettings, parameters: Tensor, spread: Spread = whole) -> Optimizer:
    """Make the optimizer, with state as long as the flat `parameters` and on their device.

    `spread` may divide its steps into slices for several cores; the result is the same.
    """
    made: Optimizer = OPTIMIZERS.spec(settings.name).load()(settings, parameters, spread)
    return made


def copy_state(saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Copy a checkpoint's tensors into an optimizer's; raises ValueError for those of another optimizer or model."""
    found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    needed = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if found != needed:
        raise ValueError(
            f"optimizer: the checkpoint's state is {found}, but this run needs {needed}; resume with the model.*, "
            "optimizer.name and optimizer.centered of the checkpoint's run"
        )
    for name, tensor in own.items():
        tensor.copy_(saved[name])
