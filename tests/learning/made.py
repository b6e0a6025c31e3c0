"""A learner of a tiny network, and a batch for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from actorlearn.address import Pipe, Shm
from actorlearn.algorithms.interface import Batch
from actorlearn.learning.make import make
from actorlearn.learning.minibatches import Gathered
from actorlearn.learning.update import Learning
from actorlearn.models.specs import ModelSettings
from actorlearn.parameters.consumed import Position
from actorlearn.wire.identity import ProcessId
from actorlearn.worker.settings import PolicySettings, TrainerSettings
from tests import named

HORIZON, ENVIRONMENTS = 3, 8


def trainer_settings(model: ModelSettings | None = None, norms: bool = False, **algorithm: Any) -> TrainerSettings:
    """Settings of a trainer on this CPU that has no segments yet."""
    policy = PolicySettings(
        observation_shape=(2,),
        observation_dtype="float32",
        actions=2,
        model=model or named.model(name="mlp", hidden_sizes=[4]),
        algorithm=named.algorithm(horizon=HORIZON, **algorithm),
    )
    nowhere = dict.fromkeys(("progress", "weights", "rollouts", "account"), Shm(""))
    return TrainerSettings(
        **nowhere,
        **{"run_id": "", "run_dir": "", "control": None, "wakeup": Pipe("")},
        **dict.fromkeys(("index", "checkpoint_every_steps", "checkpoint_keep"), 0),
        **{"id": ProcessId("trainer"), "seed": 5, "policy": policy, "device": "cpu", "precision": "fp32"},
        **{"layout": "plain", "compile": False, "total_steps": 1000, "blocks": 1, "frames_per_step": 1},
        **{"report_every_s": 1.0, "began_s": 0.0, "resume": False, "norms": norms},
        optimizer=named.optimizer(name="adam", learning_rate=1e-2),
    )


def learning(model: ModelSettings | None = None, norms: bool = False, **algorithm: Any) -> Learning:
    """A learner of these settings."""
    return make(trainer_settings(model, norms, **algorithm))


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    shape = (HORIZON, ENVIRONMENTS)
    return Batch.plain(
        observation=torch.rand((HORIZON + 1, ENVIRONMENTS, 2), generator=generator),
        action=torch.randint(2, shape, generator=generator),
        reward=torch.arange(HORIZON * ENVIRONMENTS, dtype=torch.float32).view(shape),
        columns={"extra": torch.arange(HORIZON * ENVIRONMENTS).view(shape)},
    )


def gathered(learner: int, rollout: int, **changed: Any) -> Gathered:
    """A gathered rollout, with observations of this learner's own."""
    own = batch()
    noise = torch.rand(own.observation.shape, generator=torch.Generator().manual_seed(10 * rollout + learner))
    columns = {name: torch.zeros(HORIZON, ENVIRONMENTS) for name in ("log_prob", "value")}
    whole = dataclasses.replace(own, observation=noise, columns=columns)
    steps = changed.pop("steps", HORIZON * ENVIRONMENTS)
    return Gathered(rollout, (), whole, np.zeros(0, np.int64), steps, **changed)


def due(made: Learning, prepared: Batch, env_steps: int, rollout: int = 0) -> int:
    """The number of optimizer steps that are due with a rollout, for a learner without others."""
    return made.due(prepared, env_steps, Position(rollout, env_steps))


def pass_over(
    made: Learning, prepared: Batch, env_steps: int, rollout: int, going_on: Callable[[], bool] = lambda: True
) -> dict[str, float]:
    """Take the optimizer steps that remain of a rollout, as an update does once all learners have agreed."""
    made.going_on = going_on
    remaining = due(made, prepared, env_steps, rollout)
    return made.pass_over(prepared, env_steps, Position(rollout, env_steps), remaining)
