"""Learners of mode sync with a hub, one of which dies anywhere: no gradient is in the survivors' weights twice.

Exchanges and hub are real, without sockets. Each gradient, and the moments of each rollout, have a cell of the weights
of their own, from which a step takes 1. So the weights of the survivors tell which are in them, and how often.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import Tensor

from actorlearn.address import Shm
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.frame_headers import MovedBytes
from actorlearn.parameters.hub import ACKNOWLEDGED, CONTRIBUTION, LOST, Hub, HubFrame
from actorlearn.parameters.hub_barrier import HubBarrier
from actorlearn.parameters.interface import Learner, PeerLost
from actorlearn.parameters.modes import SYNC
from actorlearn.parameters.settings import SyncExchangeSettings
from actorlearn.parameters.waits import Waits
from actorlearn.wire.identity import trainer_id
from tests import named
from tests.examples import examples

LEARNERS, ROLLOUTS, MOST_STEPS = 3, 4, 3
CELLS = LEARNERS * ROLLOUTS * MOST_STEPS
MOMENTS = LEARNERS * ROLLOUTS
OPTIMIZER = named.optimizer(
    name="rmsprop",
    decay=0.0,
    epsilon=1e-30,
    centered=False,
    clip_norm=0.0,
    epsilon_inside_root=False,
    accumulator_init=0.0,
)
"""A step takes 1 from each weight whose gradient is positive, whatever its size."""
PATIENCE_S = 10.0


class KilledError(BaseException):
    """The learner is dead."""


class EndedError(Exception):
    """Another learner has come to its end, at which all had the same weights."""


@dataclass
class Plan:
    """The steps of all learners, and who dies or drains when."""

    steps: Sequence[int]
    """Optimizer steps of each rollout of each learner."""
    moments: bool
    victim: int
    dies_at: int
    """Number of the event at which the victim dies; the hub dies with its learner."""
    answers: int
    """If the victim is the hub's learner: number of answers after which both die."""
    drains: tuple[int, int] | None
    """The learner that drains, and the rollout before which it does."""
    died: list[str] = field(default_factory=list)
    """Where the victim has died."""

    def steps_of(self, learner: int, rollout: int) -> int:
        return self.steps[learner * ROLLOUTS + rollout]


@dataclass
class WatchedHub:
    """The hub of a generation, without sockets, and the learners that have died."""

    learners: list[int]
    generation: int
    plan: Plan
    ended: set[int]
    """Learners that have come to their end, in any generation."""
    dead: set[int] = field(default_factory=set)
    events: int = 0
    answered: int = 0

    def __post_init__(self) -> None:
        self.hub = Hub(len(self.learners), self.generation)
        self.answers: dict[int, HubFrame] = {}
        self.changed = threading.Condition()

    @property
    def is_dead(self) -> bool:
        return self.learners[0] in self.dead

    def come(self, learner: int, where: str) -> None:
        """Come to a place in the code, at which the victim may die."""
        with self.changed:
            if learner == self.plan.victim and learner not in self.dead:
                if self.events == self.plan.dies_at:
                    self.plan.died.append(where)
                    self._kill(learner)
                self.events += 1
            if learner in self.dead:
                raise KilledError

    def send(self, learner: int, frame: HubFrame) -> None:
        rank = self.learners.index(learner)
        with self.changed:
            if not self.is_dead:
                self._answer(self.hub.take(rank, frame))
                self._miss()

    def _kill(self, learner: int) -> None:
        self.dead.add(learner)
        if not self.is_dead:
            self._miss()
        self.changed.notify_all()

    def _miss(self) -> None:
        self._answer(self.hub.miss([self.learners.index(each) for each in self.dead]))

    def _answer(self, frames: dict[int, HubFrame]) -> None:
        for rank in sorted(frames, reverse=True):  # the hub's own learner is the last
            if self.plan.victim == self.learners[0] and self.answered == self.plan.answers:
                self.plan.died.append("while its hub answers")
                self._kill(self.learners[0])
                return
            self.answered += frames[rank].kind != LOST
            self.answers[self.learners[rank]] = frames[rank]
        self.changed.notify_all()

    def wait(self, learner: int, barrier: int) -> HubFrame:
        end_s = time.monotonic() + PATIENCE_S
        with self.changed:
            while True:
                if learner in self.dead:
                    raise KilledError
                answer = self.answers.get(learner)
                if answer is not None and answer.barrier == barrier:
                    break
                if self.is_dead:
                    raise PeerLost
                if self.ended & set(self.learners):
                    raise EndedError
                assert time.monotonic() < end_s, f"learner {learner} waits for ever at barrier {barrier}"
                self.changed.wait(0.01)
        if answer.kind == LOST:
            raise PeerLost
        return answer


class Place(HubBarrier):
    """A learner's place at a ``WatchedHub``."""

    def __init__(self, hub: WatchedHub, learner: int) -> None:
        self.hub, self.learner = hub, learner
        self.rank, self.learners = hub.learners.index(learner), len(hub.learners)
        self.arrivals, self.moved, self.waits = 0, MovedBytes(), Waits(self.learners)

    def _ask(self, content: bytes, among: int, stay: bool) -> HubFrame:
        self.arrivals += 1
        self.hub.come(self.learner, "before it comes")
        frame = HubFrame(CONTRIBUTION, self.hub.generation, self.arrivals, among, content)
        for _ in range(2):  # each message is sent twice
            self.hub.send(self.learner, frame)
        self.hub.come(self.learner, "while it waits")
        answer = self.hub.wait(self.learner, self.arrivals)
        self.hub.send(self.learner, HubFrame(ACKNOWLEDGED, self.hub.generation, self.arrivals))
        self.hub.come(self.learner, "when it is answered")
        return answer

    def close(self) -> None:
        return


class AtHub(Sync):
    """The exchange of mode sync, at a ``WatchedHub``."""

    def __init__(self, hub: WatchedHub, learner: Learner) -> None:
        self.hub = hub
        own = SyncExchangeSettings(rendezvous=Shm("nowhere"), gradients=Shm("nowhere"), host="somewhere")
        trainers = [trainer_id(each) for each in hub.learners]
        settings = SYNC.among(own, trainers, trainer_id(learner.number), hub.generation)
        assert isinstance(settings, SyncExchangeSettings)
        super().__init__(settings, learner, hash_every=1)

    def _open_barrier(self) -> HubBarrier:
        return Place(self.hub, self.learner.number)


class Life:
    """One learner, through all generations."""

    def __init__(self, number: int, plan: Plan, hub_of: Callable[[int], WatchedHub], ended: set[int]) -> None:
        self.number, self.plan, self.hub_of, self.ended = number, plan, hub_of, ended
        self.weights, self.consumed = torch.zeros(CELLS + MOMENTS), Consumed(LEARNERS)
        self.env_steps = self.updates = self.generation = 0
        self.position = Position()
        self.over = False

    def run(self) -> Life | None:
        """Learn to the end; None if it has died."""
        try:
            while not self.over:
                self.generation += 1
                with suppress(PeerLost):
                    self._in_generation(self.hub_of(self.generation))
        except KilledError:
            return None
        except EndedError:
            pass
        self.ended.add(self.number)
        return self

    def _in_generation(self, hub: WatchedHub) -> None:
        learner = Learner(OPTIMIZER, self.weights, torch.zeros(CELLS), number=self.number, consumed=self.consumed)
        exchange = AtHub(hub, learner)
        joined = exchange.join(self.env_steps, self.updates, self.position)
        self.env_steps, self.updates = joined.env_steps, joined.updates
        assert joined.position is not None
        self.position = joined.position
        while self.position.rollout < ROLLOUTS and not self.over:
            if self.plan.drains == (self.number, self.position.rollout):
                self.over = exchange.agree(0, 0, self.position, draining=True).draining
                return
            self._update(exchange, hub)
        if not self.over:
            exchange.barrier.gather_numbers([])  # so that no learner ends before all have come here
            self.over = True

    def _update(self, exchange: AtHub, hub: WatchedHub) -> None:
        """Learn from a rollout as ``Learning.update`` does."""
        rollout, used = self.position
        total, done = self.plan.steps_of(self.number, rollout), self.consumed.done(self.number, rollout)
        moments = torch.zeros(MOMENTS, dtype=torch.float64)
        moments[self.number * ROLLOUTS + rollout] = 1.0
        if self.plan.moments:
            exchange.bring(moments=moments)
        elif done < total:
            exchange.bring(gradients=self._gradient(rollout, done))
        agreed = exchange.agree(self.number + 1, total - done, self.position)
        if agreed.draining:
            self.over = True
            return
        if self.plan.moments:
            exchange.merge(moments, lambda own, others: own.sub_(others.float()))
        for step in range(agreed.idle + total - done):
            hub.come(self.number, "between two steps")
            own = step - agreed.idle
            gradient = self._gradient(rollout, done + own) if own >= 0 else torch.full((CELLS,), 5.0)
            assert not step or not exchange.ending(False)
            assert exchange.step(gradient, [1.0]).taken
        hub.come(self.number, "before it has settled")
        exchange.settle()
        self.position = Position(rollout + 1, used + self.number + 1)
        self.env_steps, self.updates = agreed.env_steps, agreed.updates
        assert self.consumed.position(self.number) == self.position

    def _gradient(self, rollout: int, step: int) -> Tensor:
        gradient = torch.zeros(CELLS)
        gradient[(self.number * ROLLOUTS + rollout) * MOST_STEPS + step] = 1.0
        return gradient

    def told(self) -> Tensor:
        """The weights that this learner must have by its own table."""
        expected = torch.zeros(CELLS + MOMENTS)
        for learner in range(LEARNERS):
            position = self.consumed.position(learner)
            assert position is not None
            assert position.used == position.rollout * (learner + 1)
            for rollout in range(min(position.rollout + 1, ROLLOUTS)):
                whole = rollout < position.rollout
                done = self.plan.steps_of(learner, rollout) if whole else self.consumed.done(learner, rollout)
                first = (learner * ROLLOUTS + rollout) * MOST_STEPS
                expected[first : first + done] = -1.0
                if self.plan.moments and (whole or self.consumed.merged(learner, rollout)):
                    expected[CELLS + learner * ROLLOUTS + rollout] = -1.0
        return expected


def live(plan: Plan) -> list[Life]:
    """Carry out a plan until all learners have ended; return the survivors."""
    hubs, ended = dict[int, WatchedHub](), set[int]()
    lock = threading.Lock()

    def hub_of(generation: int) -> WatchedHub:
        with lock:
            if generation not in hubs:
                gone = {plan.victim} if generation > 1 else set()
                hubs[generation] = WatchedHub(
                    [each for each in range(LEARNERS) if each not in gone], generation, plan, ended
                )
            return hubs[generation]

    lives = [Life(number, plan, hub_of, ended) for number in range(LEARNERS)]
    with ThreadPoolExecutor(LEARNERS) as threads:
        return [life for life in threads.map(Life.run, lives) if life is not None]


PLANS = st.builds(
    Plan,
    steps=st.one_of(
        st.integers(0, MOST_STEPS).map(lambda each: [each] * (LEARNERS * ROLLOUTS)),
        st.lists(st.integers(0, MOST_STEPS), min_size=LEARNERS * ROLLOUTS, max_size=LEARNERS * ROLLOUTS),
    ),
    moments=st.booleans(),
    victim=st.integers(0, LEARNERS - 1),
    dies_at=st.integers(0, 60),
    answers=st.integers(0, 60),
    drains=st.one_of(st.none(), st.tuples(st.integers(0, LEARNERS - 1), st.integers(0, ROLLOUTS - 1))),
    died=st.builds(list),
)


@settings(max_examples=examples(100), deadline=None)
@given(PLANS)
def test_after_a_death_anywhere_the_survivors_have_each_gradient_once_and_know_which(plan: Plan) -> None:
    survivors = live(plan)
    event(f"dies {''.join(plan.died) or 'nowhere'}")
    assert len(survivors) == LEARNERS - len(plan.died)
    first = survivors[0]
    for life in survivors:
        assert torch.equal(life.weights, first.weights)
        assert torch.allclose(life.weights, life.told(), atol=1e-3)
        assert (life.consumed.table == first.consumed.table).all()
        assert (life.env_steps, life.updates) == (first.env_steps, first.updates)
    positions: list[Any] = [first.consumed.position(learner) for learner in range(LEARNERS)]
    assert first.env_steps == sum(position.used for position in positions)
    if plan.drains is None:
        assert all(positions[life.number].rollout == ROLLOUTS for life in survivors)


@settings(max_examples=examples(20), deadline=None)
@given(PLANS)
def test_without_a_death_all_learn_from_the_same_rollouts(plan: Plan) -> None:
    plan.dies_at = plan.answers = 10**9
    survivors = live(plan)
    assert len(survivors) == LEARNERS
    learned = ROLLOUTS if plan.drains is None else plan.drains[1]
    for life in survivors:
        assert torch.allclose(life.weights, life.told(), atol=1e-3)
        assert torch.equal(life.weights, survivors[0].weights)
        assert life.position.rollout == life.updates == learned
