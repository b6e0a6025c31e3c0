"""The target network: an older copy of the network, from which target values are computed."""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.settings import HardCopies, Polyak, TargetPolicy
from actorlearn.worker.passes import FlatNetwork


class Target:
    """A target network, which follows a network's weights by periodic copies or by Polyak averaging."""

    def __init__(self, network: FlatNetwork, policy: TargetPolicy, rollout_steps: int) -> None:
        """Start with the network's weights; a rollout of all learners has ``rollout_steps`` agent steps."""
        self.network, self._original = network.copy(), network
        self._policy, self._rollout_steps = policy, rollout_steps
        self.period = -1
        """Number of periods between hard copies that were over at the last call of `renew`; -1 before the first."""

    @property
    def weights(self) -> Tensor:
        """The flat weights."""
        return self.network.weights

    def renew(self, rollout: int, done: int, count: int) -> None:
        """Copy the network's weights if a period is over; called before each minibatch.

        ``done`` of the ``count`` minibatches of the rollout have been learned from. For the period, each minibatch
        counts as an equal share of the rollout's steps.
        """
        if not isinstance(self._policy, HardCopies):
            return
        period = (rollout * count + done) * self._rollout_steps // (count * self._policy.every_steps)
        if period != self.period:
            self.weights.copy_(self._original.weights)
        self.period = period

    @torch.no_grad()
    def follow(self) -> None:
        """Move the weights towards the network's if Polyak averaging is used; called after each optimizer step."""
        if isinstance(self._policy, Polyak):
            self.weights.lerp_(self._original.weights, self._policy.rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by their names in the module, for a checkpoint; ``period`` is saved by the caller."""
        return self.network.module.state_dict()

    def restore(self, tensors: dict[str, Tensor], period: int) -> None:
        """Restore the weights that ``tensors`` returned, and the period."""
        self.network.module.load_state_dict(tensors)
        self.period = period
