"""VACO: PPO's epochs with V-trace advantages and a filter by total variation (Honari et al. 2026, arXiv 2603.01365).

The learner's policy differs from the acting policy for two reasons, which VACO treats separately:

* The acting weights were older. V-trace corrects for this once, before the first epoch, with the learner's policy and
  values at that time ("align" in the paper).
* The epochs change the policy. This change is limited: while the mean of |ratio - 1| in a minibatch is above
  `variation_limit`, the loss leaves out transitions whose gradient would move their ratio further from 1 ("filter").

No ratio is clipped. Acting records the column "log_prob".

Sources: the paper's abstract and introduction, its reviews at ICLR 2026, and a co-author's filter in open-instruct
(pull request 1681: mean |rho - 1|, sign of advantage times log ratio, V-trace's truncated rho as a factor). The text of
sections 4 and 5 of the paper was not available. The limit of 0.2, and V-trace only before the first epoch, are from the
reviews.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.ppo import LARGEST_LOG, normalize
from actorlearn.algorithms.ratios import ratio_metrics
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.vaco import VACOSettings
from actorlearn.algorithms.vtrace import corrected


class VACO(ActorCritic):
    """PPO without clipping: it leaves out transitions instead, to keep the policy near the acting policy."""

    Settings = VACOSettings
    settings: VACOSettings
    recorded = ("log_prob",)

    def __init__(self, settings: VACOSettings) -> None:
        super().__init__(settings)
        self.prepared_rows = settings.horizon + 1

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the columns "advantage", "return" and "log_prob_before", and drop the last observation.

        The advantages are multiplied by V-trace's rho. "log_prob_before" is the action's log-probability before the
        first epoch. ``outputs`` are [T+1, B, size]. The result is [1, T * B], or [T, B] with a recurrent network
        (`Batch.parted`).
        """
        outputs = {name: output[-len(batch.first) :] for name, output in outputs.items()}
        settings, value = self.settings, outputs["value"].squeeze(-1)  # [T+1, B]
        before = self.policy({name: output[:-1] for name, output in outputs.items()}).log_prob(played_actions(batch))
        ratio_tm1 = (before - batch.columns["log_prob"]).where(batch.valid, 0.0).exp()
        traced = corrected(batch, settings, value, ratio_tm1, settings.rho_clip, settings.c_clip)
        columns = {
            **batch.columns,
            "log_prob_before": before,
            "return": traced.target_tm1,
            "advantage": traced.advantage_tm1,
        }
        return batch.parted(columns)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss and its terms, for outputs [T, B, size]."""
        self.check_shapes(outputs, batch)
        valid, columns = batch.valid, batch.columns
        policy_tm1, value_tm1 = self.policy(outputs), outputs["value"].squeeze(-1)
        log_prob_tm1 = policy_tm1.log_prob(played_actions(batch))
        advantage = columns["advantage"]
        if self.settings.normalize_advantage:
            advantage = normalize(valid, advantage)

        # Filter: above the limit, keep only transitions that move their ratio to the acting policy towards 1.
        log_ratio = (log_prob_tm1.detach() - columns["log_prob"]).where(valid, 0.0)
        ratio_minus_1 = log_ratio.expm1()
        variation = mean_over(valid, ratio_minus_1.abs())
        kept = (advantage * ratio_minus_1 <= 0) | (variation <= self.settings.variation_limit)

        # The ratio to the policy before the epochs: where it is 1, the gradient is that of V-trace. The ratio is kept
        # finite, because infinity times an advantage of 0 is NaN.
        moved = (log_prob_tm1 - columns["log_prob_before"]).where(valid, 0.0)
        ratio = moved.clamp(max=LARGEST_LOG).exp()
        policy_loss = -mean_over(valid, (ratio * advantage).where(kept, 0.0))
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, (columns["return"] - value_tm1).square())

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

        def metrics() -> dict[str, Tensor]:
            found = {**terms, "total_variation": variation / 2}
            found |= ratio_metrics(batch, log_ratio, ~kept)
            return found | fit(valid, columns["return"], value_tm1)

        return total, LazyMetrics(metrics)
