"""Proximal policy optimisation with a clipped ratio (Schulman et al. 2017), as in Stooke & Abbeel's accel_rl.

Reads network outputs and a `Batch` with the columns "log_prob" and "value" of the network that acted; knows no network,
optimizer or process. Advantages and returns are worked out once for a batch, from the values as they were when acting;
the epochs then see transitions by themselves, unless the network is recurrent and needs whole sequences.

Left open by keys, and off in accel_rl: normalised advantages (over the valid transitions of a minibatch, as OpenAI
baselines do) and clipped values (as there, the larger of both squared errors). accel_rl clips at 0.2, multiplied by
the same factor as its learning rate: `ratio_clip_final` says where that leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from actorlearn.algorithms.actor_critic import ActorCritic, fit, interpolate
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.ppo import PPOSettings


class PPO(ActorCritic):
    """Several epochs over a batch, held near the policy that acted by a clipped ratio of probabilities."""

    Settings = PPOSettings
    settings: PPOSettings
    recorded = ("log_prob", "value")
    prepared_rows = 1

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add columns "advantage" and "return", and drop the last row; outputs are [1, B, size] of that row.

        A batch without the column "state" of a recurrent network becomes [1, T * B].
        """
        value_tm1 = batch.columns["value"]  # [T, B]
        value_t = torch.cat([value_tm1[1:], outputs["value"].squeeze(-1)])
        return_tm1 = lambda_returns(outcomes(batch, self.settings), value_t, self.settings.gae_lambda)
        columns = {**batch.columns, "return": return_tm1, "advantage": return_tm1 - value_tm1}
        prepared = replace(batch, observation=batch.observation[:-1], first=batch.first[:-1], columns=columns)
        return prepared if "state" in columns else prepared.transitions()

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar to descend, and its terms; outputs are [T, B, size] of one forward pass."""
        self.check_shapes(outputs, batch, bootstrap_rows=0)
        valid, columns = batch.valid, batch.columns
        policy_tm1, value_tm1 = self.policy(outputs), outputs["value"].squeeze(-1)
        log_ratio = (policy_tm1.log_prob(played_actions(batch)) - columns["log_prob"]).where(valid, 0.0)
        ratio = log_ratio.exp()
        clip = interpolate(self.settings.ratio_clip, self.settings.ratio_clip_final, progress)
        advantage = columns["advantage"]
        if self.settings.normalize_advantage:
            advantage = normalize(valid, advantage)

        # Equation 7 of the paper: the lower of both, so that no gain is left in moving further.
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
        policy_loss = -mean_over(valid, surrogate)
        entropy = mean_over(valid, policy_tm1.entropy())
        value_loss = mean_over(valid, self.value_error(value_tm1, columns))

        total = self.total(valid, policy_loss, value_loss, entropy, progress)
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        metrics["clipped_share"] = mean_over(valid, ((ratio - 1.0).abs() > clip).float())
        metrics["divergence"] = mean_over(valid, ratio - 1.0 - log_ratio)  # of mu from pi, never negative
        metrics |= fit(valid, columns["return"], value_tm1)
        return total, {name: metric.detach() for name, metric in metrics.items()}

    def value_error(self, value: Tensor, columns: Mapping[str, Tensor]) -> Tensor:
        """Return the squared error of each value; with `value_clip` at least that of the value moved no further."""
        error = (columns["return"] - value).square()
        clip = self.settings.value_clip
        if clip is None:
            return error
        near = columns["value"] + (value - columns["value"]).clamp(-clip, clip)
        return torch.maximum(error, (columns["return"] - near).square())


def normalize(valid: Tensor, advantage: Tensor) -> Tensor:
    """Return advantages moved and scaled to mean 0 and standard deviation 1 over the valid ones."""
    centered = advantage - mean_over(valid, advantage)
    deviation = mean_over(valid, centered.square()).sqrt()
    return centered / (deviation + 1e-8)  # 1e-8: OpenAI baselines, ppo2
