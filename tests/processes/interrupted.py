"""Simulators that are interrupted anywhere and continued by others, under a random schedule."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from pathlib import Path

import numpy as np

from actorlearn.address import Shm
from actorlearn.algorithms.interface import Batch
from actorlearn.envs.make import make
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, Rollouts, RowsAsked, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.inference import Batching
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator import EnvGroup
from actorlearn.processes.snapshots import Snapshots, restore
from actorlearn.wire.messages import Member
from tests import named
from tests.blocks import block_shape
from tests.identities import process

ENV = named.env(id="tests.ledger.env:Ledger", time_limit_steps=10)

ROLLOUTS = 7

HORIZON, ENVS, ACTIONS, MEMBERS = 4, 2, 4, 2

COUNTER = itertools.count()

CONFIGURATIONS = [
    # groups, blocks, reset, whether simulators have policies of their own
    (1, 1, "inside", False),
    (2, 1, "wait", False),
    (2, 2, "inside", False),
    (1, 3, "wait", False),
    (2, 1, "inside", True),
    (1, 2, "wait", True),
]


class Simulator:
    """A simulator's member, groups and snapshots."""

    def __init__(self, play: Play, number: int, resumes: Path | None) -> None:
        self.name = f"simulator-{number}"
        path = play.folder / f"{self.name}.0"
        self.blocks = Blocks(make_segment(path, play.shape, number))
        self.member = Member(id=process(self.name), segment=Shm(str(path)))
        seeds = [[100 * number + 10 * g + b for b in range(ENVS)] for g in range(play.shape.groups)]
        self.groups = [
            EnvGroup(g, make(ENV, own), self.blocks, play.rollouts, play.reset) for g, own in enumerate(seeds)
        ]
        if resumes is None:
            for group, own in zip(self.groups, seeds, strict=True):
                list(group.starts.first(3, own))
        else:
            restore(resumes / f"{self.name}.npz", self.groups, play.local)
        self.blocks.mark_ready()
        self.snapshots = Snapshots(str(play.folder), self.name, self.groups, play.rollouts, self.blocks)


class Play:
    """A run, from its start or continued from another run."""

    def __init__(self, folder: Path, configuration: tuple[int, int, str, bool], before: Play | None = None) -> None:
        groups, blocks, self.reset, self.local = self.configuration = configuration
        self.folder = folder / str(next(COUNTER))
        self.folder.mkdir()
        self.rollouts = Rollouts(Segment.create(self.folder / "rollouts", rollouts_fields()))
        self.shape = block_shape(
            groups=groups,
            blocks=blocks,
            horizon=HORIZON,
            envs_per_group=ENVS,
            observation_shape=(32,),
            observation_dtype="uint8",
            actions=ACTIONS,
            columns={"value": ("float32", ())},
            state_size=2,
        )
        account = Account(Segment.create(self.folder / "account", account_fields()))
        self.members = RolloutMembers(self.rollouts, account, Episodes(), blocks)
        self.gatherer = Gatherer(self.rollouts, "cpu", ["state", "value"])
        self.batching = Batching(0, 0.0)
        account.rollouts_learned = before.learned if before else 0
        self.digests = list(before.digests) if before else [1]
        """Digests of all that has been learned, one for each version of the weights."""
        self.rollouts.published(0, 0, 0)
        if before:
            self.rollouts.restore(before.rollouts.state(before.learned))
        self.simulators = [Simulator(self, n, before.folder if before else None) for n in range(MEMBERS)]
        self.members.follow([simulator.member for simulator in self.simulators], [])
        self.members.open_next()

    @property
    def learned(self) -> int:
        return self.members.next

    def event(self, random: np.random.Generator, learn: bool = True) -> None:
        """Let a random simulator, the inference server or the trainer do what it can do now."""
        who = random.integers(MEMBERS + 1 + learn)
        if who < MEMBERS:
            for group in self.simulators[who].groups:
                if group.advance() == "observed" and self.local:
                    self.answer([(group.blocks, group.index, group.timestep)])
        elif who == MEMBERS and not self.local:
            for asked in self.batching.batches([simulator.blocks for simulator in self.simulators]):
                self.answer(asked)
        elif who > MEMBERS and (parts := self.members.parts()):
            self.learn(self.gatherer.gather(self.learned, parts, version=0).batch)

    def answer(self, asked: list[RowsAsked]) -> None:
        blocks, group, timestep = asked[0]
        version = self.rollouts.version(timestep // HORIZON)
        random = np.random.default_rng([timestep, group, self.digests[version]])
        for blocks, group, timestep in asked:
            first = blocks.row("first", group, timestep)[:, None]
            seen = [zlib.crc32(row.tobytes()) for row in blocks.row("observation", group, timestep)]
            state = np.where(first, 0.0, blocks.row("state", group, timestep))
            blocks.row("value", group, timestep)[:] = random.random(ENVS) + state.sum(axis=1)
            action = (random.integers(1000, size=ENVS) + seen + (state[:, 0] * 7).astype(np.int64)) % ACTIONS
            blocks.row("action", group, timestep)[:] = action
            blocks.row_after("state", group, timestep)[:] = state / 2 + action[:, None]
        for blocks, group, timestep in asked:
            blocks.mark_acted(group, timestep, version)

    def learn(self, batch: Batch) -> None:
        digest = self.digests[-1]
        for field in dataclasses.fields(batch):
            value = getattr(batch, field.name)
            parts = value if isinstance(value, dict) else {"": value}
            for _, tensor in sorted(parts.items()):
                digest = zlib.crc32(np.ascontiguousarray(tensor.numpy()).tobytes(), digest)
        self.digests.append(digest)
        self.members.account.rollouts_learned += 1
        self.rollouts.published(self.learned, 0, self.learned)
        self.members.open_next()

    def interrupted(self, random: np.random.Generator) -> Play:
        """Take a snapshot of each simulator, at different times, and continue from them in another run."""
        number = self.rollouts.ask(self.learned)
        waiting = list(self.simulators)
        while waiting:
            chosen = waiting[random.integers(len(waiting))]
            if chosen.snapshots.due:
                assert chosen.snapshots.answer() == ""
                assert chosen.blocks.held == number
                waiting.remove(chosen)
            for _ in range(random.integers(12)):
                self.event(random, learn=False)
        return Play(self.folder.parent, self.configuration, self)

    def finish(self, random: np.random.Generator) -> list[int]:
        for _ in range(20_000):
            if self.learned >= ROLLOUTS:
                return self.digests
            self.event(random)
        raise AssertionError(f"stuck in rollout {self.learned}")
