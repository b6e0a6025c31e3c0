"""The words that say whose turn it is, under random schedules: simulators come, go and die; nothing is used twice.

Simulators, inference and batches are the real classes over real segments in one process; only the environment is
replaced, by a ledger whose observation says who saw it and when, and the schedule is drawn by hypothesis. The network
is replaced by one that counts: its state is the number of rows of a game that it has seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorlearn.envs.interface import EnvSpec, Row
from actorlearn.memory.rollout import Blocks, BlockShape, Rounds, make_segment, rounds_fields, unfinished_steps
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Batches
from actorlearn.processes.inference import due
from actorlearn.processes.simulator import Group
from actorlearn.wire.messages import Seat

HORIZON = 3
ENVS = 2
COUNTER = itertools.count()


class Ledger:
    """Observation = (seat, group, environment, step number); games of 5 steps, each step worth 1."""

    spec = EnvSpec(observation_shape=(4,), observation_dtype="float32", actions=2, frames_per_step=1)
    count = ENVS

    def __init__(self, seat: int, group: int) -> None:
        self.identity = (seat, group)
        self.steps = 0
        self.acted: list[int] = []

    def reset(self, row: Row) -> None:
        self._write(row, first=True)

    def restart(self, chosen: Any, row: Row) -> None:
        raise AssertionError("no game has to be restarted")

    def random_actions(self, random: np.random.Generator) -> Any:
        return random.integers(2, size=ENVS)

    def step(self, action: Any, row: Row) -> None:
        assert (action >= 0).all(), "stepped with poison instead of an action"
        self.acted.append(int(action[0]))
        self.steps += 1
        self._write(row, first=self.steps % 6 == 0)

    def close(self) -> None:
        pass

    def _write(self, row: Row, first: bool) -> None:
        for environment in range(ENVS):
            row.observation[environment] = (*self.identity, environment, self.steps)
        row.reward[:] = 0.0 if first else 1.0
        row.first[:] = first
        row.terminated[:] = self.steps % 6 == 5
        row.truncated[:] = row.life_lost[:] = False


class Simulator:
    """One simulator as the supervisor sees it: a seat with its groups."""

    def __init__(self, folder: Path, rounds: Rounds, shape: BlockShape) -> None:
        self.number = next(COUNTER)
        path = folder / f"simulator-{self.number}.0"
        self.blocks = Blocks(make_segment(path, shape))
        self.seat = Seat(name=f"simulator-{self.number}", incarnation=0, segment=str(path))
        self.envs = [Ledger(self.number, g) for g in range(shape.groups)]
        self.groups = [Group(g, env, self.blocks, rounds) for g, env in enumerate(self.envs)]

    def start(self) -> None:
        for group in self.groups:
            list(group.start(0, [self.number, group.index]))
        self.blocks.mark_ready()

    def advance(self) -> list[str]:
        if not self.blocks.ready:
            self.start()
        return [group.advance() for group in self.groups]


class Protocol(RuleBasedStateMachine):
    """Any interleaving of steps, answers, updates, arrivals, departures and deaths."""

    folder: Path

    @initialize(groups=st.integers(1, 2), blocks=st.integers(1, 3), count=st.integers(1, 3))
    def start(self, groups: int, blocks: int, count: int) -> None:
        self.folder_of_this_run = self.folder / str(next(COUNTER))
        self.folder_of_this_run.mkdir()
        self.rounds = Rounds(Segment.create(self.folder_of_this_run / "rounds", rounds_fields()))
        self.shape = BlockShape(
            actions=2,
            groups=groups,
            blocks=blocks,
            horizon=HORIZON,
            envs_per_group=ENVS,
            observation_shape=(4,),
            observation_dtype="float32",
            state_size=1,
        )
        self.episodes = Episodes()
        self.batches = Batches(self.rounds, blocks, "cpu", ["state"], self.episodes)
        self.simulators = [self._simulator() for _ in range(count)]
        self.leaving: list[str] = []
        self.learned = 0
        self.version = 0
        self.steps_used = 0
        self.seen: set[tuple[float, ...]] = set()
        self.next_step: dict[tuple[float, float, float], float] = {}
        self._order()

    def _simulator(self) -> Simulator:
        return Simulator(self.folder_of_this_run, self.rounds, self.shape)

    def get_ready(self) -> None:
        for simulator in self.simulators:
            if not simulator.blocks.ready:
                simulator.start()

    def _order(self) -> None:
        self.batches.follow([s.seat for s in self.simulators], self.leaving)

    @rule(data=st.data())
    def simulate(self, data: st.DataObject) -> None:
        if not self.simulators:
            return
        simulator = data.draw(st.sampled_from(self.simulators))
        results = simulator.advance()
        if all(result == "left" for result in results):
            self.simulators.remove(simulator)
            self._order()

    @rule(group=st.integers(0, 1), killed=st.booleans())
    def infer(self, group: int, killed: bool = False) -> None:
        if group >= self.shape.groups:
            return
        tick, seats = due([s.blocks for s in self.simulators], group)
        for blocks in seats:
            first = blocks.row("first", group, tick)[:, None]
            blocks.row("action", group, tick)[:] = tick
            blocks.row_after("state", group, tick)[:] = np.where(first, 0.0, blocks.row("state", group, tick)) + 1.0
            if killed:
                return  # the next server finds this row unanswered, and answers it and the others
            blocks.mark_acted(group, tick, self.version)

    @rule()
    def learn(self) -> None:
        parts = self.batches.parts(self.learned)
        if parts is None:
            self.learned = self.batches.unblock(self.learned)
            return
        batch = self.batches.take(self.learned, parts)
        observation = batch.observation.numpy()
        for t, b in np.ndindex(*batch.action.shape):
            row, after = tuple(observation[t, b]), tuple(observation[t + 1, b])
            assert row not in self.seen, "a row was learned from twice"
            self.seen.add(row)
            assert after == (*row[:3], row[3] + 1), "a transition joins rows that do not follow one another"
            assert self.next_step.get(row[:3], 0.0) == row[3], "a committed row was skipped"
            self.next_step[row[:3]] = row[3] + 1
            assert batch.action[t, b] >= 0
            over = row[3] % 6 == 5
            assert bool(batch.valid[t, b]) != over
            assert batch.reward[t, b] == (0.0 if over else 1.0)
            assert bool(batch.terminated[t, b]) == (after[3] % 6 == 5)
        seen_before = batch.columns["state"][0, :, 0].where(~batch.first[0], 0.0)
        assert seen_before.tolist() == [row[3] % 6 for row in observation[0]]
        lag = self.version - batch.policy_version.numpy()
        assert (lag >= 0).all() and (lag < self.shape.blocks).all(), "older than the open rounds allow"
        self.steps_used += batch.valid.numel()
        self.learned += 1
        self.version += 1
        self.batches.open_after(self.learned)

    @rule()
    @precondition(lambda self: len(self.simulators) < 4)
    def attach(self) -> None:
        self.simulators.append(self._simulator())
        self._order()

    @rule(data=st.data())
    @precondition(lambda self: len(self.simulators) > 1)
    def detach(self, data: st.DataObject) -> None:
        self.leaving.append(data.draw(st.sampled_from(self.simulators)).seat.name)
        self._order()

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        if not self.simulators:
            return
        simulator = data.draw(st.sampled_from(self.simulators))
        self.simulators[self.simulators.index(simulator)] = self._simulator()
        self._order()

    @rule(died_before_opening=st.booleans())
    def restart_trainer(self, died_before_opening: bool) -> None:
        waiting = self.batches.pending.values()
        if died_before_opening and not self.batches.seats and all(blocks.ready for blocks in waiting):
            for blocks in waiting:
                blocks.admit(self.rounds.open)
        self.episodes = Episodes()
        self.batches = Batches(self.rounds, self.shape.blocks, "cpu", ["state"], self.episodes)
        self.learned = max(self.learned, self.rounds.open - self.shape.blocks)
        self._order()

    @invariant()
    def scores_are_whole_games(self) -> None:
        if hasattr(self, "episodes"):
            assert all(score == 5.0 for score in self.episodes.recent)

    def teardown(self) -> None:
        """Whatever happened, the run goes on: with everyone taking turns, rounds are learned again."""
        if not hasattr(self, "learned"):
            return
        self.leaving = []
        if not self.simulators:
            self.attach()
        goal = self.learned + 3
        for _ in range(400):
            for simulator in list(self.simulators):
                if all(result == "left" for result in simulator.advance()):
                    self.simulators.remove(simulator)
                    self.simulators = self.simulators or [self._simulator()]
                    self._order()
            for group in range(self.shape.groups):
                self.infer(group)
            self.learn()
            if self.learned >= goal:
                return
        raise AssertionError(f"stuck in round {self.learned}: everyone waits for someone else")


Protocol.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def machine(folder: None) -> Protocol:
    """The machine, to be led by hand through one history."""
    return Protocol()


def test_a_round_whose_only_participant_has_died_is_passed_over(machine: Protocol) -> None:
    machine.start(groups=1, blocks=2, count=1)
    machine.get_ready()
    machine.learn()  # takes the seat, opens rounds 0 and 1
    for _ in range(2 * HORIZON):
        machine.simulators[0].groups[0].advance()
        machine.infer(group=0)
    machine.attach()
    machine.get_ready()
    machine.learn()
    first, second = (simulator.blocks for simulator in machine.simulators)
    assert (machine.learned, machine.rounds.open) == (1, 3)
    assert (first.joined, second.joined) == (0, 2)
    assert first.completed(0) == 1, "the first is in the middle of round 1"
    machine.simulators[0] = machine._simulator()
    machine._order()
    machine.teardown()
    assert machine.simulators[0].blocks.joined > 0, "its successor takes part again"


def test_a_seat_told_to_leave_before_it_was_admitted_leaves(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=2)
    machine.get_ready()
    machine.leaving = [machine.simulators[1].seat.name]
    machine._order()
    machine.learn()
    assert [simulator.groups[0].advance() for simulator in machine.simulators] == ["observed", "left"]


def test_at_the_start_nobody_begins_before_all_are_ready(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=2)
    one, other = machine.simulators
    one.start()
    machine.learn()
    assert [simulator.blocks.joined for simulator in machine.simulators] == [-1, -1]
    other.start()
    machine.learn()
    assert [simulator.blocks.joined for simulator in machine.simulators] == [0, 0]


def test_who_arrives_later_is_not_waited_for(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=1)
    machine.get_ready()
    machine.learn()
    machine.attach()
    working, late = machine.simulators
    for _ in range(3):
        for _ in range(HORIZON):
            working.advance()
            machine.infer(group=0)
        assert working.advance() == ["completed"]
        machine.learn()
    assert (machine.learned, late.blocks.joined) == (3, -1)
    late.start()
    for _ in range(HORIZON + 1):
        working.advance()
        machine.infer(group=0)
    machine.learn()
    assert (machine.learned, late.blocks.joined) == (4, 4)


def test_only_steps_are_counted_as_lost(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=2)
    machine.get_ready()
    machine.learn()
    victim = machine.simulators[0]
    victim.groups[0].advance()  # the first observation of a game: nothing was done yet
    assert unfinished_steps(victim.blocks, 0) == 0
    machine.simulators[1].groups[0].advance()
    machine.infer(group=0)
    victim.groups[0].advance()
    assert unfinished_steps(victim.blocks, 0) == ENVS


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Segments of all examples lie in one temporary folder."""
    Protocol.folder = tmp_path_factory.mktemp("segments")
    yield


TestProtocol = pytest.mark.usefixtures("folder")(Protocol.TestCase)
