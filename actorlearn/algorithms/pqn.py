"""Parallelised Q-network, "PQN": Q-learning without replay and target network (Gallici et al. 2024, arXiv 2407.04811).

Reads network outputs and a `Batch` of a rollout with the column "value", the acting network's value of the best action.
Exploration is in the settings: `act` chooses the best action, and a share of actions is replaced by random ones.
LayerNorm in the network (`model.layer_norm`) stabilises learning.

The target of an action is the return of the following steps, for whatever actions were taken, mixed at each step with
the value of the best action: Peng's Q(lambda) (the paper's equation for R^lambda)

    R_t = r_t + discount * (lambda R_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))

It is computed once for a rollout, from the recorded values; the epochs are then a regression.

The loss is that of the authors' code (mttga/purejaxql), half of the mean squared error. The differences are:

    a game's end        Only a terminal state has no future; at a time limit the value of the final observation is used.
                        In their code both have no future, as here with `bootstrap_on_truncation` off.
    last step but one   The last step but one of a rollout mixes with the value of its own successor, as in
                        pqn_atari.py; pqn_gymnax.py and pqn_minatar.py use the value of the row after that.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.q_learning import ActionValues
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.pqn import PQNSettings


class PQN(ActionValues):
    """One number for each action: the expected return, learned from rollouts of many environments."""

    Settings = PQNSettings
    settings: PQNSettings
    prepared_rows = 1

    def __init__(self, settings: PQNSettings) -> None:
        super().__init__(settings, 1, settings.dueling)

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return a column for the best action's value, whichever action is played."""
        return {"value": ("float32", ())}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose the best action of each row [N], with its value; the settings' `exploration` replaces some actions."""
        return {**super().act(outputs, generator, greedy), "value": self.values(outputs).amax(-1)}

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the column "target" and drop the last row, whose outputs [1, B, size] are given.

        A batch without the column "state" of a recurrent network becomes [1, T * B].
        """
        value_t = torch.cat([batch.columns["value"][1:], self.values(outputs).amax(-1)])
        target_tm1 = lambda_returns(outcomes(batch, self.settings), value_t, self.settings.q_lambda)
        return batch.parted({**batch.columns, "target": target_tm1})

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its terms; outputs are [rows, B, size] of one forward pass."""
        valid, target = batch.valid, batch.columns["target"]
        q = self.numbers_of_played(outputs, batch).squeeze(-1)
        error = target.where(valid, 0.0) - q
        metrics = {
            "q_mean": mean_over(valid, q),
            "target_mean": mean_over(valid, target),
            "error_mean": mean_over(valid, error.abs()),
        }
        return self.total(batch, 0.5 * error.square()), {name: metric.detach() for name, metric in metrics.items()}
