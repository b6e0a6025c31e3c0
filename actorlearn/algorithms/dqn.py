"""Deep Q-networks (Mnih et al. 2015), with optional double Q-learning, dueling heads and n-step returns.

The loss is the mean Huber loss over the minibatch, as in accel_rl and fast-DQN. The Lua code of the paper clips the
same errors and takes their sum; the setting for this is `reduction: sum`.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import huber_loss

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.q_learning import LEAST_PRIORITY, QLearning
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.dqn import DQNSettings


class DQN(QLearning):
    """Deep Q-network: learns the expected return of each action from a replay buffer."""

    Settings = DQNSettings
    settings: DQNSettings

    def __init__(self, settings: DQNSettings) -> None:
        super().__init__(settings, numbers=1)

    def targets(self, batch: Batch, following: Tensor) -> Tensor:
        """Return r + discount * Q(s', best action), [1, B]; with discount 0 this is r, even if Q is NaN."""
        discount = batch.columns["discount"]
        return batch.reward + (discount * following.squeeze(-1)).where(discount != 0.0, 0.0)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss, its terms and the priorities [1, B], for outputs [1, B, size]."""
        delta, target = self.settings.huber_delta, batch.columns["target"]
        q = self.numbers_of_played(outputs, batch).squeeze(-1)  # [1, B]
        error = huber_loss(q, target.where(batch.valid, 0.0), reduction="none", delta=delta)
        distance = (target - q).abs()
        metrics = LazyMetrics(
            lambda: {
                "q_mean": mean_over(batch.valid, q),
                "target_mean": mean_over(batch.valid, target),
                "error_mean": mean_over(batch.valid, distance),
                # At most delta, as in accel_rl.
                "priority": distance.clamp(LEAST_PRIORITY, delta).where(batch.valid, 0.0),
            }
        )
        return self.total(batch, error), metrics
