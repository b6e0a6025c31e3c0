"""Adam that takes several local steps and then merges them into central parameters that other learners change too.

Reads gradients, writes parameters and state. Source: Stooke & Abbeel (2018), appendix A, with either form of epsilon.
With a single learner it equals Adam.
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.optim.adam import Adam
from actorlearn.optim.specs import AdamSettings


class MultiStepAdam(Adam):
    """Adam that also accumulates its local steps, so that they can be repeated from other parameters and state."""

    def __init__(self, settings: AdamSettings, parameters: Tensor) -> None:
        """Make state and accumulators, as long as the flat `parameters` and on their device."""
        super().__init__(settings, parameters)
        self.gradient_sum = torch.zeros_like(parameters)  # the appendix's a_g
        self.square_sum = torch.zeros_like(parameters)  # a_g²
        self.moved = torch.zeros_like(parameters)  # a_s
        self.pending = 0  # n
        """Steps since the last merge."""

    @torch.no_grad()
    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change the parameters in place by one local step."""
        beta_mean, beta_square = self.settings.betas
        super().step(parameters, gradients, learning_rate)
        self.gradient_sum.mul_(beta_mean).add_(gradients)
        self.square_sum.mul_(beta_square).addcmul_(gradients, gradients)
        self.pending += 1

    @torch.no_grad()
    def _move(self, parameters: Tensor, part: slice, rate: float) -> None:
        super()._move(parameters, part, rate)
        self.moved[part].addcdiv_(self.mean[part], self.root[part], value=rate)

    @torch.no_grad()
    def repeat(self, parameters: Tensor) -> None:
        """Apply the local steps to central values, which the caller has copied to `parameters` and this state."""
        beta_mean, beta_square = self.settings.betas
        parameters.sub_(self.moved)
        self.mean.mul_(beta_mean**self.pending).add_(self.gradient_sum, alpha=1.0 - beta_mean)
        self.square.mul_(beta_square**self.pending).add_(self.square_sum, alpha=1.0 - beta_square)

    @torch.no_grad()
    def merge(self, parameters: Tensor) -> None:
        """Apply the local steps to central values, as in `repeat`, and reset the accumulators."""
        self.repeat(parameters)
        for accumulator in (self.gradient_sum, self.square_sum, self.moved):
            accumulator.zero_()
        self.pending = 0
