"""What an optimizer is to the rest of the system: its settings and three methods on one flat vector.

Reads and writes nothing; imports torch for the type checker only, because processes without torch read these settings.

Forms the papers' code used (PAAC's are the defaults):

    system            name     decay / betas  epsilon         other
    PAAC              rmsprop  .99            .1 inside       accumulator_init 1, clip_norm 3 (of the 5x loss)
    accel_rl A2C      rmsprop  .9             1e-6 inside     clip_norm .5
    GALA              rmsprop  .99            1e-5 outside    clip_norm .5
    torchbeast        rmsprop  .99            .01 outside     clip_norm 40 (of summed losses)
    Nature DQN        rmsprop  .95            .01 inside      centered
    fast-DQN          rmsprop  .95            .01 outside     centered
    DBA3C             adam     .8, .75        1e-8            epsilon_hat (TensorFlow 1)
    accel_rl PPO      adam     .9, .999       1e-5            epsilon_hat (Lasagne)
    accel_rl DQN      rmsprop  .95            1e-6 inside     clip_norm 10 if dueling
    accel_rl C51      adam     .9, .999       .01 / batch     epsilon_hat
    eps-Rainbow       adam     .9, .999       .005 / batch    epsilon_hat, clip_norm 10
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from torch import Tensor


Spread = Callable[[Callable[[slice], object], int], object]
"""Calls the work of a step for slices that make up vectors of a length: one after the other, or on several cores."""


def whole(work: Callable[[slice], object], length: int) -> None:
    """Work on vectors of this length as one slice."""
    work(slice(0, length))


class OptimizerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers of the update; the defaults are those of the published PAAC code (its paper clips at 40)."""

    name: str = "rmsprop"  # "rmsprop" or "adam"
    learning_rate: float = 0.0224  # PAAC: .0007 for each of 32 environments
    learning_rate_final: float = 0.0  # reached at total_steps, in a straight line; equal to learning_rate = constant
    decay: float = 0.99  # rmsprop: of the mean of squared gradients
    betas: tuple[float, float] = (0.9, 0.999)  # adam: of the means of gradients and of squared gradients
    epsilon: float = 0.1
    epsilon_inside_root: bool = True  # rmsprop: sqrt(mean + epsilon) as TensorFlow 1, or sqrt(mean) + epsilon as torch
    epsilon_hat: bool = False  # adam: epsilon is not shrunk by the bias correction, as TensorFlow 1 and Lasagne
    accumulator_init: float = 1.0  # rmsprop: the mean of squares before the first step; 1 in TensorFlow 1, 0 in torch
    centered: bool = False  # rmsprop: subtract the squared mean of gradients
    clip_norm: float = 3.0  # of the whole gradient; 0 = no clipping

    def __post_init__(self) -> None:
        """Refuse numbers for which the update has no meaning."""
        rules = {
            "name": (self.name in ("rmsprop", "adam"), "'rmsprop' or 'adam'"),
            "learning_rate": (self.learning_rate > 0.0, "above 0"),
            "learning_rate_final": (self.learning_rate_final >= 0.0, "0 or more"),
            "decay": (0.0 <= self.decay < 1.0, "within [0, 1)"),
            "betas": (all(0.0 <= beta < 1.0 for beta in self.betas), "two numbers within [0, 1)"),
            "epsilon": (self.epsilon > 0.0, "above 0"),
            "accumulator_init": (self.accumulator_init >= 0.0, "0 or more"),
            "clip_norm": (self.clip_norm >= 0.0, "0 (no clipping) or more"),
        }
        for key, (holds, rule) in rules.items():
            if not holds:
                raise ValueError(f"optimizer.{key}: {getattr(self, key)!r} must be {rule}")


def state_vectors(settings: OptimizerSettings) -> tuple[str, ...]:
    """Names of the optimizer's state that is as long as the parameters, number for number."""
    if settings.name == "adam":
        return ("mean", "square")
    return ("square", "mean") if settings.centered else ("square",)


class Optimizer(Protocol):
    """An update rule for one flat float32 vector, with what it remembers between steps.

    Numbers of the vector do not influence one another, so that one optimizer per slice does what one of the whole does.
    """

    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change `parameters` in place, reading `gradients`; called by the trainer once an update, after clipping."""

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must keep, without copying: the next step changes these tensors."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's `state` in; called before the first step of a resumed run."""


def copy_state(saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Copy a checkpoint's tensors into an optimizer's own; refuse those of another optimizer or model."""
    found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    needed = {name: tuple(tensor.shape) for name, tensor in own.items()}
    if found != needed:
        raise ValueError(
            f"optimizer: the checkpoint's state is {found}, this run's is {needed}; resume with the model.*, "
            "optimizer.name and optimizer.centered of the checkpoint's run"
        )
    for name, tensor in own.items():
        tensor.copy_(saved[name])
