"""The common part of A2C, PPO, IMPALA and VACO: a policy and a state value, acting, and a loss of three terms.

Reads network outputs "value" and those of `policies.heads`, and a `Batch`; knows no network, optimizer or process.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.actions import Actions, MultiDiscrete
from actorlearn.algorithms import policies
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.specs.actor_critic import ActorCriticSettings


class ActorCritic:
    """Base of the policy-gradient algorithms; each adds its `loss`."""

    prepared_rows = 0
    bootstrap_rows = 0
    """Rows more than transitions that `loss` needs outputs of, without a gradient: to bootstrap from."""
    recorded: tuple[str, ...] = ()
    """Numbers kept from the network that acted: "log_prob" of the action, "value" of the observation."""

    def __init__(self, settings: ActorCriticSettings) -> None:
        """Keep the settings."""
        self.settings = settings
        self.parts: tuple[int, ...] = ()
        """Numbers of choices of a MultiDiscrete action, once its heads have been asked for."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Ask for what makes a policy, and for a state value."""
        self.parts = actions.sizes if isinstance(actions, MultiDiscrete) else ()
        return {**policies.heads(actions), "value": 1}

    def acting_heads(self, actions: Actions) -> tuple[str, ...]:
        """Name the outputs that `act` reads: a value only where it is recorded."""
        return (*policies.heads(actions), *(["value"] if "value" in self.recorded else []))

    def policy(self, outputs: Mapping[str, Tensor]) -> policies.ActionDistribution:
        """Return the policy that these outputs describe."""
        return policies.policy(outputs, self.parts)

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Ask for one number for each thing that is recorded."""
        return {name: ("float32", ()) for name in self.recorded}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Sample actions [N, …] from the policy, or take the most probable."""
        policy = self.policy(outputs)
        chosen = {"action": policy.greedy() if greedy else policy.sample(generator)}
        if "log_prob" in self.recorded:
            chosen["log_prob"] = policy.log_prob(chosen["action"])
        if "value" in self.recorded:
            chosen["value"] = outputs["value"].squeeze(-1)
        return chosen

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch as it is."""
        return batch

    def total(self, valid: Tensor, policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, progress: float) -> Tensor:
        """Return the scalar to descend, from three means over the valid transitions."""
        settings = self.settings
        entropy_cost = interpolate(settings.entropy_cost, settings.entropy_cost_final, progress)
        total = policy_loss + settings.value_cost * value_loss - entropy_cost * entropy
        if settings.reduction == "sum":
            total = total * valid.sum()
        return settings.loss_scale * total

    def check_shapes(self, outputs: Mapping[str, Tensor], batch: Batch) -> None:
        """Refuse outputs that have not `bootstrap_rows` more rows than the batch has transitions."""
        horizon, environments = batch.valid.shape
        expected = (horizon + self.bootstrap_rows, environments)
        for name, output in outputs.items():
            if tuple(output.shape[:-1]) != expected:
                raise ValueError(
                    f"{self.settings.name}: outputs[{name!r}] begins with {tuple(output.shape[:-1])}, but a batch of "
                    f"{horizon} transitions of {environments} environments needs {expected}: run the network on all "
                    "rows of its observation and keep [rows, B, size]"
                )


def interpolate(first: float, final: float | None, progress: float) -> float:
    """Return the point of this moment on the straight way from the first to the final; None = the first all along."""
    return first if final is None else first + progress * (final - first)


@torch.no_grad()
def fit(valid: Tensor, return_tm1: Tensor, value_tm1: Tensor) -> dict[str, Tensor]:
    """Return mean value and return, and the share of the returns' variance the value explains (0 if there is none)."""
    value_mean, return_mean = mean_over(valid, value_tm1), mean_over(valid, return_tm1)
    error_tm1 = return_tm1 - value_tm1
    unexplained = mean_over(valid, (error_tm1 - (return_mean - value_mean)).square())
    variance = mean_over(valid, (return_tm1 - return_mean).square())
    explained = torch.where(variance > 0.0, 1.0 - unexplained / variance, torch.zeros_like(variance))
    return {"value_mean": value_mean, "return_mean": return_mean, "explained_variance": explained}
