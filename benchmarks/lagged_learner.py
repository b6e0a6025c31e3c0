"""Learns in one process from experience with a given policy lag, and prints scores and metrics.

It plays and learns in turn with the code of a run. Rollout n is played with the weights after update n - lag (the first
ones with the initial weights), and the weights after update n learn from it. A run with ``simulators.blocks: lag + 1``
whose simulators are always ahead does the same. Here the result does not depend on timing: the same settings give the
same scores on a busy machine. Supports only networks without memory, and algorithms that learn from rollouts.

``python -m benchmarks.lagged_learner SETTINGS.json`` reads settings and prints a line of JSON for each run.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np
import torch
from torch import Tensor

from actorlearn.acting.policy import Policy
from actorlearn.algorithms.interface import Batch
from actorlearn.envs.interface import Row, empty_row
from actorlearn.envs.make import make as make_env
from actorlearn.learning.make import make as make_learning
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.__main__ import die_with_parent
from actorlearn.processes.batches import lags
from actorlearn.worker import settings as all_settings
from actorlearn.worker.settings import SimulatorSettings, TrainerSettings

POINTS = 20
"""Number of points of a learning curve."""


class LaggedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner whose experience has a fixed policy lag."""

    simulator: SimulatorSettings
    """The simulator with all environments of the learner."""
    trainer: TrainerSettings
    lag: int


class LaggedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Learners with fixed policy lags, which run one after the other."""

    runs: list[LaggedRun]


def run(settings: LaggedSettings) -> None:
    """Carry out the runs one after the other, and print the result of each."""
    for one in settings.runs:
        print(json.dumps(Lagged(one).learn()), flush=True)


class Lagged:
    """An environment, a policy, and a learner whose weights are ``lag`` updates newer than the policy's."""

    def __init__(self, settings: LaggedRun) -> None:
        """Make all three; raises ValueError for a replay or a network with memory."""
        self._settings, self._lag = settings, settings.lag
        simulator, trainer = settings.simulator, settings.trainer
        self._learning = make_learning(trainer)
        if trainer.replay is not None or self._learning.network.state_size:
            raise ValueError("algorithm.name, model.recurrence: need an algorithm without replay, and no memory")
        self._policy = Policy(simulator.policy, "cpu", simulator.seed, stream=0)
        self._env = make_env(simulator.env, simulator.env_seeds)
        self._row = empty_row(self._env.spec, self._env.count)
        self._versions = deque([self._learning.weights.clone()], maxlen=settings.lag + 1)
        """Weights after the newest lag + 1 updates, the oldest first."""
        self._moment = 0

    def learn(self) -> dict[str, object]:
        """Learn for ``total_steps`` steps; returns score, learning curve, counts and the mean of each metric."""
        episodes, curve, told, total = Episodes(), list[tuple[int, float]](), list[Mapping[str, float]](), 0
        self._env.reset(self._row)
        updates, steps = 0, self._settings.trainer.total_steps
        while total < steps:
            batch = self._play(min(self._lag, updates))
            rewards, over = batch.reward.numpy(), (batch.terminated | batch.truncated).numpy()
            none = np.zeros_like(rewards[:1])
            episodes.add("", np.concatenate([none, rewards]), np.concatenate([none > 0, over]), batch.first.numpy())
            metrics = self._learning.learn(batch, total, updates)
            told.append(metrics | {"policy_lag_mean": float(lags(batch).mean())})
            self._versions.append(self._learning.weights.clone())
            total, updates = total + int(batch.valid.sum()), updates + 1
            score = episodes.mean()
            if score is not None and total * POINTS // steps > len(curve):
                curve.append((total, score))
        self._env.close()
        names = [name for name in told[-1] if all(name in row for row in told)]
        return {
            "score": episodes.mean(),
            "curve": curve,
            "env_steps": total,
            "updates": updates,
            "weights_sha256": self._learning.sha256(),
            "metrics": {name: fmean(row[name] for row in told) for name in names},
        }

    def _play(self, lag: int) -> Batch:
        """Play a rollout with the weights of ``lag`` updates ago."""
        self._policy.flat.copy_(self._versions[-1 - lag])
        rows, acted = [_copied(self._row)], list[dict[str, Tensor]]()
        for _ in range(self._learning.algorithm_settings.horizon):
            chosen = self._policy.choose(rows[-1]["observation"], self._moment)
            self._moment += 1
            acted.append({name: cells.clone() for name, cells in chosen.items()})
            self._env.step(chosen["action"].numpy(), self._row)
            rows.append(_copied(self._row))
        row = {name: torch.stack([cells[name] for cells in rows]) for name in rows[0]}
        columns = {name: torch.stack([cells[name] for cells in acted]) for name in acted[0]}
        return Batch(
            observation=row["observation"],
            action=columns.pop("action"),
            reward=row["reward"][1:],
            terminated=row["terminated"][1:],
            truncated=row["truncated"][1:],
            life_lost=row["life_lost"][1:],
            first=row["first"],
            valid=~row["first"][1:],
            policy_lag=torch.full(row["reward"][1:].shape, lag, dtype=torch.int64),
            columns=columns,
        )


def _copied(row: Row) -> dict[str, Tensor]:
    """Return copies of a row's columns, which the environment does not overwrite."""
    return {name: torch.from_numpy(getattr(row, name).copy()) for name in Row.__slots__}


if __name__ == "__main__":
    die_with_parent()
    run(all_settings.read(Path(sys.argv[1]), LaggedSettings))
