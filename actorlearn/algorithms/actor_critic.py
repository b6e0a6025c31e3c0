"""Base class of A2C, PPO, IMPALA and VACO: acting by a policy, and a loss of policy, value and entropy terms.

The network has the output "value", a state's value, and the outputs of `policies.heads`.
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
from actorlearn.curves import curve


class ActorCritic:
    """Base of the policy-gradient algorithms; each one adds a `loss` (``algorithms/interface.py``)."""

    prepared_rows = 0
    bootstrap_rows = 0
    """1 if `loss` gets the outputs of all T + 1 observations and bootstraps from the last; 0 if of the first T only."""
    recorded: tuple[str, ...] = ()
    """Columns that `act` returns besides the action: "log_prob" of the action, "value" of the observation."""

    def __init__(self, settings: ActorCriticSettings) -> None:
        self.settings = settings
        self.parts: tuple[int, ...] = ()
        """Number of choices of each part of a MultiDiscrete action; () for other actions. `heads` sets it."""

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return the outputs of the policy, and "value"."""
        self.parts = actions.sizes if isinstance(actions, MultiDiscrete) else ()
        return {**policies.heads(actions), "value": 1}

    def acting_heads(self, actions: Actions) -> tuple[str, ...]:
        """Return the names of the outputs that `act` reads: "value" only if it is recorded."""
        return (*policies.heads(actions), *(["value"] if "value" in self.recorded else []))

    def policy(self, outputs: Mapping[str, Tensor]) -> policies.ActionDistribution:
        """Return the distribution of actions that these outputs describe."""
        return policies.policy(outputs, self.parts)

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return dtype and shape of the columns in `recorded`: one float32 number per environment."""
        return {name: ("float32", ()) for name in self.recorded}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Draw actions [N, …] from the policy or, if ``greedy``, choose the most probable ones.

        The result also has the columns named in `recorded`: log-probabilities of the actions, and values.
        """
        policy = self.policy(outputs)
        chosen = {"action": policy.greedy() if greedy else policy.sample(generator)}
        if "log_prob" in self.recorded:
            chosen["log_prob"] = policy.log_prob(chosen["action"])
        if "value" in self.recorded:
            chosen["value"] = outputs["value"].squeeze(-1)
        return chosen

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch unchanged."""
        return batch

    def total(self, valid: Tensor, policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, progress: float) -> Tensor:
        """Return the whole loss; ``policy_loss``, ``value_loss`` and ``entropy`` are means over valid transitions.

        With `reduction: sum` it is multiplied by the number of valid transitions.
        """
        settings = self.settings
        entropy_cost = self.scheduled(settings.entropy_cost, settings.entropy_cost_final, progress)
        total = policy_loss + settings.value_cost * value_loss - entropy_cost * entropy
        if settings.reduction == "sum":
            total = total * valid.sum()
        return settings.loss_scale * total

    def scheduled(self, first: float, final: float | None, progress: float) -> float:
        """Return the value at ``progress`` (0 to 1) of a schedule from ``first`` to ``final``; None: it is constant."""
        return first if final is None else first + curve(self.settings.schedule, progress) * (final - first)

    def check_shapes(self, outputs: Mapping[str, Tensor], batch: Batch) -> None:
        """Raise ValueError unless outputs are [T + `bootstrap_rows`, B, size] for a batch of [T, B] transitions."""
        horizon, environments = batch.valid.shape
        expected = (horizon + self.bootstrap_rows, environments)
        for name, output in outputs.items():
            if tuple(output.shape[:-1]) != expected:
                raise ValueError(
                    f"{self.settings.name}: outputs[{name!r}] has the shape {tuple(output.shape)}, but its first two "
                    f"sizes must be {expected} for a batch of {horizon} steps of {environments} environments: pass the "
                    "whole batch.observation to the network"
                )


@torch.no_grad()
def fit(valid: Tensor, return_tm1: Tensor, value_tm1: Tensor) -> dict[str, Tensor]:
    """Return metrics of the values [T, B] as predictions of the returns [T, B]: both means, and "explained_variance".

    "explained_variance" is 1 - var(return - value) / var(return), or 0 if all returns are equal.
    """
    value_mean, return_mean = mean_over(valid, value_tm1), mean_over(valid, return_tm1)
    error_tm1 = return_tm1 - value_tm1
    unexplained = mean_over(valid, (error_tm1 - (return_mean - value_mean)).square())
    variance = mean_over(valid, (return_tm1 - return_mean).square())
    explained = torch.where(variance > 0.0, 1.0 - unexplained / variance, torch.zeros_like(variance))
    return {"value_mean": value_mean, "return_mean": return_mean, "explained_variance": explained}
