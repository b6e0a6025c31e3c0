"""Learners with parameter servers: one learns exactly as in mode alone; no change is missed or made twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from actorlearn.models.normalize import merge_into, moments_of
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import waits
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.frame_headers import SHARD, SHARD_ROW_BYTES
from actorlearn.parameters.interface import Carried, Learner, Present, Stopped
from actorlearn.parameters.modes import SERVED, make
from actorlearn.parameters.served import Served
from actorlearn.parameters.settings import AloneExchangeSettings, ServedExchangeSettings
from actorlearn.wire.identity import trainer_id
from tests import named
from tests.parameters.networked import Listing
from tests.parameters.serving import Serving, in_threads

PARAMETERS, STATISTICS = 5003, 7
SHARD_NUMBERS = 1250
"""Numbers of a shard in these tests, so that one server has four of them, two have two each, and three one each."""
SGD = named.optimizer(decay=0.0, accumulator_init=0.0, epsilon=1e-6, clip_norm=0.0)
"""Moves each parameter by its gradient's sign times the rate: without memory, so the order does not matter."""
OPTIMIZERS = [
    named.optimizer(),
    named.optimizer(centered=True),
    named.optimizer(name="adam", epsilon=1e-5, clip_norm=0.5),
]

Start = Callable[..., Serving]


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts parameter servers, which are ended with the test."""
    monkeypatch.setattr("actorlearn.parameters.shard_layout.SHARD_NUMBERS", SHARD_NUMBERS)
    made: list[Serving] = []

    def start(
        optimizer: OptimizerSettings = SGD, learners: int = 1, statistics: int = STATISTICS, **more: Any
    ) -> Serving:
        made.append(Serving(tmp_path, Listing(), optimizer, (PARAMETERS, statistics), learners, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


class Credited(Carried):
    """A replay that only counts the environment steps whose minibatches are done, and those at which it began."""

    def __init__(self, steps: int = -1, begun: int = -1) -> None:
        self.steps, self.begun = steps, begun

    def counts(self) -> list[int]:
        return [self.steps, self.begun]

    def adopt(self, counts: NDArray[np.int64], best: int) -> None:
        self.steps, self.begun = int(counts[best, 0]), int(counts[:, 1].min())


class Member:
    """One learner and its account, which outlives its incarnations."""

    def __init__(self, serving: Serving, number: int, wire: str = "float32") -> None:
        self.serving, self.number, self.wire = serving, number, wire
        self.position, self.incarnation = Position(), -1
        self.alive = True
        self.replay = Credited()
        self.begin()
        serving.stack.callback(lambda: self.exchange.close())

    def begin(self) -> None:
        """Start an incarnation, with the weights of a new network."""
        self.incarnation += 1
        serving = self.serving
        self.weights = start()[: sum(serving.sizes)]
        settings = ServedExchangeSettings(
            learners=serving.learners,
            servers=serving.servers,
            wire=self.wire,
            quorum=serving.quorum,  # type: ignore[arg-type]
        )
        learner = Learner(
            serving.optimizer,
            self.weights,
            torch.zeros(PARAMETERS),
            alive=lambda: self.alive,
            number=self.number,
            consumed=Consumed(serving.learners),
            carried=self.replay,
            endpoints=serving.listing.trainer(self.number, self.incarnation),
        )
        self.exchange = make(settings, learner)
        assert isinstance(self.exchange, Served)

    def join(self) -> None:
        joined = self.exchange.join(0, 0, self.position)
        assert joined.position is not None
        self.position = joined.position

    def learn(self, gradient: Tensor, rate: float = 0.25) -> None:
        """Learn a rollout of 7 steps and one gradient."""
        self.exchange.agree(7, 1, self.position)
        assert self.exchange.step(gradient.clone(), [rate]).taken
        self.commit()

    def commit(self) -> None:
        self.exchange.settle()
        self.position = Position(self.position.rollout + 1, self.position.used + 7)

    def die(self) -> None:
        """Be killed, between a rollout and its commit if it has learned one."""
        self.exchange.close()
        self.serving.listing.lose(trainer_id(self.number).again(self.incarnation))
        self.begin()


def joined(serving: Serving, count: int = 1, wire: str = "float32") -> list[Member]:
    """Learners from 0 on that have joined."""
    members = [Member(serving, number, wire) for number in range(count)]
    in_threads(*(member.join for member in members))
    return members


def start() -> Tensor:
    return torch.linspace(-1.0, 1.0, PARAMETERS + STATISTICS)


def gradients_of(count: int) -> Tensor:
    return torch.randn(count, PARAMETERS, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("servers", [1, 3])
def test_one_learner_learns_exactly_as_one_alone(serving: Start, optimizer: OptimizerSettings, servers: int) -> None:
    expected = start()
    (one,) = joined(serving(optimizer, servers=servers))
    learner = Learner(optimizer, expected, torch.zeros(PARAMETERS))
    alone = Alone(AloneExchangeSettings(), learner)
    assert torch.equal(one.weights, expected)
    for gradient in gradients_of(3):
        moments = moments_of(gradient[:30].reshape(10, 3))
        for exchange in (alone, one.exchange):
            exchange.agree(7, 1, one.position)
            exchange.merge(moments, merge_into)
        alone.step(gradient.clone(), [0.01])
        one.exchange.step(gradient.clone(), [0.01])
        alone.settle()
        one.commit()
        assert torch.equal(one.weights, expected)
    saved, other = one.exchange.state(), alone.state()
    assert saved.keys() == other.keys() and all(torch.equal(saved[name], other[name]) for name in saved)


def test_a_gradient_that_is_not_finite_is_not_sent(serving: Start) -> None:
    (one,) = joined(serving())
    before = one.weights.clone()
    one.exchange.agree(7, 2, one.position)
    gradient = torch.full((PARAMETERS,), torch.inf)
    sent = one.exchange.metrics()["bytes_sent"]
    assert sent > 0 and not one.exchange.step(gradient, [0.1]).taken
    assert not one.exchange.step(torch.ones(PARAMETERS), [0.1], usable=False).taken
    assert one.exchange.metrics()["bytes_sent"] == 0 and torch.equal(one.weights, before)


@pytest.mark.parametrize(("servers", "shards"), [(1, 4), (2, 4), (3, 3)])
@pytest.mark.parametrize(("wire", "each"), [("float32", 4), ("bfloat16", 2)])
def test_an_update_moves_the_computed_number_of_bytes(
    serving: Start, wire: str, each: int, servers: int, shards: int
) -> None:
    (one,) = joined(serving(servers=servers, learners=3), wire=wire)
    one.exchange.metrics()
    one.exchange.agree(7, 1, one.position)
    one.exchange.step(torch.ones(PARAMETERS), [0.25])
    moved = one.exchange.metrics()
    assert moved["bytes_sent"] == shards * (SHARD.size + SHARD_ROW_BYTES + 8) + each * PARAMETERS
    assert moved["bytes_received"] == shards * (SHARD.size + 3 * SHARD_ROW_BYTES) + each * PARAMETERS
    expected = start()[:PARAMETERS] - 0.25
    assert torch.allclose(one.weights[:PARAMETERS], expected, atol=1e-6 if each == 4 else 0.01, rtol=0.0)
    one.commit()
    moved = one.exchange.metrics()
    assert (moved["bytes_sent"], moved["bytes_received"]) == (servers * (SHARD.size + SHARD_ROW_BYTES), 0)


def test_learners_that_learn_at_once_make_each_change_once_and_count_the_same(serving: Start) -> None:
    members = joined(serving(learners=3, servers=2), 3)

    def learn(member: Member) -> None:
        for _ in range(20):
            member.learn(torch.ones(PARAMETERS))

    in_threads(*(lambda each=member: learn(each) for member in members))  # type: ignore[misc]
    for member in members:
        member.exchange.pull()
        assert torch.allclose(member.weights[:PARAMETERS], start()[:PARAMETERS] - 0.25 * 60, atol=1e-4)
        agreed = member.exchange.agree(0, 0, member.position, True)
        assert (agreed.env_steps, agreed.updates) == (60 * 7, 60)
        assert member.exchange.metrics()["staleness_max"] < 60


def test_near_the_end_of_a_run_a_learner_asks_what_the_others_have_learned(serving: Start) -> None:
    one, other = joined(serving(learners=2), 2)
    one.learn(torch.ones(PARAMETERS))
    other.learn(torch.ones(PARAMETERS))
    assert one.exchange.learned(1_000) == 7, "it is far from the end"
    published = one.weights.clone()
    assert one.exchange.learned(50) == 14
    assert torch.equal(one.weights, published), "only a pull changes weights, and a trainer publishes these"
    assert one.exchange.pull() and not torch.equal(one.weights, published)


def test_a_new_learner_of_a_resumed_run_knows_that_the_weights_have_learned(serving: Start) -> None:
    """It then needs no observations of its own before it learns (`model.statistics_rows`)."""
    servers = serving(learners=2)
    resumed, new = (Member(servers, number) for number in range(2))
    in_threads(lambda: resumed.exchange.join(100, 3), lambda: new.exchange.join(0, 0))
    assert new.exchange.consumed.learned


def test_learners_of_a_new_run_know_that_the_weights_have_not_learned(serving: Start) -> None:
    assert not any(member.exchange.consumed.learned for member in joined(serving(learners=2), 2))


def test_a_learner_that_leaves_has_the_weights_and_counts_of_all(serving: Start) -> None:
    one, other = joined(serving(learners=2, servers=2), 2)
    one.learn(torch.ones(PARAMETERS))
    for _ in range(2):
        other.learn(torch.ones(PARAMETERS))
    assert one.exchange.agree(0, 0, one.position, draining=True)[:2] == (21, 3)
    assert torch.equal(one.weights, other.weights)


@pytest.mark.parametrize("machine", [False, True])
def test_a_server_that_is_killed_between_requests_loses_no_change_and_makes_none_twice(
    serving: Start, machine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The promise holds if both learners offer their weights before this limit, also on a machine that is busy.
    monkeypatch.setattr("actorlearn.parameters.shard.OFFERS_S", 30.0)
    own = serving(learners=2, servers=2, statistics=0)
    members = [Member(own, number) for number in range(2)]
    over = threading.Event()

    def learn(member: Member) -> None:
        member.join()
        for _ in range(60):
            member.learn(torch.ones(PARAMETERS))
            time.sleep(0.005)
        while not over.is_set():  # as long as the other needs it to fill a server
            member.exchange.pull()
            time.sleep(0.01)

    def kill() -> None:
        for round_ in range(4):
            time.sleep(0.2)
            own.restart(round_ % 2, machine)
        while any(member.position.rollout < 60 for member in members) or not own.filled:
            time.sleep(0.05)
        over.set()

    in_threads(*(lambda each=member: learn(each) for member in members), kill)  # type: ignore[misc]
    for member in members:
        member.exchange.pull()
        assert torch.allclose(member.weights[:PARAMETERS], start()[:PARAMETERS] - 0.25 * 120, atol=1e-4)
        assert member.exchange.agree(0, 0, member.position, True).env_steps == 120 * 7


@pytest.mark.parametrize(("servers", "lost"), [(1, 0), (2, 0), (2, 1)])
def test_steps_are_counted_once_if_a_learner_that_moved_fills_a_server_alone(
    serving: Start, servers: int, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actorlearn.parameters.shard.OFFERS_S", 0.1)
    own = serving(learners=2, servers=servers)
    one, other = joined(own, 2)
    for _ in range(10):
        one.learn(torch.ones(PARAMETERS))
        other.learn(torch.ones(PARAMETERS))
    own.restart(lost, machine=True)
    one.die()
    one.exchange.join(140, 20, Position(10, 70))  # its newest checkpoint has the steps of both
    other.exchange.agree(7, 1, other.position)
    other.exchange.step(torch.ones(PARAMETERS), [0.25])
    one.exchange.agree(7, 1, Position(10, 70))
    assert one.exchange.learned(150) == 140, "near the end it asks the servers"
    other.commit()
    assert other.exchange.learned(150) == one.exchange.learned(150) == 147
    assert other.exchange.agree(0, 0, other.position, True)[:2] == (147, 21)


def test_a_killed_learner_continues_where_it_stood_and_makes_no_change_twice(serving: Start) -> None:
    one, other = joined(serving(learners=2, servers=2), 2)
    for _ in range(3):
        one.learn(torch.ones(PARAMETERS))
        other.learn(-torch.ones(PARAMETERS))
    one.exchange.agree(7, 1, one.position)
    one.exchange.step(torch.ones(PARAMETERS), [0.25])  # and dies before it has settled
    one.die()
    one.join()
    assert one.position == Position(3, 21)
    one.learn(torch.ones(PARAMETERS))  # the same change again
    one.exchange.settle()
    one.position = Position(3, 21)  # it dies before its account is committed
    one.die()
    one.join()
    one.learn(torch.ones(PARAMETERS))
    assert one.position == Position(4, 28)
    assert torch.allclose(one.weights[:PARAMETERS], start()[:PARAMETERS] - 0.25, atol=1e-5)
    assert one.exchange.agree(0, 0, one.position, True)[:2] == (7 * 7, 7)


def test_a_learner_that_moved_continues_after_its_changes_that_the_servers_have(serving: Start) -> None:
    (one,) = joined(serving())
    for _ in range(5):
        one.learn(torch.ones(PARAMETERS))
    one.exchange.pull()  # which also sends the counts that the message after the last change may lack
    one.die()
    one.position = Position(1, 7)  # that of its newest checkpoint
    one.join()
    assert one.position == Position(5, 35)
    one.learn(torch.ones(PARAMETERS))
    assert one.exchange.agree(0, 0, one.position, True)[:2] == (6 * 7, 6)


@pytest.mark.parametrize("begun", [0, -1], ids=["restarted", "moved without its replay"])
def test_a_killed_learner_learns_no_minibatch_of_its_replay_again(serving: Start, begun: int) -> None:
    (one,) = joined(serving())
    one.replay.begun = 0
    for _ in range(5):
        one.replay.steps = one.position.used
        one.learn(torch.ones(PARAMETERS))
    one.exchange.pull()
    one.replay = Credited(7, begun)  # that of its newest checkpoint
    one.die()
    one.join()
    assert one.position == Position(5, 35)
    assert one.replay.counts() == [28, begun]


def test_servers_of_a_resumed_run_begin_with_the_checkpoint(serving: Start) -> None:
    one = Member(serving(named.optimizer("adam"), servers=2), 0)
    saved = {"mean": torch.ones(PARAMETERS), "square": torch.full((PARAMETERS,), 2.0), "steps": torch.tensor(7)}
    one.exchange.restore(saved)
    one.position = Position(9, 63)
    assert one.exchange.join(630, 90, one.position)[:2] == (630, 90)
    state = one.exchange.state()
    assert all(torch.equal(state[name], saved[name]) for name in saved)
    one.learn(torch.ones(PARAMETERS))
    assert one.exchange.agree(0, 0, one.position, True)[:2] == (637, 91)


def test_a_learner_that_is_told_to_end_waits_for_no_server_and_saves_the_state_it_has(
    serving: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actorlearn.parameters.served.STATE_S", 0.3)
    own = serving()
    (one,) = joined(own)
    own.kill(0)
    one.alive = False
    with pytest.raises(Stopped):
        one.learn(torch.ones(PARAMETERS))
    assert one.exchange.state()["square"].shape == (PARAMETERS,)


def test_learners_of_a_quorum_have_the_same_weights_after_each_version(serving: Start) -> None:
    members = joined(serving(learners=2, quorum=2), 2)
    for _ in range(3):
        in_threads(*(lambda each=member: each.learn(torch.ones(PARAMETERS)) for member in members))  # type: ignore[misc]
        assert torch.equal(members[0].weights, members[1].weights)
    assert torch.allclose(members[0].weights[:PARAMETERS], start()[:PARAMETERS] - 0.75, atol=1e-5)


@pytest.mark.timeout(30)
def test_with_a_quorum_the_moments_of_each_learner_are_merged_at_once(serving: Start) -> None:
    """A mean of moments is no moment, and once a learner that took fewer steps waited forever to merge."""
    members = joined(serving(learners=2, quorum=2), 2)
    observations = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    expected = start()[PARAMETERS:]
    for member, rows in zip(members, observations.split(4), strict=True):
        impatience = threading.Timer(10.0, setattr, (member, "alive", False))
        impatience.start()
        member.exchange.agree(7, 0, member.position)
        member.exchange.merge(moments_of(rows), merge_into)
        impatience.cancel()
        merge_into(expected, moments_of(rows))
        assert torch.equal(member.weights[PARAMETERS:], expected)


def test_a_server_reports_its_versions_and_warns_of_a_straggler_and_of_a_stranger(
    serving: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "SURE_S", 0.5)  # three reports of this test take 1.5 s
    own = serving(learners=2, quorum=2, servers=2)
    server = own.running[0][2]
    members = joined(own, 2)

    def learn(member: Member, each_s: float) -> None:
        for _ in range(5):
            time.sleep(each_s)
            member.learn(torch.ones(PARAMETERS))

    assert server.report(0.0) == ({}, ""), "there is no version yet"
    said: list[str] = []
    for _ in range(3):
        in_threads(lambda: learn(members[0], 0.0), lambda: learn(members[1], 0.1))
        assert server.report(100.0) == ({}, "")
        row, slow = server.report(0.0)
        said += [slow] if slow else []
        assert (row["straggler"], row["staleness_0"]) == (1, 1.0)
        assert row["straggler_share"] > 0.5 and row["straggler_wait_s"] > 0.2, "a busy machine delays the other too"
        assert 0.0 < row["versions_per_s"] < 10.0
    (named,) = said
    assert named.startswith("trainer-1 is slow: the other learners waited ")
    stranger = Listing().trainer(7)
    lines = stranger.dealer(own.listing.order.endpoints[0], 1000)
    for _ in range(100):
        lines.send(b"let me in")
        if said := server.refusals(0.0):
            break
        time.sleep(0.05)
    (refused,) = said
    assert "was refused: its key" in refused and "no process of the run has this key" in refused
    lines.close()


def test_mode_served_is_asked_for_as_async_and_works_across_nodes() -> None:
    assert SERVED.asked_as == "async" and SERVED.across_nodes and SERVED.central
    assert Present().stays
