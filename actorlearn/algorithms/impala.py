"""IMPALA: an actor-critic for experience from older policies, corrected by V-trace (Espeholt et al. 2018).

Acting records the column "log_prob". All values, also those to bootstrap from, come from the trainer's forward pass.

The paper and torchbeast sum the loss over a batch, and their learning rates and clip_norm of 40 assume this. The
setting for it is `reduction: sum`. In torchbeast the weight of the squared error is 0.25 (half of 0.5).
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.ratios import ratio_metrics
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.impala import IMPALASettings
from actorlearn.algorithms.vtrace import corrected


class IMPALA(ActorCritic):
    """Actor-critic with V-trace advantages, regression of the values on V-trace targets, and an entropy bonus."""

    Settings = IMPALASettings
    settings: IMPALASettings
    bootstrap_rows = 1
    recorded = ("log_prob",)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss and its terms, for outputs [T+1, B, size]."""
        self.check_shapes(outputs, batch)
        settings, valid = self.settings, batch.valid
        value = outputs["value"].squeeze(-1)  # [T+1, B]
        value_tm1 = value[:-1]
        policy_tm1 = self.policy({name: output[:-1] for name, output in outputs.items()})

        # Ratio of the action's probability now to that when it was chosen; then targets and advantages (section 4.1).
        log_prob_tm1 = policy_tm1.log_prob(played_actions(batch))
        log_ratio_tm1 = (log_prob_tm1.detach() - batch.columns["log_prob"]).where(valid, 0.0)
        ratio_tm1 = log_ratio_tm1.exp()
        traced = corrected(batch, settings, value.detach(), ratio_tm1, settings.rho_clip, settings.c_clip)

        # The three terms of section 4.2.
        policy_loss = -mean_over(valid, log_prob_tm1 * traced.advantage_tm1)
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, (traced.target_tm1 - value_tm1).square())

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

        def metrics() -> dict[str, Tensor]:
            found = {**terms, "ratio_mean": mean_over(valid, ratio_tm1)}
            found |= ratio_metrics(batch, log_ratio_tm1, ratio_tm1 > settings.rho_clip)
            return found | fit(valid, traced.target_tm1, value_tm1)

        return total, LazyMetrics(metrics)
