"""Advantage actor-critic on blocks of T transitions: algorithm 1 of PAAC (Clemente et al. 2017).

Reads network outputs "logits" and "value" and a `Batch`; knows no network, optimizer or process.

Differences from the published PAAC code, both small: log-probabilities come from log_softmax, where that code adds
1e-30 inside the logarithm; the mean is over valid transitions, where its environments reset within a step and have no
others. The entropy bonus is inside `loss_scale`, as there.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.algorithms.interface import AlgorithmSettings, Batch
from actorlearn.algorithms.returns import discounts, mean_over, n_step_returns, restarts, rewards


class A2C:
    """Policy gradient with n-step advantages, a value regression and an entropy bonus, from on-policy blocks."""

    prepared_rows = 0

    def __init__(self, settings: AlgorithmSettings) -> None:
        """Keep the settings; there is no other state."""
        self.settings = settings

    def heads(self, actions: int) -> dict[str, int]:
        """Ask for action logits and a state value."""
        return {"logits": actions, "value": 1}

    def columns(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Ask for nothing: the trainer's own forward pass recomputes what the loss needs."""
        return {}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Sample actions [N] from the softmax of the logits [N, A], or take the most probable."""
        return {"action": greedy_actions(outputs["logits"]) if greedy else sample(outputs["logits"], generator)}

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Return the batch as it is."""
        return batch

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the scalar to descend, and its terms; outputs are [T+1, B, size] of one forward pass."""
        check_shapes(outputs, batch)
        settings, valid = self.settings, batch.valid
        logits_tm1 = outputs["logits"][:-1]  # [T, B, A]
        value = outputs["value"].squeeze(-1)  # [T+1, B]
        value_tm1, value_t = value[:-1], value[1:].detach()

        # R_tm1 = r_t + discount * R_t, backwards from the value of the last row (lines 12-15).
        return_tm1 = n_step_returns(rewards(batch, settings), discounts(batch, settings), value_t, restarts(batch))
        error_tm1 = return_tm1 - value_tm1
        advantage_tm1 = error_tm1.detach()

        # Policy gradient and entropy (line 16). An ignored action may be any number: index with 0 there.
        log_policy = logits_tm1.log_softmax(-1)  # [T, B, A]
        action_tm1 = batch.action.where(valid, 0).unsqueeze(-1)  # [T, B, 1]
        log_prob_tm1 = log_policy.gather(-1, action_tm1).squeeze(-1)
        policy_loss = -mean_over(valid, log_prob_tm1 * advantage_tm1)
        entropy = mean_over(valid, -(log_policy.exp() * log_policy).sum(-1))

        # Value regression (line 17).
        value_loss = mean_over(valid, error_tm1.square())

        total = policy_loss + settings.value_cost * value_loss - settings.entropy_cost * entropy
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        metrics |= fit(valid, return_tm1, value_tm1)
        return settings.loss_scale * total, {name: metric.detach() for name, metric in metrics.items()}


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one action a row from softmax(logits) [N, A], as int64 [N].

    argmax(p / e) with e ~ Exponential(1) has distribution p; in logarithms it needs no softmax, as a constant a row
    does not move the argmax. Four small operations and no check that waits for the device, unlike torch.multinomial.
    """
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log_()).argmax(-1)


def greedy_actions(logits: Tensor) -> Tensor:
    """Return the most probable action of each row, int64 [N]; the lowest index of equals."""
    return logits.argmax(-1)


@torch.no_grad()
def fit(valid: Tensor, return_tm1: Tensor, value_tm1: Tensor) -> dict[str, Tensor]:
    """Return mean value and return, and the share of the returns' variance the value explains (0 if there is none)."""
    value_mean, return_mean = mean_over(valid, value_tm1), mean_over(valid, return_tm1)
    error_tm1 = return_tm1 - value_tm1
    unexplained = mean_over(valid, (error_tm1 - (return_mean - value_mean)).square())
    variance = mean_over(valid, (return_tm1 - return_mean).square())
    explained = torch.where(variance > 0.0, 1.0 - unexplained / variance, torch.zeros_like(variance))
    return {"value_mean": value_mean, "return_mean": return_mean, "explained_variance": explained}


def check_shapes(outputs: Mapping[str, Tensor], batch: Batch) -> None:
    """Refuse outputs that are not one row longer than the batch's transitions."""
    horizon, environments = batch.action.shape
    expected = (horizon + 1, environments)
    for name in ("logits", "value"):
        found = tuple(outputs[name].shape[:-1])
        if found != expected:
            raise ValueError(
                f"a2c: outputs[{name!r}] begins with {found}, but a batch of {horizon} transitions of {environments} "
                f"environments needs {expected}: run the network on all T+1 rows and keep [T+1, B, size]"
            )
