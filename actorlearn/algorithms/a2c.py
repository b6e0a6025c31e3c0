"""Advantage actor-critic on rollouts of T steps: algorithm 1 of PAAC (Clemente et al. 2017).

There are two small differences from the published PAAC code:

* Log-probabilities come from log_softmax. PAAC's code adds 1e-30 inside the logarithm.
* Means are over valid transitions. In PAAC's code all transitions are valid, because its environments reset within a
  step.

As in PAAC's code, `loss_scale` also multiplies the entropy bonus. With `gae_lambda` below 1 the advantages are those of
generalised advantage estimation (Schulman et al. 2016), and the targets of the values are the corresponding returns.
With `return_steps` a rollout is treated as several shorter ones, as in BA3C, whose batches have many sequences of five
steps per game.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.a2c import A2CSettings


class A2C(ActorCritic):
    """Advantage actor-critic: policy gradient with n-step advantages, a value regression and an entropy bonus.

    Acting records only actions: the trainer's forward pass recomputes the log-probabilities and values.
    """

    Settings = A2CSettings
    settings: A2CSettings
    bootstrap_rows = 1

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss and its terms, for outputs [T+1, B, size]."""
        self.check_shapes(outputs, batch)
        settings, valid = self.settings, batch.valid
        value = outputs["value"].squeeze(-1)  # [T+1, B]
        value_tm1, value_t = value[:-1], value[1:].detach()
        policy_tm1 = self.policy({name: output[:-1] for name, output in outputs.items()})

        # R_tm1 = r_t + discount * R_t, backwards from the value of the last row (algorithm 1, lines 12-15).
        counted = outcomes(batch, settings)
        if settings.return_steps:
            counted.restart_t[settings.return_steps - 1 :: settings.return_steps] = True
        return_tm1 = lambda_returns(counted, value_t, settings.gae_lambda)
        error_tm1 = return_tm1 - value_tm1
        advantage_tm1 = error_tm1.detach()

        # Policy gradient and entropy (line 16), value regression (line 17).
        policy_loss = -mean_over(valid, policy_tm1.log_prob(played_actions(batch)) * advantage_tm1)
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, error_tm1.square())

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return total, LazyMetrics(lambda: {**terms, **fit(valid, return_tm1, value_tm1)})
