"""Learners with a replay, and a simulator that is played by hand to fill it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from actorlearn.address import Shm
from actorlearn.learning.make import make
from actorlearn.learning.replay import Replayed
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Gathered, Gatherer
from actorlearn.processes.counts import TrainerCounts
from actorlearn.processes.members import RolloutMembers
from actorlearn.replay.rows import ReplayShape, replay_fields
from actorlearn.replay.settings import ReplaySettings
from actorlearn.wire.messages import Member
from actorlearn.worker.settings import TrainerReplay
from tests import named
from tests.blocks import block_shape
from tests.identities import process
from tests.learning.made import trainer_settings

ENVS, HORIZON = 2, 5

SHAPE = ReplayShape(
    rings=ENVS, size=100, margin=HORIZON + 1, stack=1, observation_shape=(2,), observation_dtype="float32", actions=2
)


def replaying(folder: Path, numbers: dict[str, Any] | None = None, **algorithm: Any) -> Learning:
    """A learner with a replay in this folder, which may exist already; a rollout has 10 steps.

    The weights of its secondary, if it has one, go into this folder too.
    """
    settings = trainer_settings()
    chosen = {"name": "dqn", "reward_clip": None, "target_every_steps": 20, "horizon": HORIZON} | algorithm
    policy = msgspec.structs.replace(settings.policy, algorithm=named.algorithm(**chosen))
    of_replay = {"batch_size": 4, "ratio": 2.0, "learning_starts_steps": 10} | (numbers or {})
    shape = msgspec.structs.replace(SHAPE, prioritised=of_replay.get("prioritised", False))
    stored = TrainerReplay(
        segment=Shm(str(folder / "replay")),
        shape=shape,
        settings=ReplaySettings(**of_replay),
        secondary=Shm(str(folder / "secondary")),
    )
    if not (folder / "replay").exists():
        Segment.create(folder / "replay", replay_fields(shape)).close()
    return make(msgspec.structs.replace(settings, policy=policy, rollout_steps=HORIZON * ENVS, replay=stored))


def source(learner: Learning) -> Replayed:
    """The source of its minibatches."""
    assert isinstance(learner.minibatches, Replayed)
    return learner.minibatches


class Played:
    """One simulator's blocks, with rollouts of random rows in which no game ends, and the batches made of them."""

    def __init__(self, folder: Path, learner: Learning) -> None:
        shape = block_shape(blocks=2, horizon=HORIZON, envs_per_group=ENVS)
        path = folder / "simulator-0.0"
        self.blocks = Blocks(Segment.open(path) if path.exists() else make_segment(path, shape))
        rollouts = Rollouts(Segment.create(folder / f"rollouts-{len(list(folder.iterdir()))}", rollouts_fields()))
        account = Account(Segment.create(folder / f"account-{len(list(folder.iterdir()))}", account_fields()))
        episodes = Episodes()
        self.counts = TrainerCounts(account, episodes)
        self.members = RolloutMembers(rollouts, account, episodes, 2)
        self.replayed = source(learner)
        self.gatherer = Gatherer(rollouts, "cpu", replayed=self.replayed)
        self.blocks.mark_ready()
        member = Member(id=process("simulator-0"), segment=Shm(str(path)))
        self.members.follow([member], [])
        self.members.open_next()

    def rollout(self, number: int) -> Gathered:
        """Play a rollout, whose row 0 is row T of the one before, and store it."""
        random = np.random.default_rng(number)
        before = {name: self.blocks.last_row(name, 0, number - 1).copy() for name in ("observation", "reward")}
        for name in ("terminated", "truncated", "life_lost", "first"):
            self.blocks.block(name, 0, number)[:] = False
        for name in ("observation", "reward"):
            column = self.blocks.block(name, 0, number)
            column[:] = random.normal(size=column.shape)
            column[0] = before[name] if number else column[0]
        action = self.blocks.block("action", 0, number)
        action[:] = random.integers(2, size=action.shape)
        self.blocks.mark_completed(0, number)
        return self.take(number)

    def take(self, number: int) -> Gathered:
        """Gather a rollout that has been played, and store it."""
        self.counts.account.rollouts_learned = number
        parts = self.members.parts()
        assert parts
        gathered = self.gatherer.gather(number, parts, version=0)
        self.replayed.store(number, parts)
        return gathered
