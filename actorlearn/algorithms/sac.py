"""Soft actor-critic (Haarnoja et al. 2018b): a stochastic actor, two critics, and a learned entropy temperature.

Reads a replayed `Batch` and calls networks. Each of these networks has its own loss:

    actor              observation -> mean and log standard deviation of a normal u; an action is tanh(u), in [-1, 1]
    critic_1, critic_2 observation, action -> soft Q value: expected discounted sum of rewards and entropies
    temperature        log(alpha), the weight of the entropy relative to the reward

Targets and the actor's loss use the smaller of both critics' values, which reduces overestimation (Fujimoto et al.
2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import softplus

from actorlearn.actions import Actions, describe_actions
from actorlearn.algorithms.interface import Batch, Networks
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.q_learning import LEAST_PRIORITY
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.sac import SACSettings
from actorlearn.extra_networks import ExtraNetwork

CRITICS = ("critic_1", "critic_2")
LOG_DEVIATIONS = (-20.0, 2.0)
"""Bounds of the log standard deviation, as in the authors' code."""


class SAC:
    """A policy that maximises reward and entropy, and the critics that improve it."""

    Settings = SACSettings
    prepared_rows = 0

    def __init__(self, settings: SACSettings) -> None:
        """Store the settings; `heads` derives a target entropy from the actions if the settings have none."""
        self.settings = settings
        self.target_entropy = settings.target_entropy or 0.0

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return a mean and a log standard deviation for each component of an action; raises ValueError unless Box."""
        if not isinstance(actions, tuple):
            others = "dqn, a2c, ppo or impala" if isinstance(actions, int) else "a2c, ppo or impala"
            raise ValueError(
                f"algorithm.name: {self.settings.name!r} supports only Box actions, but this environment's actions are "
                f"{describe_actions(actions)}; use {others}"
            )
        (numbers,) = actions
        if self.settings.target_entropy is None:
            self.target_entropy = -float(numbers)
        return {"policy": 2 * numbers}

    def extra_networks(self, actions: Actions) -> dict[str, ExtraNetwork]:
        """Return two critics of observation and action, and the temperature."""
        assert isinstance(actions, tuple)
        critics = {name: ExtraNetwork({"value": 1}, action=actions[0]) for name in CRITICS}
        return {**critics, "temperature": ExtraNetwork({"log": 1}, observation=False)}

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return none: replayed transitions need only their actions."""
        return {}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Draw an action [N, n] in [-1, 1], or choose tanh of the mean."""
        policy = TanhGaussian(outputs["policy"])
        return {"action": policy.mean.tanh() if greedy else policy.sample(generator)[0]}

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch unchanged: `losses` computes the targets."""
        return batch

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the loss of each network (equations 5, 9 and 18 of the paper) and metrics."""
        observation, valid = batch.observation[0], batch.valid[0]
        log_alpha = networks["temperature"]()["log"]
        alpha = log_alpha.detach().exp()
        target = self._target(networks, batch, alpha, generator)
        values = [self._value(networks[name], observation, played_actions(batch)[0]) for name in CRITICS]
        action, log_prob = TanhGaussian(networks["actor"](observation)["policy"]).sample(generator)
        lower = torch.minimum(*(self._value(networks[name], observation, action) for name in CRITICS))
        distance = [(target - value).where(valid, 0.0) for value in values]  # [B] of each critic
        weight, log_drawn = batch.columns["weight"][0], log_prob.detach()
        losses = {
            "actor": mean_over(valid, alpha * log_prob - lower),
            "temperature": -(log_alpha * mean_over(valid, log_drawn + self.target_entropy)).sum(),
            **{name: mean_over(valid, weight * 0.5 * d.square()) for name, d in zip(CRITICS, distance, strict=True)},
        }
        error = torch.stack(distance).abs().mean(0)
        metrics = {
            "q_mean": mean_over(valid, torch.stack(values).mean(0)),
            "target_mean": mean_over(valid, target),
            "error_mean": mean_over(valid, error),
            "policy_loss": losses["actor"],
            "entropy": -mean_over(valid, log_drawn),
            "temperature": alpha.squeeze(),
            "priority": error.clamp(min=LEAST_PRIORITY).where(valid, 0.0)[None],
        }
        scale = self.settings.loss_scale * (valid.sum() if self.settings.reduction == "sum" else 1.0)
        scaled = {name: scale * loss for name, loss in losses.items()}
        return scaled, {name: metric.detach() for name, metric in metrics.items()}

    @torch.no_grad()
    def _target(self, networks: Networks, batch: Batch, alpha: Tensor, generator: torch.Generator) -> Tensor:
        """Return r + discount (smaller target Q - alpha log pi) [B] for a newly drawn action; r at discount 0."""
        following, discount = batch.observation[1], batch.columns["discount"][0]
        action, log_prob = TanhGaussian(networks["actor"](following)["policy"]).sample(generator)
        lower = torch.minimum(*(self._value(networks[f"target.{name}"], following, action) for name in CRITICS))
        soft = lower - alpha * log_prob
        return (batch.reward[0] + (discount * soft).where(discount != 0.0, 0.0)).where(batch.valid[0], 0.0)

    @staticmethod
    def _value(critic: Callable[..., Mapping[str, Tensor]], observation: Tensor, action: Tensor) -> Tensor:
        """Return a critic's values [B] of actions [B, n]."""
        return critic(observation, action)["value"].squeeze(-1)


class TanhGaussian:
    """Distribution of tanh(u) for independent normal u […, n] (appendix C of the paper)."""

    def __init__(self, output: Tensor) -> None:
        """Use the means of u followed by its log standard deviations: […, 2n]."""
        self.mean, log_deviation = output.chunk(2, -1)
        self.log_deviation = log_deviation.clamp(*LOG_DEVIATIONS)

    def sample(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return an action […, n] and the logarithm of its density […], both differentiable (reparameterised)."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        u = self.mean + self.log_deviation.exp() * noise
        log_normal = -(0.5 * noise.square() + self.log_deviation + 0.5 * log(2.0 * pi))
        return u.tanh(), (log_normal - log_slope(u)).sum(-1)


def log_slope(u: Tensor) -> Tensor:
    """Return log(1 - tanh(u)^2), the log derivative of tanh; accurate also where tanh(u) rounds to 1."""
    return 2.0 * (log(2.0) - u - softplus(-2.0 * u))
