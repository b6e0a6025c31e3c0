"""Proximal policy optimisation with a clipped ratio (Schulman et al. 2017), as in Stooke & Abbeel's accel_rl.

Acting records the columns "log_prob" and "value". Advantages and returns are computed once for a batch, from the
recorded values. The epochs then learn from minibatches of single transitions. With a recurrent network they learn from
whole sequences.

Two options are off in accel_rl and work as in OpenAI baselines: advantages normalised over the valid transitions of a
minibatch, and clipped values, for which the loss is the larger of both squared errors. In accel_rl the clip of the
ratio falls with the learning rate; here `ratio_clip_final` sets the final clip.

For experience from older weights, the clipped ratio can refer to another policy than the one that acted (the key
`proximal`). There are then three policies: mu, which acted, the proximal policy pi_prox, and the new policy pi (Hilton
et al. 2021, arXiv 2110.00641, section 3, L_decoupled). The objective is the mean of

    pi_prox / mu * min(pi / pi_prox * A, clip(pi / pi_prox) * A)

The key `proximal` selects pi_prox:

    behaviour      mu: the objective is PPO's, and the result is bit-identical to PPO
    recomputed     the policy of the weights before the epochs, which takes another forward pass
    interpolated   log pi_prox = alpha log mu + (1 - alpha) log pi, without another pass (A-3PO, arXiv 2512.06547)

alpha is 1 / d, where d is the number of updates from mu to pi. pi is one update newer than the newest published
weights, so d is the policy lag + 1, as in AReaL's code. With lag 0, pi_prox is mu.

``advantages: vtrace`` computes targets like IMPALA, with rho and c clipped at 1. The advantage is then not multiplied
by rho, because the objective already has this ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.ratios import DIVERGENCE, ratio_metrics
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.ppo import PPOSettings
from actorlearn.algorithms.vtrace import corrected

LARGEST_LOG = 60.0
"""Limit of the logarithm of a ratio: e^60 and its gradient are finite in float32.

A single infinite ratio would make the gradient of the whole minibatch NaN, even if that ratio is clipped."""


class PPO(ActorCritic):
    """PPO: several epochs over a rollout; clipping the probability ratio keeps the policy near the acting policy."""

    Settings = PPOSettings
    settings: PPOSettings
    recorded = ("log_prob", "value")

    def __init__(self, settings: PPOSettings) -> None:
        super().__init__(settings)
        self.prepared_rows = settings.horizon + 1 if settings.passes_before else 1

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the columns "advantage", "return" and, if `passes_before`, "log_prob_before"; drop the last observation.

        ``outputs`` are [T+1, B, size] if `passes_before`; otherwise [1, B, size], for the last observation only. The
        result is [1, T * B], or [T, B] with a recurrent network (`Batch.parted`).
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
            traced = corrected(batch, settings, value, ratio_tm1, rho_clip=1.0, c_clip=1.0)
            columns |= {"return": traced.target_tm1, "advantage": traced.error_tm1}
        else:
            value_t = torch.cat([columns["value"][1:], value[-1:]])
            return_tm1 = lambda_returns(outcomes(batch, settings), value_t, settings.gae_lambda)
            columns |= {"return": return_tm1, "advantage": return_tm1 - columns["value"]}
        return batch.parted(columns)

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss and its terms, for outputs [T, B, size]."""
        self.check_shapes(outputs, batch)
        valid, columns = batch.valid, batch.columns
        policy_tm1, value_tm1 = self.policy(outputs), outputs["value"].squeeze(-1)
        log_prob = policy_tm1.log_prob(played_actions(batch))
        proximal = self.proximal(batch, log_prob.detach())
        log_ratio = (log_prob - proximal).where(valid, 0.0)
        ratio = log_ratio.clamp(max=LARGEST_LOG).exp()
        clip = self.scheduled(self.settings.ratio_clip, self.settings.ratio_clip_final, progress)
        clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
        log_weight = (proximal - columns["log_prob"]).where(valid, 0.0)
        weight_clip = self.settings.weight_clip
        if self.settings.proximal == "behaviour" and weight_clip is None:
            unclipped = ratio + log_weight  # log_weight: 0, or NaN for a recorded probability of 0: the step is skipped
        else:
            log_weight = log_weight.clamp(max=LARGEST_LOG if weight_clip is None else math.log(weight_clip))
            unclipped = (log_weight + log_ratio).clamp(max=LARGEST_LOG).exp()
            clipped = log_weight.exp() * clipped
        advantage = columns["advantage"]
        if self.settings.normalize_advantage:
            advantage = normalize(valid, advantage)

        # Equation 7 of the paper: the smaller product, so that moving the ratio beyond the clip gains nothing.
        surrogate = torch.minimum(unclipped * advantage, clipped * advantage)
        policy_loss = -mean_over(valid, surrogate)
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, self.value_error(value_tm1, columns))

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}

        def metrics() -> dict[str, Tensor]:
            moved = (log_prob - columns["log_prob"]).where(valid, 0.0)  # log(pi / mu)
            found = {**terms, **ratio_metrics(batch, moved, (ratio - 1.0).abs() > clip)}
            found[DIVERGENCE] = mean_over(valid, moved.exp() - 1.0 - moved)  # estimate of KL(mu, pi), never negative
            return found | fit(valid, columns["return"], value_tm1)

        return total, LazyMetrics(metrics)

    def proximal(self, batch: Batch, log_prob: Tensor) -> Tensor:
        """Return each action's log-probability [T, B] under pi_prox, the denominator of the clipped ratio.

        ``log_prob`` [T, B] is that under the new policy, without gradient.
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
        """Return the squared error of each value, [T, B].

        With `value_clip` it is the larger of the errors of the value and of the clipped value, which is at most
        `value_clip` away from the recorded value.
        """
        error = (columns["return"] - value).square()
        clip = self.settings.value_clip
        if clip is None:
            return error
        clipped = columns["value"] + (value - columns["value"]).clamp(-clip, clip)
        return torch.maximum(error, (columns["return"] - clipped).square())


def normalize(valid: Tensor, advantage: Tensor) -> Tensor:
    """Return advantages shifted and scaled to mean 0 and standard deviation 1 over the valid transitions."""
    centered = advantage - mean_over(valid, advantage)
    deviation = mean_over(valid, centered.square()).sqrt()
    return centered / (deviation + 1e-8)  # 1e-8: OpenAI baselines, ppo2
