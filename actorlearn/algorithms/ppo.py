"""Proximal policy optimisation with a clipped ratio (Schulman et al. 2017), as in Stooke & Abbeel's accel_rl.

Reads network outputs and a `Batch` with the columns "log_prob" and "value" of the acting network. Advantages and
returns are computed once for a batch, from the recorded values; the epochs then learn from single transitions, unless
the network is recurrent and needs whole sequences.

Two options are off in accel_rl: normalised advantages (over the valid transitions of a minibatch, as in OpenAI
baselines) and clipped values (as there, the larger of both squared errors). accel_rl clips the ratio at 0.2 times the
factor of its learning rate's schedule; `ratio_clip_final` sets the final clip.

For experience from older weights, the ratio can be taken to another policy than the acting one (`proximal`). Then there
are three policies: mu, which acted, pi_prox, and the new policy pi (Hilton et al. 2021, arXiv 2110.00641, section 3,
L_decoupled). The objective is the mean of

    pi_prox / mu * min(pi / pi_prox * A, clip(pi / pi_prox) * A)

pi_prox is the policy of the weights before the epochs, which needs a forward pass, or is approximated without one by
(A-3PO, arXiv 2512.06547)

    log pi_prox = alpha log mu + (1 - alpha) log pi,    alpha = 1 / d

where d is the number of updates from mu to pi. The version of pi is one more than the newest published version, so d is
the policy lag + 1, as in AReaL's code; with lag 0 the ratio is PPO's. With ``proximal: behaviour`` the result is
bit-identical to PPO. ``advantages: vtrace`` computes targets like IMPALA, with rho and c clipped at 1. The advantage is
then not multiplied by rho, because the objective has this ratio already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.ratios import DIVERGENCE, ratio_metrics
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.ppo import PPOSettings

LARGEST_LOG = 60.0
"""Largest logarithm of a ratio: e^60 and its gradient are finite in float32.

An infinite ratio would make the gradient of the whole minibatch NaN, also where the clip leaves it without effect."""


class PPO(ActorCritic):
    """Several epochs over a batch, with a clipped probability ratio that keeps the policy near the acting one."""

    Settings = PPOSettings
    settings: PPOSettings
    recorded = ("log_prob", "value")

    def __init__(self, settings: PPOSettings) -> None:
        """Store the settings; `prepare` needs the outputs of all rows, or only of the last one."""
        super().__init__(settings)
        self.prepared_rows = settings.horizon + 1 if settings.passes_before else 1

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add columns "advantage", "return" and perhaps "log_prob_before", and drop the last row.

        Outputs are [1, B, size] of that row, or [T+1, B, size] of all rows. A batch without the column "state" of a
        recurrent network becomes [1, T * B].
        """
        outputs = {name: output[-len(batch.first) :] for name, output in outputs.items()}
        settings, columns = self.settings, dict(batch.columns)
        value = outputs["value"].squeeze(-1)  # [T+1, B] or [1, B]
        if settings.passes_before:
            policy_tm1 = self.policy({name: output[:-1] for name, output in outputs.items()})
            columns["log_prob_before"] = policy_tm1.log_prob(played_actions(batch))
        if settings.advantages == "vtrace":
            columns["value"] = value[:-1]
            ratio_tm1 = (columns["log_prob_before"] - columns["log_prob"]).where(batch.valid, 0.0).exp()
            corrected = self.corrected(batch, value, ratio_tm1, rho_clip=1.0, c_clip=1.0)
            columns |= {"return": corrected.target_tm1, "advantage": corrected.error_tm1}
        else:
            value_t = torch.cat([columns["value"][1:], value[-1:]])
            return_tm1 = lambda_returns(outcomes(batch, settings), value_t, settings.gae_lambda)
            columns |= {"return": return_tm1, "advantage": return_tm1 - columns["value"]}
        return batch.parted(columns)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its terms; outputs are [T, B, size] of one forward pass."""
        self.check_shapes(outputs, batch)
        valid, columns = batch.valid, batch.columns
        policy_tm1, value_tm1 = self.policy(outputs), outputs["value"].squeeze(-1)
        log_prob = policy_tm1.log_prob(played_actions(batch))
        proximal = self.proximal(batch, log_prob.detach())
        log_ratio = (log_prob - proximal).where(valid, 0.0)
        log_weight = (proximal - columns["log_prob"]).where(valid, 0.0)
        weight_clip = self.settings.weight_clip
        log_weight = log_weight.clamp(max=LARGEST_LOG if weight_clip is None else math.log(weight_clip))
        ratio = log_ratio.clamp(max=LARGEST_LOG).exp()
        clip = self.scheduled(self.settings.ratio_clip, self.settings.ratio_clip_final, progress)
        advantage = columns["advantage"]
        if self.settings.normalize_advantage:
            advantage = normalize(valid, advantage)

        # Equation 7 of the paper: the lower of both, so that a further move gives no gain.
        near = log_weight.exp() * ratio.clamp(1.0 - clip, 1.0 + clip)
        whole = (log_weight + log_ratio).clamp(max=LARGEST_LOG).exp()
        surrogate = torch.minimum(whole * advantage, near * advantage)
        policy_loss = -mean_over(valid, surrogate)
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, self.value_error(value_tm1, columns))

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        moved = (log_prob.detach() - columns["log_prob"]).where(valid, 0.0)  # log(pi / mu)
        metrics |= ratio_metrics(batch, moved, (ratio - 1.0).abs() > clip)
        metrics[DIVERGENCE] = mean_over(valid, moved.exp() - 1.0 - moved)  # of mu from pi, never negative
        metrics |= fit(valid, columns["return"], value_tm1)
        return total, {name: metric.detach() for name, metric in metrics.items()}

    def proximal(self, batch: Batch, log_prob: Tensor) -> Tensor:
        """Return each action's log-probability under pi_prox, the denominator of the clipped ratio.

        ``log_prob`` is the log-probability under the new policy, without gradient.
        """
        match self.settings.proximal:
            case "behaviour":
                return batch.columns["log_prob"]
            case "recomputed":
                return batch.columns["log_prob_before"]
            case "interpolated":
                acted, lag = batch.columns["log_prob"], batch.policy_lag
                return acted + lag / (lag + 1) * (log_prob - acted)

    def value_error(self, value: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        """Return the squared error of each value; with `value_clip` at least that of the clipped value."""
        error = (columns["return"] - value).square()
        clip = self.settings.value_clip
        if clip is None:
            return error
        near = columns["value"] + (value - columns["value"]).clamp(-clip, clip)
        return torch.maximum(error, (columns["return"] - near).square())


def normalize(valid: Tensor, advantage: Tensor) -> Tensor:
    """Return advantages shifted and scaled to mean 0 and standard deviation 1 over the valid transitions."""
    centered = advantage - mean_over(valid, advantage)
    deviation = mean_over(valid, centered.square()).sqrt()
    return centered / (deviation + 1e-8)  # 1e-8: OpenAI baselines, ppo2
