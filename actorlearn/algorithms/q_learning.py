"""Base classes of DQN, C51, R2D1 and PQN: network outputs for each action, and the choice of the best action.

The network has the output "q" or, with dueling heads, "value" and "advantage". For each action it gives one number, the
action's expected return, or several, the distribution of its return (C51). If the network has the output "action_mask",
only valid actions are chosen.

DQN and C51 learn from transitions of a replay buffer. observation[0] of the batch is s, before the action, and
observation[1] is s', which is `n_step` agent steps later or the final observation of the game:

    reward            sum of gamma^k times the rewards of the steps from s to s', each clipped first
    column discount   factor of the value of s': gamma^m after m steps, 0 at a terminal state
    column weight     weight of the transition's error in the loss: from prioritised sampling, or 1

`prepare` computes the targets from s' without gradient. `loss` is then a regression of the outputs for s, so only these
need a backward pass, also with `double`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from actorlearn.actions import Actions, describe_actions
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import played_actions, without_invalid
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.settings import AlgorithmSettings
from actorlearn.algorithms.specs.q_learning import QSettings

LEAST_PRIORITY = 1e-6
"""Smallest priority, so that a transition with error 0 can be drawn again (Schaul et al. 2016, section 3.3).

In accel_rl only C51 has such a limit."""


class ActionValues:
    """Base of the value-based algorithms: a value for each action, and the choice of the best action."""

    def __init__(self, settings: AlgorithmSettings, numbers: int, dueling: bool) -> None:
        """Set how many ``numbers`` the network returns for each action, and whether it has dueling heads."""
        self.settings = settings
        self.numbers = numbers
        self.dueling = dueling

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return the output "q" of A * n numbers or, with dueling heads, "value" of n and "advantage" of A * n numbers.

        Raises ValueError if the action space is not Discrete.
        """
        if not isinstance(actions, int):
            others = "sac, a2c, ppo or impala" if isinstance(actions, tuple) else "a2c, ppo or impala"
            raise ValueError(
                f"algorithm.name: {self.settings.name!r} supports only Discrete actions, but this "
                f"environment's actions are {describe_actions(actions)}; use {others}"
            )
        if self.dueling:
            return {"value": self.numbers, "advantage": actions * self.numbers}
        return {"q": actions * self.numbers}

    def values(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the expected return of each action, […, A], and `policies.LEAST` for invalid actions."""
        return without_invalid(outputs, self.expected(outputs))

    def expected(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the expected return of each action, […, A], also of invalid ones; here the action's only number."""
        return self.per_action(outputs).squeeze(-1)

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose the best action for each environment, [N].

        Processes that act then replace some actions by random ones (`AlgorithmSettings.exploration`).
        """
        return {"action": self.values(outputs).argmax(-1)}

    def per_action(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the n numbers of each action, […, A, n].

        With dueling heads they are V + A - mean(A), for value V and advantages A (Wang et al. 2016, equation 9).
        """
        flat = outputs["advantage" if self.dueling else "q"]
        numbers = flat.reshape(*flat.shape[:-1], -1, self.numbers)
        if not self.dueling:
            return numbers
        return outputs["value"].unsqueeze(-2) + numbers - numbers.mean(-2, keepdim=True)

    def numbers_of(self, outputs: Mapping[str, Tensor], action: Tensor) -> Tensor:
        """Return the n numbers that the network has returned for each ``action`` […], as […, n]."""
        numbers = self.per_action(outputs)
        chosen = action[..., None, None].expand(*action.shape, 1, self.numbers)
        return numbers.gather(-2, chosen).squeeze(-2)

    def numbers_of_played(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Return the n numbers that the network has returned for each action that was taken, [T, B, n].

        Raises ValueError unless ``outputs`` are [T, B, size] for a batch of [T, B] transitions.
        """
        for name, output in outputs.items():
            if output.shape[:-1] != batch.valid.shape:
                raise ValueError(
                    f"{self.settings.name}: outputs[{name!r}] has the shape {tuple(output.shape)}, but its first two "
                    f"sizes must be {tuple(batch.valid.shape)}: pass the prepared observation to the network"
                )
        return self.numbers_of(outputs, played_actions(batch))

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the loss: the mean or sum (`reduction`) of ``error`` [T, B] over valid transitions, scaled."""
        loss = mean_over(batch.valid, error)
        if self.settings.reduction == "sum":
            loss = loss * batch.valid.sum()
        return self.settings.loss_scale * loss


class QLearning(ActionValues):
    """Base of the algorithms that learn from a replay; each one adds `targets` and `loss`."""

    settings: QSettings

    def __init__(self, settings: QSettings, numbers: int) -> None:
        """Set how many ``numbers`` the network gives for each action."""
        super().__init__(settings, numbers, settings.dueling)
        self.prepared_rows = 1 if settings.double else 0

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return {}: a transition from a replay needs only its action, because its values are computed again."""
        return {}

    def targets(self, batch: Batch, following: Tensor) -> Tensor:
        """Return the targets for s; ``following`` [1, B, n]: the target network's output for the best action in s'."""
        raise NotImplementedError

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the column "target" and drop the observations s'.

        ``outputs`` [1, B, size] are those for s': "target.<head>" of the target network and, with `double`, "<head>" of
        the network itself, which then selects the best action.
        """
        prefix = "target."
        target = {name.removeprefix(prefix): o for name, o in outputs.items() if name.startswith(prefix)}
        own = {name: o for name, o in outputs.items() if not name.startswith(prefix)}
        best = self.values(own if self.settings.double else target).argmax(-1)
        columns = {**batch.columns, "target": self.targets(batch, self.numbers_of(target, best))}
        return replace(batch, observation=batch.observation[:1], first=batch.first[:1], columns=columns)

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the loss from the error of each transition, [T, B], multiplied by the column "weight"."""
        return super().total(batch, batch.columns["weight"] * error)
