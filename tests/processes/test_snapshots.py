"""Simulators that are interrupted anywhere and go on in others: everything that is learned later is the same.

Simulators, blocks, turns and batches are the real ones in one process; the schedule is drawn. The policy is replaced by
one whose answers depend on which rows are answered together, in which order, by which weights; the learner by a
checksum of all that it was given, which is the weights.
"""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actorlearn.acting.batching import Asked, Turns
from actorlearn.algorithms.interface import Batch
from actorlearn.envs.interface import EnvSettings
from actorlearn.envs.make import make
from actorlearn.failpoints import armed
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import Blocks, BlockShape, Rollouts, make_segment, rollouts_fields
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Batches
from actorlearn.processes.simulator import Group
from actorlearn.processes.snapshots import Snapshots, restore
from actorlearn.wire.messages import Member
from tests.ledger.env import Ledger, read_all

ENV = EnvSettings(id="tests.ledger.env:Ledger", time_limit_steps=10)
ROLLOUTS = 7
PARTS = 13
"""Of all moments to interrupt at; one is gated."""
HORIZON, ENVS, ACTIONS, SEATS = 4, 2, 4, 2
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


@pytest.fixture(autouse=True)
def ledger_of_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTORLEARN_TEST_LEDGER", raising=False)


class Simulator:
    """A simulator's member, groups and snapshots."""

    def __init__(self, play: Play, number: int, resumes: Path | None) -> None:
        self.name = f"simulator-{number}"
        path = play.folder / f"{self.name}.0"
        self.blocks = Blocks(make_segment(path, play.shape, number))
        self.member = Member(name=self.name, incarnation=0, segment=str(path))
        seeds = [[100 * number + 10 * g + b for b in range(ENVS)] for g in range(play.shape.groups)]
        self.groups = [Group(g, make(ENV, own), self.blocks, play.rollouts, play.reset) for g, own in enumerate(seeds)]
        if resumes is None:
            for group, own in zip(self.groups, seeds, strict=True):
                list(group.starts.first(3, own))
        else:
            restore(resumes / f"{self.name}.npz", self.groups, play.local)
        self.blocks.mark_ready()
        self.snapshots = Snapshots(str(play.folder), self.name, self.groups, play.rollouts, self.blocks)


class Play:
    """A run, from its start or from where another one stood."""

    def __init__(self, folder: Path, configuration: tuple[int, int, str, bool], before: Play | None = None) -> None:
        groups, blocks, self.reset, self.local = self.configuration = configuration
        self.folder = folder / str(next(COUNTER))
        self.folder.mkdir()
        self.rollouts = Rollouts(Segment.create(self.folder / "rollouts", rollouts_fields()))
        self.shape = BlockShape(
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
        self.batches = Batches(self.rollouts, account, blocks, "cpu", ["state", "value"], Episodes())
        self.turns = Turns(0, 0.0)
        self.learned = before.learned if before else 0
        self.digests = list(before.digests) if before else [1]
        """What has been learned by version of the weights, the last being the newest."""
        for version in (
            range(len(self.digests)) if before else [0]
        ):  # of each rollout that is open, what it was opened at
            self.rollouts.published(version, version, version)
            self.rollouts.raise_to(version + blocks)
        self.simulators = [Simulator(self, n, before.folder if before else None) for n in range(SEATS)]
        self.batches.follow([simulator.member for simulator in self.simulators], [])
        self.batches.open_after(self.learned)

    def event(self, random: np.random.Generator, learn: bool = True) -> None:
        """Let somebody, drawn, do what they can do now."""
        who = random.integers(SEATS + 1 + learn)
        if who < SEATS:
            for group in self.simulators[who].groups:
                if group.advance() == "observed" and self.local:
                    self.answer([(group.blocks, group.index, group.timestep)])
        elif who == SEATS and not self.local:
            for asked in self.turns.batches([simulator.blocks for simulator in self.simulators]):
                self.answer(asked)
        elif who > SEATS and (parts := self.batches.parts(self.learned)):
            self.learn(self.batches.take(self.learned, parts))

    def answer(self, asked: list[Asked]) -> None:
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
        self.learned += 1
        self.rollouts.published(self.learned, 0, self.learned)
        self.batches.open_after(self.learned)

    def interrupted(self, random: np.random.Generator) -> Play:
        """Take snapshots, of some later than of others, and go on from them in another run."""
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


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=str)
def configuration(request: pytest.FixtureRequest) -> tuple[int, int, str, bool]:
    return request.param


@pytest.fixture(scope="module")
def whole(configuration: tuple[int, int, str, bool], tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """What a run learns that nobody interrupts."""
    return Play(tmp_path_factory.mktemp("whole"), configuration).finish(np.random.default_rng(1))


def test_the_schedule_changes_nothing(
    configuration: tuple[int, int, str, bool], whole: list[int], tmp_path: Path
) -> None:
    assert len(set(whole)) == ROLLOUTS + 1
    assert Play(tmp_path, configuration).finish(np.random.default_rng(2)) == whole


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_a_run_that_is_interrupted_anywhere_learns_the_same(
    configuration: tuple[int, int, str, bool], whole: list[int], tmp_path: Path, part: int
) -> None:
    """After any number of events, in several groups at several timesteps; and again soon after that."""
    for events in range(part, 140, PARTS):
        random = np.random.default_rng(events)
        play = Play(tmp_path, configuration)
        for _ in range(events):
            play.event(random)
        play = play.interrupted(random)
        for _ in range(random.integers(40) if events % 3 else 0):
            play.event(random)
        assert play.interrupted(random).finish(random) == whole, f"interrupted after {events} events"


class Mute(Ledger):
    """Has the pair of methods, and does not do what they should."""

    def state(self) -> dict[str, Any]:
        raise ArithmeticError("it forgot")

    def restore(self, state: dict[str, Any]) -> None:
        raise ArithmeticError("it forgot")


def test_an_environment_that_raises_is_told_of_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    simulator = play.simulators[0]
    monkeypatch.setattr(simulator.groups[0].env, "state", Mute().state)
    for number in (1, 2):
        assert play.rollouts.ask(play.learned) == number
        assert simulator.snapshots.due
        said = simulator.snapshots.answer()
        assert said == ("no snapshot of the simulator can be taken: ArithmeticError: it forgot" if number == 1 else "")
        assert simulator.blocks.held == -number and not simulator.snapshots.due
    assert play.finish(random)
    assert not (play.folder / "simulator-0.npz").exists()


def test_a_full_disk_is_told_of_and_the_file_before_stays(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    path, simulator = play.folder / "simulator-0.npz", play.simulators[0]
    path.write_bytes(b"before")
    play.rollouts.ask(play.learned)
    with armed("standing.written=nospace"):
        assert "No space left on device" in simulator.snapshots.answer()
    assert simulator.blocks.held == -1
    play.rollouts.ask(play.learned)
    simulator.snapshots.answer()
    assert simulator.blocks.held == 2 and path.read_bytes()[:2] == b"PK"


def test_a_simulator_that_writes_no_snapshots_says_so(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    simulator = play.simulators[0]
    refuses = Snapshots("", simulator.name, simulator.groups, play.rollouts, simulator.blocks)
    play.rollouts.ask(play.learned)
    assert "settings.states" in refuses.answer() and simulator.blocks.held == -1


def test_a_snapshot_from_a_rollout_that_is_gone_is_refused(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    while play.learned < 3:
        play.event(random)
    play.rollouts.ask(0)
    assert "was asked for from rollout 0 on" in play.simulators[0].snapshots.answer()


@pytest.mark.parametrize("damage", ["missing", "empty", "half", "of_others", "other_horizon", "env"])
def test_a_file_that_nobody_can_go_on_from_is_refused_and_the_groups_can_begin(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(tmp_path, CONFIGURATIONS[0])
    random = np.random.default_rng(0)
    for _ in range(30):
        play.event(random)
    play.interrupted(random)
    path = play.folder / "simulator-0.npz"
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage in ("empty", "half"):
        path.write_bytes(whole[: len(whole) // 2 if damage == "half" else 0])
    fresh = Play(tmp_path, CONFIGURATIONS[1] if damage == "of_others" else CONFIGURATIONS[0])
    if damage == "other_horizon":
        fresh.simulators[0].blocks.segment["shape"][2] += 1
    groups = fresh.simulators[0].groups
    if damage == "env":
        monkeypatch.setattr(groups[0].env, "restore", Mute().restore)
    with pytest.raises(ValueError, match="simulator-0.npz: "):
        restore(path, groups, answers_itself=False)
    assert all(group.standing is None for group in groups)


def test_who_is_admitted_later_than_it_stood_begins_where_its_environments_are(tmp_path: Path) -> None:
    play = Play(tmp_path, CONFIGURATIONS[1])
    random = np.random.default_rng(3)
    while play.learned < 2:
        play.event(random)
    on = play.interrupted(random)
    late = on.simulators[0]
    newest = read_all(late.groups[0].standing.rows[next(iter(late.groups[0].standing.rows))][-1])  # type: ignore
    late.blocks.admit(on.learned + 3)
    late.groups[0].advance()
    assert late.groups[0].standing is None
    on.rollouts.raise_to(on.learned + 4)
    assert late.groups[0].advance() == "observed"
    assert late.blocks.observed(0) == (on.learned + 3) * HORIZON + 1
    shown = read_all(late.blocks.row("observation", 0, (on.learned + 3) * HORIZON))
    assert [row.stream for row in shown] == [row.stream for row in newest]
