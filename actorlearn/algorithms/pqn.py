"""Parallelised Q-network, "PQN": Q-learning without replay and target network (Gallici et al. 2024, arXiv 2407.04811).

`act` chooses the best action and records its value as the column "value". For exploration the processes that act
replace a share of the actions by random ones (`exploration` in the settings). LayerNorm in the network
(`model.layer_norm`) stabilises learning.

The target of an action is Peng's Q(lambda): the return of the actions that were taken, mixed at each step with the
value of the best action (the paper's equation for R^lambda):

    R_t = r_t + discount * (lambda R_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))

Targets are computed once for a rollout, from the recorded values. The epochs are then a regression.

The loss is half the mean squared error, as in the authors' code (mttga/purejaxql). Differences from that code:

    time limit          With `bootstrap_on_truncation` the target at a time limit includes the value of the final
                        observation. In the authors' code, as here without this key, a time limit counts as terminal.
    last step but one   The target of the last step but one of a rollout includes the value of the next state, as in the
                        authors' pqn_atari.py. In pqn_gymnax.py and pqn_minatar.py it is the value of the state after.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from actorlearn.actions import Actions
from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.lazy_metrics import LazyMetrics
from actorlearn.algorithms.q_learning import ActionValues
from actorlearn.algorithms.returns import lambda_returns, mean_over, outcomes
from actorlearn.algorithms.specs.pqn import PQNSettings


class PQN(ActionValues):
    """Q-learning from rollouts of many environments, without replay buffer or target network."""

    Settings = PQNSettings
    settings: PQNSettings
    prepared_rows = 1

    def __init__(self, settings: PQNSettings) -> None:
        super().__init__(settings, 1, settings.dueling)

    def columns(self, actions: Actions) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the column "value", a float32: the best action's value, even if a random action replaces it."""
        return {"value": ("float32", ())}

    def act(self, outputs: Mapping[str, Tensor], generator: torch.Generator, greedy: bool = False) -> dict[str, Tensor]:
        """Choose the best action for each environment, [N], and return also its value, [N]."""
        return {**super().act(outputs, generator, greedy), "value": self.values(outputs).amax(-1)}

    def prepare(self, batch: Batch, outputs: Mapping[str, Tensor]) -> Batch:
        """Add the column "target" and drop the last observation, to which ``outputs`` [1, B, size] belong.

        The result is [1, T * B], or [T, B] with a recurrent network (`Batch.parted`).
        """
        value_t = torch.cat([batch.columns["value"][1:], self.values(outputs).amax(-1)])
        target_tm1 = lambda_returns(outcomes(batch, self.settings), value_t, self.settings.q_lambda)
        return batch.parted({**batch.columns, "target": target_tm1})

    def loss(self, outputs: Mapping[str, Tensor], batch: Batch, progress: float) -> tuple[Tensor, LazyMetrics]:
        """Return the loss and its terms, for outputs [T, B, size]."""
        valid, target = batch.valid, batch.columns["target"]
        q = self.numbers_of_played(outputs, batch).squeeze(-1)
        error = target.where(valid, 0.0) - q
        found = {"q_mean": q, "target_mean": target, "error_mean": error.abs()}
        metrics = LazyMetrics(lambda: {name: mean_over(valid, values) for name, values in found.items()})
        return self.total(batch, 0.5 * error.square()), metrics
