"""The rollout protocol under random schedules: simulators come, go and die, and no transition is used twice.

Simulators, inference and batches are the real classes over real segments in one process. The environment is a ledger
whose observation tells who saw it and when. The network is one whose state is the number of rows of a game that it has
seen. Hypothesis draws the schedule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorlearn.address import Shm
from actorlearn.algorithms.interface import Batch
from actorlearn.envs.interface import EnvSpec, Row
from actorlearn.memory.account import Account, account_fields
from actorlearn.memory.rollout import (
    Blocks,
    BlockShape,
    Rollouts,
    RowsAsked,
    make_segment,
    rollouts_fields,
    steps_in_flight,
    unfinished_steps,
)
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.counts import TrainerCounts
from actorlearn.processes.inference import Batching, due_rows
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.simulator import EnvGroup
from actorlearn.wire.messages import Member
from tests import named
from tests.blocks import block_shape
from tests.examples import examples
from tests.identities import process

HORIZON = 3
DEADLINE_S = 1.0
ENVS = 2
Cell = tuple[float, ...]
COUNTER = itertools.count()


LENGTHS = (5, 6)
"""Steps of a game in each environment; every step is worth 1."""


class Ledger:
    """Observation = (member, group, environment, game, step of the game)."""

    spec = EnvSpec(observation_shape=(5,), observation_dtype="float32", actions=2, frames_per_step=1)
    count = ENVS

    def __init__(self, member: int, group: int, reset: str) -> None:
        self.identity = (member, group)
        self.waits = reset == "wait"
        self.void = np.zeros(ENVS, np.bool_)
        """Environments whose game has ended in this block; their next steps in it are not learned from."""
        self.steps_taken = 0
        """Since the first rollout began."""
        self.games = np.zeros(ENVS, np.int64)
        self.steps = np.zeros(ENVS, np.int64)
        self.acted: list[int] = []

    def reset(self, row: Row) -> None:
        self._write(row, np.ones(ENVS, np.bool_))

    def restart(self, chosen: npt.NDArray[np.bool_], row: Row) -> None:
        assert chosen.any()
        self.games[chosen] += 1
        self.steps[chosen] = 0
        self.void[chosen] = False
        self._write(row, chosen)

    def random_actions(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        return random.integers(2, size=ENVS)

    def step(self, action: npt.NDArray[np.int64], row: Row) -> None:
        assert (action >= 0).all(), "stepped with poison instead of an action"
        self.acted.append(int(action[0]))
        over = self.steps == LENGTHS
        self.steps_taken += int((~over & ~self.void).sum())
        self.games[over] += 1
        self.steps = np.where(over, 0, self.steps + 1)
        if self.waits:
            self.void |= self.steps == LENGTHS
        self._write(row, np.ones(ENVS, np.bool_))

    def close(self) -> None:
        pass

    def _write(self, row: Row, chosen: npt.NDArray[np.bool_]) -> None:
        for b in np.flatnonzero(chosen):
            row.observation[b] = (*self.identity, b, self.games[b], self.steps[b])
            row.first[b] = self.steps[b] == 0
            row.reward[b] = 0.0 if row.first[b] else 1.0
            row.terminated[b] = self.steps[b] == LENGTHS[b]
            row.truncated[b] = row.life_lost[b] = False


def following(row: Cell) -> Cell:
    """The row that a step leads to."""
    *place, game, step = row
    return (*place, game + 1.0, 0.0) if step == LENGTHS[int(place[2])] else (*place, game, step + 1.0)


class Simulator:
    """One simulator as the supervisor sees it: a member with its groups."""

    def __init__(self, folder: Path, rollouts: Rollouts, shape: BlockShape, reset: str, decorrelation: int) -> None:
        self.number = next(COUNTER)
        path = folder / f"simulator-{self.number}.0"
        self.blocks = Blocks(make_segment(path, shape))
        self.member = Member(id=process(f"simulator-{self.number}"), segment=Shm(str(path)))
        self.envs = [Ledger(self.number, g, reset) for g in range(shape.groups)]
        self.groups = [EnvGroup(g, env, self.blocks, rollouts, reset) for g, env in enumerate(self.envs)]

        self.decorrelation = decorrelation
        self.begins: dict[Cell, Cell] = {}
        """The very first row of each environment, of all simulators together."""

    def start(self) -> None:
        for group, env in zip(self.groups, self.envs, strict=True):
            list(group.starts.first(self.decorrelation, [self.number, group.index]))
            env.steps_taken = 0
            env.void[:] = False
            for b in range(ENVS):
                place = (float(self.number), float(group.index), float(b))
                self.begins[place] = (*place, float(env.games[b]), float(env.steps[b]))
        self.blocks.mark_ready()

    def advance(self) -> list[str]:
        if not self.blocks.ready:
            self.start()
        return [group.advance() for group in self.groups]


class Protocol(RuleBasedStateMachine):
    """Any interleaving of steps, answers, updates, arrivals, departures and deaths."""

    folder: Path

    @initialize(
        groups=st.integers(1, 2),
        blocks=st.integers(1, 3),
        count=st.integers(1, 3),
        reset=st.sampled_from(["inside", "wait"]),
        most=st.none() | st.integers(0, 2),
        batch_rows=st.integers(0, 6),
        decorrelation=st.sampled_from([0, 9]),
    )
    def start(
        self,
        groups: int,
        blocks: int,
        count: int,
        reset: str = "inside",
        most: int | None = None,
        batch_rows: int = 0,
        decorrelation: int = 0,
    ) -> None:
        self.folder_of_this_run = self.folder / str(next(COUNTER))
        self.folder_of_this_run.mkdir()
        self.rollouts = Rollouts(Segment.create(self.folder_of_this_run / "rollouts", rollouts_fields()))
        self.account_segment = Segment.create(self.folder_of_this_run / "account", account_fields())
        self.shape = block_shape(
            groups=groups, blocks=blocks, horizon=HORIZON, envs_per_group=ENVS, observation_shape=(5,), state_size=1
        )
        self.reset, self.decorrelation = reset, decorrelation
        self.now_s = 0.0
        self.batching = Batching(batch_rows, DEADLINE_S * 1000, lambda: self.now_s) if batch_rows else None
        self.at_once = named.algorithm(max_policy_lag=most).open_rollouts(blocks)
        self.gone: dict[str, Simulator] = {}
        """Simulators that have ended and whose segments still exist."""
        self._start_trainer()
        self.begins: dict[Cell, Cell] = {}
        self.ended: list[Simulator] = []
        """All simulators that have ended."""
        self.simulators = [self.one_more() for _ in range(count)]
        self.leaving: list[str] = []
        self.version = 0
        self.steps_used = 0
        self.seen: set[Cell] = set()
        self.next_row: dict[Cell, Cell] = {}
        """The row that the next block of each environment begins with."""
        self.tell_who_is_there()

    def _start_trainer(self) -> None:
        self.episodes = Episodes()
        self.account = Account(self.account_segment)
        self.members = RolloutMembers(self.rollouts, self.account, self.episodes, self.at_once)
        self.gatherer = Gatherer(self.rollouts, "cpu", ["state"])
        self.counts = TrainerCounts(self.account, self.episodes)
        self.begun: set[Cell] = set()
        """Games whose first row this trainer has seen."""
        self.whole_games = 0

    def one_more(self) -> Simulator:
        made = Simulator(self.folder_of_this_run, self.rollouts, self.shape, self.reset, self.decorrelation)
        made.begins = self.begins
        return made

    def get_ready(self) -> None:
        for simulator in self.simulators:
            if not simulator.blocks.ready:
                simulator.start()

    def tell_who_is_there(self) -> None:
        """Give the trainer an order as the supervisor does, which first hears which members were released."""
        for peer in self.members.released:
            if ended := self.gone.pop(peer, None):
                ended.member.segment.file.unlink()
        self.members.released.clear()
        self.members.follow([s.member for s in self.simulators], self.leaving, [s.member for s in self.gone.values()])

    def _end(self, simulator: Simulator) -> None:
        self.simulators.remove(simulator)
        self.ended.append(simulator)
        self.gone[simulator.member.id.socket_id] = simulator

    @rule(data=st.data())
    def simulate(self, data: st.DataObject) -> None:
        if not self.simulators:
            return
        simulator = data.draw(st.sampled_from(self.simulators))
        results = simulator.advance()
        if all(result == "left" for result in results):
            self._end(simulator)
            self.tell_who_is_there()

    @rule(group=st.integers(0, 1), killed=st.booleans())
    def infer(self, group: int, killed: bool = False) -> None:
        members = [simulator.blocks for simulator in self.simulators]
        if self.batching is not None:
            for asked in self.batching.batches(members):
                self._act(asked, killed)
        elif group < self.shape.groups:
            self._act(due_rows(members, group), killed)

    def _act(self, asked: list[RowsAsked], killed: bool) -> None:
        for blocks, group, timestep in asked:
            assert (blocks.acted(group), blocks.observed(group)) == (timestep, timestep + 1)
            first = blocks.row("first", group, timestep)[:, None]
            blocks.row("action", group, timestep)[:] = timestep
            blocks.row_after("state", group, timestep)[:] = (
                np.where(first, 0.0, blocks.row("state", group, timestep)) + 1.0
            )
            if killed:
                return  # the next server finds this row unanswered, and answers it and the others
            blocks.mark_acted(group, timestep, self.version)

    @rule()
    def let_time_pass(self) -> None:
        self.now_s += DEADLINE_S

    @rule(killed=st.sampled_from(["", "released", "committed"]))
    def learn(self, killed: str = "") -> None:
        """Learn from a rollout, or pass over one; the trainer may be killed before or after it commits that."""
        parts = self.members.parts()
        if parts is None:
            self.members.unblock()
            return
        if killed == "released":  # what it learns of this rollout is lost: it has not been committed
            self.account.rollouts_learned += 1
            self.members.release()
            self._restart()
            return
        gathered = self.gatherer.gather(self.members.next, parts, self.version)
        batch = gathered.batch
        self.counts.finish_rollout(gathered)
        for b in range(batch.action.shape[1]):
            self._check(batch.environments(torch.tensor([b])))
        assert self.episodes.finished == self.whole_games
        versions = [blocks.block("policy_version", group, gathered.rollout)[:-1] for _, blocks, group in parts]
        lag = self.version - np.stack(versions, axis=1).repeat(ENVS, axis=1)
        np.testing.assert_array_equal(batch.policy_lag.numpy(), lag)
        assert (lag >= 0).all() and (lag < self.at_once).all(), "older than the open rollouts allow"
        self.steps_used += gathered.steps
        self.account.steps.used += gathered.steps
        self.version += 1
        if killed == "committed":
            self.members.release()
            self.account.commit()
            self._restart()
            return
        self.members.open_next()

    def _check(self, batch: Batch) -> None:
        """One environment's block is what its ledger wrote, and follows the block before."""
        rows = [tuple(row) for row in batch.observation[:, 0].tolist()]
        environment, length = rows[0][:3], LENGTHS[int(rows[0][2])]
        begin = self.begins[environment]
        assert rows[0] == self.next_row.get(environment, begin), "a committed row was skipped"
        unseen = begin[4] if rows[0][:4] == begin[:4] else 0.0
        known = batch.columns["state"][0, 0, 0].where(~batch.first[0, 0], 0.0)
        assert known == rows[0][4] - unseen, "the network's state is not that of the rows it has seen of this game"
        assert self.seen.isdisjoint(rows[:-1]), "a row was learned from twice"
        self.seen.update(rows[:-1])
        over = False
        self.begun |= {row[:4] for row in rows if row[4] == 0.0}
        for t, (row, after) in enumerate(itertools.pairwise(rows)):
            assert after == following(row), "a transition joins rows that do not follow one another"
            void = over if self.reset == "wait" else after[4] == 0.0
            ended = after[4] == length and not void
            assert bool(batch.valid[t, 0]) != void
            assert batch.reward[t, 0] == (0.0 if void else 1.0)
            assert bool(batch.terminated[t, 0]) == ended
            assert batch.action[t, 0] >= 0
            self.whole_games += ended and after[:4] in self.begun
            over = over or ended
        restarted = over and self.reset == "wait"
        self.next_row[environment] = (*environment, rows[-1][3] + 1.0, 0.0) if restarted else rows[-1]

    @rule()
    @precondition(lambda self: len(self.simulators) < 4)
    def attach(self) -> None:
        self.simulators.append(self.one_more())
        self.tell_who_is_there()

    @rule(data=st.data())
    @precondition(lambda self: len(self.simulators) > 1)
    def detach(self, data: st.DataObject) -> None:
        self.leaving.append(data.draw(st.sampled_from(self.simulators)).member.id.name)
        self.tell_who_is_there()

    @rule(data=st.data(), unheard=st.booleans())
    def kill(self, data: st.DataObject, unheard: bool = False) -> None:
        if not self.simulators:
            return
        simulator = data.draw(st.sampled_from(self.simulators))
        self._end(simulator)
        self.simulators.append(self.one_more())
        if unheard:
            self._start_trainer()  # a trainer that has never known the dead simulator
        self.tell_who_is_there()

    @rule(died_before_opening=st.booleans())
    def restart_trainer(self, died_before_opening: bool) -> None:
        waiting = self.members.pending.values()
        if died_before_opening and not self.members.playing and all(blocks.ready for blocks in waiting):
            for blocks in waiting:
                blocks.admit(self.rollouts.open)
        self._restart()

    def _restart(self) -> None:
        self._start_trainer()
        self.tell_who_is_there()

    @invariant()
    def every_step_is_accounted_for(self) -> None:
        """Produced = used + dropped + in flight, by what the environments' own blocks say and what is committed."""
        if not hasattr(self, "leaving"):
            return
        produced = sum(env.steps_taken for s in (*self.simulators, *self.ended) for env in s.envs)
        _, counts = self.account.read_committed()
        in_flight = sum(
            steps_in_flight(s.blocks, self.account.rollouts_learned)
            for s in (*self.simulators, *self.gone.values())
            if not 0 < s.blocks.released <= self.account.commits
        )
        assert counts.used == self.steps_used
        assert produced == counts.used + counts.dropped_steps + in_flight

    @invariant()
    def scores_are_whole_games(self) -> None:
        if hasattr(self, "episodes"):
            assert set(self.episodes.recent) <= set(LENGTHS)
            assert self.episodes.recent == self.episodes.recent_lengths

    def teardown(self) -> None:
        """Whatever happened, the run goes on: with everyone taking turns, rollouts are learned again."""
        if not hasattr(self, "leaving"):
            return
        self.leaving = []
        if not self.simulators:
            self.attach()
        goal = self.account.rollouts_learned + 3
        for _ in range(400):
            for simulator in list(self.simulators):
                if all(result == "left" for result in simulator.advance()):
                    self._end(simulator)
                    self.simulators = self.simulators or [self.one_more()]
                    self.tell_who_is_there()
            for group in range(self.shape.groups):
                self.infer(group)
            self.let_time_pass()
            self.learn()
            if self.account.rollouts_learned >= goal:
                return
        raise AssertionError(f"stuck in rollout {self.account.rollouts_learned}: everyone waits for someone else")


Protocol.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=60, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def machine(folder: None) -> Protocol:
    """The machine, for a history that a test writes by hand."""
    return Protocol()


def test_a_rollout_whose_only_participant_has_died_is_passed_over(machine: Protocol) -> None:
    machine.start(groups=1, blocks=2, count=1)
    machine.get_ready()
    machine.learn()  # takes the member, opens rollouts 0 and 1
    for _ in range(2 * HORIZON):
        machine.simulators[0].groups[0].advance()
        machine.infer(group=0)
    machine.attach()
    machine.get_ready()
    machine.learn()
    first, second = (simulator.blocks for simulator in machine.simulators)
    assert (machine.account.rollouts_learned, machine.rollouts.open) == (1, 3)
    assert (first.joined, second.joined) == (0, 2)
    assert first.completed(0) == 1, "the first is in the middle of rollout 1"
    machine.simulators[0] = machine.one_more()
    machine.tell_who_is_there()
    machine.teardown()
    assert machine.simulators[0].blocks.joined > 0, "its successor takes part again"


def test_a_member_told_to_leave_before_it_was_admitted_leaves(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=2)
    machine.get_ready()
    machine.leaving = [machine.simulators[1].member.id.name]
    machine.tell_who_is_there()
    machine.learn()
    assert [simulator.groups[0].advance() for simulator in machine.simulators] == ["observed", "left"]


def test_at_the_start_no_simulator_is_admitted_before_all_are_ready(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=2)
    one, other = machine.simulators
    one.start()
    machine.learn()
    assert [simulator.blocks.joined for simulator in machine.simulators] == [-1, -1]
    other.start()
    machine.learn()
    assert [simulator.blocks.joined for simulator in machine.simulators] == [0, 0]


def test_a_simulator_that_is_attached_later_is_not_waited_for(machine: Protocol) -> None:
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
    assert (machine.account.rollouts_learned, late.blocks.joined) == (3, -1)
    late.start()
    for _ in range(HORIZON + 1):
        working.advance()
        machine.infer(group=0)
    machine.learn()
    assert (machine.account.rollouts_learned, late.blocks.joined) == (4, 4)


def test_only_steps_that_were_taken_are_counted_as_unfinished(machine: Protocol) -> None:
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


def play_rollouts(machine: Protocol, rollouts: int) -> None:
    """Let the only simulator finish so many rollouts, and learn from each."""
    for _ in range(rollouts):
        while machine.simulators[0].advance() != ["completed"]:
            machine.infer(group=0)
        machine.learn()


def test_the_reset_of_a_game_is_not_counted_as_an_unfinished_step(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=1)
    machine.get_ready()
    machine.learn()
    play_rollouts(machine, 2)
    (simulator,) = machine.simulators
    simulator.advance()  # row 0 of rollout 2: step 0 of the second game, step 6 and last of the first
    machine.infer(group=0)
    simulator.advance()
    assert unfinished_steps(simulator.blocks, 0) == 1


def test_with_reset_wait_games_begin_while_the_trainer_learns_from_the_block_before(machine: Protocol) -> None:
    machine.start(groups=1, blocks=1, count=1, reset="wait")
    machine.get_ready()
    machine.learn()
    play_rollouts(machine, 1)
    (simulator,) = machine.simulators
    while simulator.advance() != ["completed"]:
        machine.infer(group=0)
    before = simulator.blocks.block("observation", 0, 1).copy()
    assert simulator.advance() == ["waiting"], "the rollout is not open yet"
    assert simulator.envs[0].steps.tolist() == [0, 0], "both games have ended in rollout 1"
    np.testing.assert_array_equal(simulator.blocks.block("observation", 0, 1), before)
    machine.learn()
    simulator.advance()
    assert simulator.blocks.row("first", 0, 2 * HORIZON).all()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Segments of all examples lie in one temporary folder."""
    Protocol.folder = tmp_path_factory.mktemp("segments")
    yield


TestProtocol = pytest.mark.usefixtures("folder")(Protocol.TestCase)
