"""The target network: an older copy of the network, from which target values are computed.

Reads: the network's flat weights. Writes: its own flat weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.settings import HardCopies, Polyak, TargetPolicy
from actorlearn.worker.passes import FlatNetwork


class Target:
    """A copy of a network, renewed by a policy: hard copies once a period, or a small move at each optimizer step."""

    def __init__(self, network: FlatNetwork, policy: TargetPolicy, rollout_steps: int) -> None:
        """Start with the network's weights; a rollout has ``rollout_steps`` agent steps of all learners."""
        self.network, self._original = network.copy(), network
        self._policy, self._rollout_steps = policy, rollout_steps
        self.period = -1
        """Number of complete periods between hard copies at the last call of ``renew``; -1 before the first call."""

    @property
    def weights(self) -> Tensor:
        """The flat weights."""
        return self.network.weights

    def renew(self, rollout: int, done: int, count: int) -> None:
        """Make a hard copy if a period is over; called before each minibatch.

        ``done`` of the rollout's ``count`` minibatches have been learned from. Each stands for an equal share of the
        rollout's steps.
        """
        if not isinstance(self._policy, HardCopies):
            return
        period = (rollout * count + done) * self._rollout_steps // (count * self._policy.every_steps)
        if period != self.period:
            self.weights.copy_(self._original.weights)
        self.period = period

    @torch.no_grad()
    def follow(self) -> None:
        """Move the weights towards the network's if the policy is Polyak; called after each optimizer step."""
        if isinstance(self._policy, Polyak):
            self.weights.lerp_(self._original.weights, self._policy.rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by their names in the module, for a checkpoint; ``period`` is saved by the caller."""
        return self.network.module.state_dict()

    def restore(self, tensors: dict[str, Tensor], period: int) -> None:
        """Restore the weights that ``tensors`` returned, and the period."""
        self.network.module.load_state_dict(tensors)
        self.period = period
