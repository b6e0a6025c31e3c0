"""The common part of DQN, C51, R2D1 and PQN: one or more numbers for each action, and acting on the best.

Reads outputs "q", or with `dueling` "value" and "advantage", and a `Batch`; knows no network, optimizer or process.
Those that learn from a replay have their targets in common too. A transition of it leads from row 0 to row 1 of the
batch, `n_step` agent steps later or at the game's end:

    reward            the sum of gamma^k times the rewards on the way, each clipped before
    column discount   gamma^m after m steps, 0 where the future ends
    column weight     of its error in the loss: that of prioritised sampling, or 1

`prepare` makes the targets, without gradient; `loss` is then a regression of row 0. That keeps the backward pass as
small as it can be: with `double`, the network's own pass over row 1 needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from actorlearn.actions import Actions, describe_actions
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.policies import played_actions
from actorlearn.algorithms.returns import mean_over
from actorlearn.algorithms.settings import AlgorithmSettings
from actorlearn.algorithms.specs.q_learning import QSettings

LEAST_PRIORITY = 1e-6
"""Least priority: an error of 0 leaves a transition a chance (Schaul et al. 2016, 3.3). accel_rl: C51 alone."""


class ActionValues:
    """Numbers for each action, of which the best is taken; base of the value-based algorithms."""

    def __init__(self, settings: AlgorithmSettings, numbers: int, dueling: bool) -> None:
        """Keep the settings, how many numbers describe each action's value, and whether two heads make them."""
        self.settings = settings
        self.numbers = numbers
        self.dueling = dueling

    def heads(self, actions: Actions) -> dict[str, int]:
        """Ask for the numbers of each action, or for those of the state and, beside them, each action's."""
        if not isinstance(actions, int):
            others = "sac, a2c, ppo or impala" if isinstance(actions, tuple) else "a2c, ppo or impala"
            raise ValueError(
                f"algorithm.name: {self.settings.name!r} compares the values of discrete actions, and this "
                f"environment's are {describe_actions(actions)}; use {others}"
            )
        if self.dueling:
            return {"value": self.numbers, "advantage": actions * self.numbers}
        return {"q": actions * self.numbers}

    def values(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the expected return of each action, […, A]."""
        raise NotImplementedError

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Take the best action of each row [N]; the settings' `exploration` replaces some of them."""
        return {"action": self.values(outputs).argmax(-1)}

    def per_action(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the numbers of each action, […, A, n]; of dueling heads V + A - mean A (Wang et al., equation 9)."""
        flat = outputs["advantage" if self.dueling else "q"]
        numbers = flat.reshape(*flat.shape[:-1], -1, self.numbers)
        if not self.dueling:
            return numbers
        return outputs["value"].unsqueeze(-2) + numbers - numbers.mean(-2, keepdim=True)

    def numbers_of(self, outputs: Mapping[str, Tensor], action: Tensor) -> Tensor:
        """Return the numbers of one action in each row, […, n]."""
        numbers = self.per_action(outputs)
        chosen = action[..., None, None].expand(*action.shape, 1, self.numbers)
        return numbers.gather(-2, chosen).squeeze(-2)

    def numbers_of_played(self, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
        """Return the numbers of the actions played, [rows, B, n]; refuse outputs of other rows."""
        for name, output in outputs.items():
            if output.shape[:-1] != batch.valid.shape:
                raise ValueError(
                    f"{self.settings.name}: outputs[{name!r}] begins with {tuple(output.shape[:-1])}, but the prepared "
                    f"batch has rows {tuple(batch.valid.shape)}: run the network on the prepared observation"
                )
        return self.numbers_of(outputs, played_actions(batch))

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the scalar to descend, from what each transition adds [rows, B]."""
        loss = mean_over(batch.valid, error)
        if self.settings.reduction == "sum":
            loss = loss * batch.valid.sum()
        return self.settings.loss_scale * loss


class QLearning(ActionValues):
    """Base of those that learn from a replay; each adds `values`, `targets` and `loss`."""

    settings: QSettings

    def __init__(self, settings: QSettings, numbers: int) -> None:
        """Keep the settings, and how many numbers describe each action's value; there is no other state."""
        super().__init__(settings, numbers, settings.dueling)
        self.prepared_rows = 1 if settings.double else 0

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Ask for nothing: a value is worked out anew whenever a transition is replayed."""
        return {}

    def targets(self, batch: Batch, following: Tensor) -> Tensor:
        """Return what row 0 should say, from the target network's numbers [1, B, n] of the best action in row 1."""
        raise NotImplementedError

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the column "target" and drop row 1.

        Outputs are [1, B, size] of row 1: "target.<head>" of the target network and, with `double`, "<head>" of the
        network itself, which then chooses.
        """
        prefix = "target."
        target = {name.removeprefix(prefix): o for name, o in outputs.items() if name.startswith(prefix)}
        own = {name: o for name, o in outputs.items() if not name.startswith(prefix)}
        best = self.values(own if self.settings.double else target).argmax(-1)
        columns = {**batch.columns, "target": self.targets(batch, self.numbers_of(target, best))}
        return replace(batch, observation=batch.observation[:1], first=batch.first[:1], columns=columns)

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the scalar to descend, from what each transition adds [rows, B], times its weight."""
        return super().total(batch, batch.columns["weight"] * error)
