"""A replay through any history: simulators that come, go and miss rollouts, kills anywhere, saves and resumes.

Held against whole games (``tests/replay/games.py``) and a plain dictionary of priorities, whatever happened.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actorlearn import failpoints
from actorlearn.algorithms.settings import OffPolicySettings
from actorlearn.failpoints import Killed
from actorlearn.memory.shared import Segment
from actorlearn.replay.buffer import Replay
from actorlearn.replay.rows import ReplayShape, replay_fields
from actorlearn.replay.samplers import Prioritised, Sampler, Uniform
from actorlearn.replay.sum_tree import SumTree
from tests.examples import examples
from tests.replay.games import Place, Stream, everything, owed, place_of, stored_and_right
from tests.replay.ledger import ENVS, Game, LedgerEnv, Simulated

ADDING = ("buffer.history", "buffer.rows", "buffer.added")
FLUSHING = (
    "buffer.whole",
    "record.written",
    "record.committed",
    "buffer.removed",
    "buffer.inserted",
    "sum_tree.leaves",
)
STAY = "simulator-{}.0/0"
MOST_WAITING = 3
"""Rollouts between two flushes."""


class Histories(RuleBasedStateMachine):
    """Two simulators at a time; what was added since the last flush is added again by who takes up a killed one."""

    @initialize(
        numbers=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
        size=st.integers(0, 20),
        reset=st.sampled_from(["inside", "wait"]),
        prioritised=st.booleans(),
        items=st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 2), (5, 4)]),
    )
    def begin(
        self, numbers: tuple[int, int, int], size: int, reset: str, prioritised: bool, items: tuple[int, int]
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="replay-"))
        stack, steps, self.horizon = numbers
        self.reset, self.returns, self.names = reset, OffPolicySettings(n_step=steps, discount=0.9), itertools.count()
        margin = (self.horizon + 1) * MOST_WAITING
        self.shape = ReplayShape(
            rings=2 * ENVS,
            size=margin + stack + steps + sum(items) - 2 + size,
            margin=margin,
            stack=stack,
            observation_shape=(stack, 3),
            observation_dtype="float32",
            actions=4,
            prioritised=prioritised,
            length=items[0],
            every=items[1],
            state_size=3 if items[0] > 1 else 0,
        )
        self.games: dict[int, list[Game]] = {}
        self.priorities: dict[Place, float] = {}
        self.largest, self.flushes = 1.0, 0
        self.waiting: list[dict[str, tuple[int, dict[str, np.ndarray]]]] = []
        """Rollouts added since the last flush: of each owner -> number and block."""
        self._create()
        self.here = [self._come(), self._come()]

    # What happens ------------------------------------------------------------------------------------------------

    @rule(kill=st.none() | st.sampled_from(ADDING), nth=st.integers(1, 6), missed=st.sampled_from([None] * 5 + [0, 1]))
    def play(self, kill: str | None, nth: int, missed: int | None) -> None:
        if len(self.waiting) == MOST_WAITING:
            self.flush(None, 1)
        self.waiting.append({})
        for number, stream in enumerate(self.here):
            rollout, block = stream.simulator.play()
            if number == missed:
                stream.whole = False
                continue
            stream.note(block)
            copied = {name: column.copy() for name, column in block.items()}
            self.waiting[-1][stream.owner] = rollout, copied
        self._may_be_killed(kill, nth, lambda: self._add(self.waiting[-1]), self.flushes + 1)

    @rule(kill=st.none() | st.sampled_from(FLUSHING), nth=st.integers(1, 2))
    def flush(self, kill: str | None, nth: int) -> None:
        self.flushes += 1
        self._may_be_killed(kill, nth, lambda: self.replay.flush(self.flushes), self.flushes)
        if self.replay.rollouts < self.flushes:
            self.replay.flush(self.flushes)
        self.waiting.clear()
        self._check()

    @rule(seed=st.integers(0, 100))
    def prioritise(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        if not self.shape.prioritised or not any(self.priorities.values()):
            return
        sample = self.replay.sample(4, random)
        given = random.integers(4, size=4) * 1.5
        self.replay.update(sample, given)
        for observation, priority in zip(sample.observation[0], given, strict=True):
            self.priorities[place_of(observation)] = priority
        self.largest = max(self.largest, *given)

    @rule(number=st.integers(0, 1))
    def another_comes(self, number: int) -> None:
        self.here.pop(number)
        self.here.append(self._come())

    @rule(exactly=st.booleans())
    def resume(self, exactly: bool) -> None:
        """Save, and go on in memory that is new; what waits for a flush comes again where it goes on exactly."""
        saved = self.folder / f"saved-{next(self.names)}"
        saved.mkdir()
        state = self.replay.save(saved)
        self._create()
        self.replay.restore(saved, state, goes_on=exactly)
        if not exactly:
            self.here = [self._come(), self._come()]
            self.waiting.clear()
            return
        number = next(self.names)
        for stream in self.here:
            stream.owner = _incarnation(stream.owner, number)
        for place, blocks in enumerate(self.waiting):
            self.waiting[place] = {_incarnation(owner, number): block for owner, block in blocks.items()}
            self._add(self.waiting[place])

    # How ---------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        self.path = self.folder / f"replay-{next(self.names)}"
        Segment.create(self.path, replay_fields(self.shape)).close()
        self._open()

    def _open(self) -> None:
        self.segment, cells = Segment.open(self.path), self.shape.rings * self.shape.rows
        sampler: Sampler = Uniform(cells)
        if self.shape.prioritised:
            sampler = Prioritised(cells, 1.0, (self.segment["tree"], self.segment["largest"]))
        self.replay = Replay(self.segment, self.shape, self.returns, sampler)
        self.replay.recover()

    def _come(self) -> Stream:
        env = LedgerEnv(self.shape.stack, next(self.names))
        self.games |= env.by_name()
        simulated = Simulated(self.folder, env, self.horizon, self.reset, 0, self.shape.state_size)
        return Stream(simulated, STAY.format(env.names[0]))

    def _add(self, blocks: dict[str, tuple[int, dict[str, np.ndarray]]]) -> None:
        self.replay.leave_to(blocks)
        for owner, (rollout, block) in blocks.items():
            assert self.replay.add(owner, rollout, block)

    def _may_be_killed(self, kill: str | None, nth: int, deed: Callable[[], None], flush: int) -> None:
        """Do it; who takes it up adds again what is to come with that flush."""
        with failpoints.armed(f"{kill}=raise@{nth}" if kill else "") as arms, suppress(Killed):
            deed()
        if arms.acted:
            self._open()
            for blocks in self.waiting if self.replay.rollouts < flush else []:
                self._add(blocks)

    def _check(self) -> None:
        stored = stored_and_right(self.replay, self.games)
        for stream in self.here:
            assert owed(self.replay, stream) <= stored
        if not isinstance(self.replay.sampler, Prioritised):
            return
        self.priorities = {place: self.priorities.get(place, self.largest) for place in stored}
        leaves, sample = self.replay.sampler.arrays()["priority"], everything(self.replay)
        assert dict(zip(map(place_of, sample.observation[0]), leaves[sample.cell], strict=True)) == self.priorities
        anew = np.zeros_like(self.segment["tree"])
        SumTree(len(leaves), anew).fill(leaves)
        assert np.array_equal(anew[1:], self.segment["tree"][1:])
        assert (leaves > 0).sum() == sum(priority > 0 for priority in self.priorities.values())

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def _incarnation(owner: str, number: int) -> str:
    return f"{owner.rpartition('.')[0]}.{number}/0"


class ManyHistories(Histories):
    """The same, for longer."""


OF_ANY_LENGTH = settings(deadline=None, suppress_health_check=list(HealthCheck))
Histories.TestCase.settings = settings(OF_ANY_LENGTH, max_examples=examples(20), stateful_step_count=25)
ManyHistories.TestCase.settings = settings(OF_ANY_LENGTH, max_examples=examples(300), stateful_step_count=50)
TestHistories = Histories.TestCase
TestManyHistories = pytest.mark.timeout(600)(pytest.mark.slow(ManyHistories.TestCase))
