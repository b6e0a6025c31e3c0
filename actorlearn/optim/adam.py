"""Adam, with epsilon as in the paper and torch, or as in TensorFlow 1 and Lasagne ("epsilon hat").

Reads gradients, writes parameters, its two accumulators and its count of steps; knows no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor

from actorlearn.optim.interface import OptimizerSettings, copy_state


class Adam:
    """Moves by the mean gradient over the root mean square, both corrected for having started at 0."""

    def __init__(self, settings: OptimizerSettings, parameters: Tensor) -> None:
        """Start the accumulators, as long as the flat `parameters` and on their device."""
        self.settings = settings
        self.mean = torch.zeros_like(parameters)
        self.square = torch.zeros_like(parameters)
        self.root = torch.empty_like(self.square)  # scratch, so that a step allocates nothing
        self.steps = torch.zeros((), dtype=torch.int64)  # on the CPU: read at every step

    @torch.no_grad()
    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change the parameters in place by one update (Kingma & Ba 2015, the reordering at the end of section 2)."""
        rate = self.advance(gradients, learning_rate)
        parameters.addcdiv_(self.mean, self.root, value=-rate)

    def advance(self, gradients: Tensor, learning_rate: float) -> float:
        """Take the gradients into the state; the update is the returned rate times mean / root."""
        beta_mean, beta_square = self.settings.betas
        self.steps += 1
        steps = int(self.steps)
        self.mean.lerp_(gradients, 1.0 - beta_mean)
        self.square.mul_(beta_square).addcmul_(gradients, gradients, value=1.0 - beta_square)
        root_correction = sqrt(1.0 - beta_square**steps)
        # The corrections fold into the rate; the paper's epsilon then shrinks with them, epsilon hat does not.
        epsilon = self.settings.epsilon * (1.0 if self.settings.epsilon_hat else root_correction)
        torch.sqrt(self.square, out=self.root).add_(epsilon)
        return learning_rate * root_correction / (1.0 - beta_mean**steps)

    def state(self) -> dict[str, Tensor]:
        """Return the accumulators and the count of steps themselves."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's accumulators and count in."""
        copy_state(state, self.state())
