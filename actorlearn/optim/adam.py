"""Adam and RAdam, on a flat vector of parameters.

Epsilon is used as in Adam's paper and torch or, with `epsilon_hat`, as in TensorFlow 1 and Lasagne.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

import torch
from torch import Tensor

from actorlearn.optim.interface import Spread, copy_state, whole
from actorlearn.optim.specs import AdamSettings


class Adam:
    """Adam: a step is the running mean of gradients, divided by the root of the running mean of their squares.

    Both means are corrected for their start at 0.
    """

    def __init__(self, settings: AdamSettings, parameters: Tensor, spread: Spread = whole) -> None:
        """Make both running means, of the length and on the device of the flat `parameters`.

        ``spread`` may divide a step among several cores (`interface.make`).
        """
        self.settings = settings
        self.spread = spread
        self.mean = torch.zeros_like(parameters)
        self.square = torch.zeros_like(parameters)
        self.root = torch.empty_like(self.square)  # scratch, so that a step allocates nothing
        self.steps = torch.zeros((), dtype=torch.int64)  # on the CPU: read at every step

    def step(self, parameters: Tensor, gradients: Tensor, learning_rate: float) -> None:
        """Change the parameters in place by one step (Kingma & Ba 2015, the reordering at the end of section 2)."""
        self.advance(gradients, learning_rate, lambda part, rate: self._move(parameters, part, rate))

    @torch.no_grad()
    def _move(self, parameters: Tensor, part: slice, rate: float) -> None:
        parameters[part].addcdiv_(self.mean[part], self.root[part], value=-rate)

    def advance(self, gradients: Tensor, learning_rate: float, move: Callable[[slice, float], object]) -> None:
        """Update the state by the gradients, and call ``move(part, rate)`` for slices that together cover the vector.

        ``move`` then applies the step of the slice ``part``, which is rate * mean[part] / root[part].
        """
        beta_mean, beta_square = self.settings.betas
        self.steps += 1
        steps = int(self.steps)
        root_correction = sqrt(1.0 - beta_square**steps)
        # The corrections are part of the rate; they also scale the paper's epsilon, but not epsilon hat.
        epsilon = self.settings.epsilon * (1.0 if self.settings.epsilon_hat else root_correction)
        rectification = rectify(beta_square, steps) if self.settings.rectified else 1.0
        share = 1.0 if rectification is None else rectification * root_correction
        rate = learning_rate * share / (1.0 - beta_mean**steps)

        @torch.no_grad()
        def work(part: slice) -> None:
            own, square = gradients[part], self.square[part]
            self.mean[part].lerp_(own, 1.0 - beta_mean)
            square.mul_(beta_square).addcmul_(own, own, value=1.0 - beta_square)
            if rectification is None:
                self.root[part] = 1.0
            else:
                torch.sqrt(square, out=self.root[part]).add_(epsilon)
            move(part, rate)

        self.spread(work, len(gradients))

    def state(self) -> dict[str, Tensor]:
        """Return both running means and the number of steps, without a copy."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy the state of a checkpoint into this optimizer."""
        copy_state(state, self.state())


class MultiStepAdam(Adam):
    """Adam for mode async, in which several learners share central parameters and a central optimizer state.

    Each learner takes several local steps between two exchanges. This class adds them up, and later applies their sum
    to the central values, which other learners have changed meanwhile (Stooke & Abbeel 2018, appendix A, with either
    form of epsilon). With a single learner it equals Adam.
    """

    def __init__(self, settings: AdamSettings, parameters: Tensor) -> None:
        super().__init__(settings, parameters)
        self.gradient_sum = torch.zeros_like(parameters)  # the appendix's a_g
        self.square_sum = torch.zeros_like(parameters)  # a_g²
        self.moved = torch.zeros_like(parameters)  # a_s
        self.pending = 0  # n
        """Number of local steps since the last `merge`."""

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
        """Apply the accumulated local steps to the central parameters and optimizer state.

        ``parameters`` and this optimizer's state must be copies of the central values. The accumulated steps are kept,
        so that they can be applied again to newer central values.
        """
        beta_mean, beta_square = self.settings.betas
        parameters.sub_(self.moved)
        self.mean.mul_(beta_mean**self.pending).add_(self.gradient_sum, alpha=1.0 - beta_mean)
        self.square.mul_(beta_square**self.pending).add_(self.square_sum, alpha=1.0 - beta_square)

    @torch.no_grad()
    def merge(self, parameters: Tensor) -> None:
        """Apply the accumulated local steps as `repeat` does, and forget them."""
        self.repeat(parameters)
        for accumulator in (self.gradient_sum, self.square_sum, self.moved):
            accumulator.zero_()
        self.pending = 0


def rectify(beta_square: float, steps: int) -> float | None:
    """Return RAdam's factor on the learning rate of step number ``steps``, counted from 1.

    The running mean of few squared gradients has a large variance, for which the factor corrects (Liu et al. 2020,
    section 4, with the limit of 5 of the authors' code). In the first steps this variance is infinite; then the result
    is None, and the step must not be divided by the root of the running mean.
    """
    longest = 2.0 / (1.0 - beta_square) - 1.0  # rho: length of the average after infinitely many steps
    decayed = beta_square**steps
    length = longest - 2.0 * steps * decayed / (1.0 - decayed)
    if length <= 5.0:
        return None
    share = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
    return sqrt(share)
