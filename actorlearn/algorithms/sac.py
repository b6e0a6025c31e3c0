"""Soft actor-critic (Haarnoja et al. 2018b): a stochastic actor, two critics, and a learned entropy temperature.

Each of these networks has its own loss:

    actor              observation -> mean and log standard deviation of a normal u; an action is tanh(u), in [-1, 1]
    critic_1, critic_2 observation, action -> soft Q value: expected discounted sum of rewards and entropies
    temperature        log(alpha), the weight of the entropy relative to the reward

Targets and the actor's loss use the smaller of the values of both critics, which reduces overestimation (Fujimoto et
al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import softplus

from actorlearn.actions import Actions, describe_actions
from actorlearn.algorithms.interface import Batch, Networks
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.q_learning import LEAST_PRIORITY
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.sac import SACSettings
from actorlearn.extra_networks import ExtraNetwork

CRITICS = ("critic_1", "critic_2")
LOG_DEVIATIONS = (-20.0, 2.0)
"""Bounds of the log standard deviation, as in the authors' code."""


class SAC:
    """Soft actor-critic: a policy that maximises reward and entropy, and two critics that evaluate its actions."""

    Settings = SACSettings
    prepared_rows = 0

    def __init__(self, settings: SACSettings) -> None:
        self.settings = settings
        self.target_entropy = settings.target_entropy or 0.0
        """Entropy, in nats, towards which the temperature steers the policy; `heads` sets it if the settings do not."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return the output "policy", a mean and a log standard deviation for each of the n numbers of an action.

        Raises ValueError if the action space is not a Box.
        """
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
        """Return two critics, which read observation and action, and the temperature, which reads nothing."""
        assert isinstance(actions, tuple)
        critics = {name: ExtraNetwork({"value": 1}, action=actions[0]) for name in CRITICS}
        return {**critics, "temperature": ExtraNetwork({"log": 1}, observation=False)}

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return {}: a transition from a replay needs only its action, because its values are computed again."""
        return {}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Draw actions [N, n] in [-1, 1]; if ``greedy``, return tanh of the means."""
        policy = TanhGaussian(outputs["policy"])
        return {"action": policy.mean.tanh() if greedy else policy.sample(generator)[0]}

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch unchanged: `losses` computes the targets."""
        return batch

    def losses(
        self, networks: Networks, batch: Batch, generator: torch.Generator, progress: float
    ) -> tuple[dict[str, Tensor], LazyMetrics]:
        """Return the loss of each network (equations 5, 9 and 18 of the paper), and metrics with priorities [1, B]."""
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
        error, value = torch.stack(distance).detach().abs().mean(0), torch.stack(values).detach().mean(0)
        policy_loss = losses["actor"].detach()  # metrics that are read later must not keep the graph alive
        metrics = LazyMetrics(
            lambda: {
                "q_mean": mean_over(valid, value),
                "target_mean": mean_over(valid, target),
                "error_mean": mean_over(valid, error),
                "policy_loss": policy_loss,
                "entropy": -mean_over(valid, log_drawn),
                "temperature": alpha.squeeze(),
                "priority": error.clamp(min=LEAST_PRIORITY).where(valid, 0.0)[None],
            }
        )
        scale = self.settings.loss_scale * (valid.sum() if self.settings.reduction == "sum" else 1.0)
        scaled = {name: scale * loss for name, loss in losses.items()}
        return scaled, metrics

    @torch.no_grad()
    def _target(self, networks: Networks, batch: Batch, alpha: Tensor, generator: torch.Generator) -> Tensor:
        """Return the critics' targets [B]: r + discount * (min(target Q1, target Q2) - alpha log pi).

        The action is drawn from the present policy for the next observation. Where discount is 0 the target is r.
        """
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
    """Distribution of actions tanh(u), where u […, n] has independent normal elements (appendix C of the paper)."""

    def __init__(self, output: Tensor) -> None:
        """Use the network output […, 2n]: the n means of u, followed by its n log standard deviations."""
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
