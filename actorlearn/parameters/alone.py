"""The exchange of a sole learner: it clips its gradient and takes an optimizer step.

Reads gradients; writes the flat weights and the optimizer's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from actorlearn.optim.groups import GroupedOptimizer, clip, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.parameters.consumed import BEGINNING, Consumed, Position
from actorlearn.parameters.interface import Agreed, Exchange, Joined, Learner, Stepped
from actorlearn.parameters.settings import ExchangeSettings


class Alone(Exchange):
    """The exchange of a sole learner; base of exchanges in which each learner has a whole optimizer of its own."""

    def __init__(self, settings: ExchangeSettings, learner: Learner) -> None:
        """Make an optimizer for the parameters, which are the first part of the weights; no settings are needed."""
        size = learner.gradients.numel()
        self.learner, self.weights = learner, learner.weights
        self.parameters, self.statistics = self.weights[:size], self.weights[size:]
        self.groups = make_groups(learner.optimizer, learner.networks, size)
        self.optimizer = GroupedOptimizer(partial(make_optimizer, spread=learner.spread), self.groups, self.parameters)
        self.env_steps = self.updates = self._batch_steps = self._rollout = 0
        self.consumed = learner.consumed or Consumed(learner.number + 1)

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state."""
        return self.optimizer.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the optimizer's state by a checkpoint's."""
        self.optimizer.restore(state)

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Continue from this learner's own checkpoint."""
        self.env_steps, self.updates = env_steps, updates
        return Joined(env_steps, updates)

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Add the batch to the totals."""
        if not draining:
            self.env_steps, self.updates, self._batch_steps = self.env_steps + env_steps, self.updates + 1, env_steps
            self.consumed.begin(self.learner.number, position)
            self._rollout = position.rollout
        return Agreed(self.env_steps, self.updates, draining)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Combine the moments with the statistics, unless those of this rollout are in them already."""
        if not self.consumed.merged(self.learner.number, self._rollout):
            combine(self.statistics, moments)
            self.consumed.merge(self.learner.number)

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip the gradient and take a step; a gradient that is not finite changes nothing."""
        stepped = self.apply(gradients, learning_rates, usable)
        self.consumed.step([self.learner.number])
        return stepped

    def apply(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip a gradient, which may be the mean of several learners' gradients, and take a step."""
        norm = clip(gradients, self.groups)
        taken = usable and bool(torch.isfinite(norm))
        if taken:
            self.optimizer.step(self.parameters, gradients, learning_rates)
        return Stepped(float(norm), taken)

    def settle(self) -> None:
        """Count the batch."""
        self.consumed.settle(self.learner.number, self._batch_steps)
