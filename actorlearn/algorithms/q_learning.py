"""The common part of DQN, C51, R2D1 and PQN: one or more numbers for each action, and choosing the best action.

Reads the outputs "q", or with `dueling` "value" and "advantage", perhaps "action_mask", and a `Batch`. The best action
is the best of the valid ones. The algorithms that learn from a replay also have their targets in common. A transition
of a replay leads from row 0 to row 1 of the batch, `n_step` agent steps later or at the game's end:

    reward            sum of gamma^k times the rewards of these steps, each clipped first
    column discount   gamma^m after m steps, 0 where the future ends
    column weight     weight of its error in the loss: from prioritised sampling, or 1

`prepare` computes the targets, without gradient; `loss` is then a regression of row 0. This keeps the backward pass as
small as possible: with `double`, the network's pass over row 1 needs no gradient.
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
"""Smallest priority, so that a transition with error 0 can be drawn again (Schaul et al. 2016, 3.3). In accel_rl only
C51 has it.
"""


class ActionValues:
    """Base of the value-based algorithms: a value for each action, and the choice of the best action."""

    def __init__(self, settings: AlgorithmSettings, numbers: int, dueling: bool) -> None:
        """Store the settings; ``numbers``: numbers that describe an action's value; ``dueling``: use two heads."""
        self.settings = settings
        self.numbers = numbers
        self.dueling = dueling

    def heads(self, actions: Actions) -> dict[str, int]:
        """Return a head for all actions, or with dueling heads one for the state and one for all actions.

        Raises ValueError for actions that are not discrete.
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
        """Return the expected return of each action, […, A]; that of invalid actions is lower than any other."""
        return without_invalid(outputs, self.expected(outputs))

    def expected(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the expected return of each action, […, A], valid or not; with one number this number."""
        return self.per_action(outputs).squeeze(-1)

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose the best action of each row [N]; the settings' `exploration` replaces some of them."""
        return {"action": self.values(outputs).argmax(-1)}

    def per_action(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the numbers of each action, […, A, n]; for dueling heads V + A - mean A (Wang et al., equation 9)."""
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
        """Return the numbers of the actions played, [rows, B, n]; raises ValueError for outputs of other rows."""
        for name, output in outputs.items():
            if output.shape[:-1] != batch.valid.shape:
                raise ValueError(
                    f"{self.settings.name}: outputs[{name!r}] has the shape {tuple(output.shape)}, but its first two "
                    f"sizes must be {tuple(batch.valid.shape)}: pass the prepared observation to the network"
                )
        return self.numbers_of(outputs, played_actions(batch))

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the loss, from the error of each transition [rows, B]."""
        loss = mean_over(batch.valid, error)
        if self.settings.reduction == "sum":
            loss = loss * batch.valid.sum()
        return self.settings.loss_scale * loss


class QLearning(ActionValues):
    """Base of the algorithms that learn from a replay; each one adds `targets` and `loss`."""

    settings: QSettings

    def __init__(self, settings: QSettings, numbers: int) -> None:
        """Store the settings; ``numbers``: numbers that describe an action's value. There is no other state."""
        super().__init__(settings, numbers, settings.dueling)
        self.prepared_rows = 1 if settings.double else 0

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return none: values are computed again whenever a transition is replayed."""
        return {}

    def targets(self, batch: Batch, following: Tensor) -> Tensor:
        """Return the targets of row 0, from the target network's numbers [1, B, n] of the best action in row 1."""
        raise NotImplementedError

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the column "target" and drop row 1.

        Outputs are [1, B, size] of row 1: "target.<head>" of the target network and, with `double`, "<head>" of the
        network itself, which then selects the best action.
        """
        prefix = "target."
        target = {name.removeprefix(prefix): o for name, o in outputs.items() if name.startswith(prefix)}
        own = {name: o for name, o in outputs.items() if not name.startswith(prefix)}
        best = self.values(own if self.settings.double else target).argmax(-1)
        columns = {**batch.columns, "target": self.targets(batch, self.numbers_of(target, best))}
        return replace(batch, observation=batch.observation[:1], first=batch.first[:1], columns=columns)

    def total(self, batch: Batch, error: Tensor) -> Tensor:
        """Return the loss, from the error of each transition [rows, B] times its weight."""
        return super().total(batch, batch.columns["weight"] * error)
