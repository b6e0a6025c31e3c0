"""Advantage-weighted regression (Peng et al. 2019) on the newest batch: imitate actions that turned out well."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn_corridor.specs import AWRSettings


class AWR(ActorCritic):
    """Regression of the policy on its own actions, each weighted by exp(advantage / temperature).

    The policy, the value and `act` are inherited. The loss differs from that of A2C in one line.
    """

    Settings = AWRSettings
    settings: AWRSettings
    bootstrap_rows = 1

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar to descend, and its terms; outputs are [T+1, B, size] of one forward pass."""
        self.check_shapes(outputs, batch)
        settings, valid = self.settings, batch.valid
        value = outputs["value"].squeeze(-1)  # [T+1, B]
        return_tm1 = lambda_returns(outcomes(batch, settings), value[1:].detach(), settings.gae_lambda)
        error_tm1 = return_tm1 - value[:-1]
        policy_tm1 = self.policy({name: output[:-1] for name, output in outputs.items()})

        # Equation 4 of the paper, with their clip of the weights (section 5).
        weight_tm1 = (error_tm1.detach() / settings.temperature).exp().clamp(max=settings.weight_clip)
        policy_loss = -mean_over(valid, weight_tm1 * policy_tm1.log_prob(played_actions(batch)))
        value_loss = mean_over(valid, error_tm1.square())
        entropy = mean_over(valid, policy_tm1.entropy())

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        metrics["weight_mean"] = mean_over(valid, weight_tm1)
        return total, {name: metric.detach() for name, metric in metrics.items()}
