"""The target network: an older copy of the network, from which learning targets are computed.

Reads: the network's flat weights. Writes: its own. Knows no replay and no loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from actorlearn.algorithms.settings import HardCopies, Polyak, TargetPolicy
from actorlearn.worker.passes import Network


class Target:
    """A copy of a network, renewed by a policy: hard copies once a period, or a small move at each optimizer step."""

    def __init__(self, network: Network, policy: TargetPolicy, rollout_steps: int) -> None:
        """Start equal to the network; a rollout has ``rollout_steps`` agent steps of all learners."""
        self.network, self._original = network.copy(), network
        self._policy, self._rollout_steps = policy, rollout_steps
        self.period = -1
        """Periods between hard copies that were over at the last call of ``renew``; -1 before the first."""

    @property
    def weights(self) -> Tensor:
        """The flat weights."""
        return self.network.weights

    def renew(self, rollout: int, done: int, count: int) -> None:
        """Make a hard copy if a period is over; called before each minibatch.

        ``done`` of the rollout's ``count`` minibatches have been learned from: they stand for its steps, evenly.
        """
        if not isinstance(self._policy, HardCopies):
            return
        period = (rollout * count + done) * self._rollout_steps // (count * self._policy.every_steps)
        if period != self.period:
            self.weights.copy_(self._original.weights)
        self.period = period

    @torch.no_grad()
    def follow(self) -> None:
        """Move toward the network, if the policy is Polyak's; called after each optimizer step."""
        if isinstance(self._policy, Polyak):
            self.weights.lerp_(self._original.weights, self._policy.rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by their names in the module, for a checkpoint; ``period`` is saved by the caller."""
        return self.network.module.state_dict()

    def restore(self, tensors: dict[str, Tensor], period: int) -> None:
        """Restore the weights of ``tensors``, last renewed in this period."""
        self.network.module.load_state_dict(tensors)
        self.period = period
