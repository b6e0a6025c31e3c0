"""The exchange of a single learner, which has nothing to exchange: it clips its gradient and takes an optimizer step.

Exchanges in which each learner has a whole optimizer derive from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite

from torch import Tensor

from actorlearn.optim.groups import GroupedOptimizer, clip, make_groups
from actorlearn.optim.interface import make as make_optimizer
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.parameters.interface import Agreed, Exchange, Joined, Learner, Stepped
from actorlearn.parameters.settings import ExchangeSettings


class Alone(Exchange):
    """The exchange of a single learner; `Exchange` describes the methods."""

    def __init__(self, settings: ExchangeSettings, learner: Learner) -> None:
        size = learner.gradients.numel()
        self.learner, self.weights = learner, learner.weights
        self.parameters, self.statistics = self.weights[:size], self.weights[size:]
        self.groups = make_groups(learner.optimizer, learner.networks, size)
        self.optimizer = GroupedOptimizer(partial(make_optimizer, spread=learner.spread), self.groups, self.parameters)
        self.env_steps = self.updates = self._batch_steps = self._rollout = 0
        self.consumed = learner.consumed

    def state(self) -> dict[str, Tensor]:
        """Return the optimizer's state."""
        return self.optimizer.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the optimizer's state."""
        self.optimizer.restore(state)

    def join(self, env_steps: int, updates: int, position: Position = BEGINNING) -> Joined:
        """Return the step and update counts of this learner's checkpoint, from which it continues."""
        self.env_steps, self.updates = env_steps, updates
        return Joined(env_steps, updates)

    def agree(
        self, env_steps: int, optimizer_steps: int, position: Position = BEGINNING, draining: bool = False
    ) -> Agreed:
        """Add the batch to the counts of environment steps and updates, and return these."""
        if not draining:
            self.env_steps, self.updates, self._batch_steps = self.env_steps + env_steps, self.updates + 1, env_steps
            self.consumed.begin(self.learner.number, position)
            self._rollout = position.rollout
        return Agreed(self.env_steps, self.updates, draining)

    def merge(self, moments: Tensor, combine: Callable[[Tensor, Tensor], None]) -> None:
        """Merge the moments of a batch's observations into the statistics, unless this was done before a restart."""
        if not self.consumed.merged(self.learner.number, self._rollout):
            combine(self.statistics, moments)
            self.consumed.merge(self.learner.number)

    def step(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip the gradient and take an optimizer step; if the gradient is not finite, nothing changes."""
        stepped = self.apply(gradients, learning_rates, usable)
        self.consumed.step([self.learner.number])
        return stepped

    def apply(self, gradients: Tensor, learning_rates: Sequence[float], usable: bool = True) -> Stepped:
        """Clip a gradient and take an optimizer step; the caller records it in `consumed`."""
        norm = float(clip(gradients, self.groups))  # waits for a GPU, once
        taken = usable and isfinite(norm)
        if taken:
            self.optimizer.step(self.parameters, gradients, learning_rates)
        return Stepped(norm, taken)

    def settle(self) -> None:
        """Record that the weights have learned from the whole batch."""
        self.consumed.settle(self.learner.number, self._batch_steps)
