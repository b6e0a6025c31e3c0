"""Gossip: mixing compared with literal matrices, waiting, refused messages, joining, and kill -9 of a peer."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.failpoints import Killed, armed
from actorlearn.memory.shared import Segment
from actorlearn.optim.outer import Outer
from actorlearn.optim.specs import OuterSettings
from actorlearn.parameters.alone import Alone
from actorlearn.parameters.consensus import ExchangeRecord
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import Joined, Learner
from actorlearn.parameters.mixing import GraphSettings, in_peers, mixing_matrix
from actorlearn.parameters.published import Published
from actorlearn.parameters.settings import AloneExchangeSettings
from benchmarks.papers.gossip_bound import read
from tests.examples import examples
from tests.parameters.gossiping import (
    PAAC,
    PARAMETERS,
    RATE,
    SIZE,
    STATISTICS,
    learn,
    learner,
    position_of,
    segments,
    start,
)
from tests.sizes import ROOT
from tests.wire.doors import until

RING = GraphSettings()
GRAPHS = [
    RING,
    GraphSettings(name="complete"),
    GraphSettings(name="k-peer", peers=2),
    GraphSettings(name="exponential-varying"),
    GraphSettings(name="random-matching", seed=5),
    GraphSettings(name="lists", lists=((1, 2), (0,), (0,), ())),
    GraphSettings(name="none"),
]


def gradients_of(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, PARAMETERS, generator=torch.Generator().manual_seed(seed))


class Run:
    """Learners whose segments lie in one folder; they are closed at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = segments(folder, 4), list[Gossip]()

    def learner(self, rank: int, members: Sequence[int], graph: GraphSettings | None = None, **more: Any) -> Gossip:
        self.made.append(learner(self.folder, rank, members, graph, **more))
        return self.made[-1]

    def joined(self, count: int, graph: GraphSettings | None = None, **more: Any) -> list[Gossip]:
        """Learners from 0 on that have joined."""
        made = [self.learner(rank, range(count), graph, **more) for rank in range(count)]
        for exchange in made:
            exchange.join(0, 0)
        return made

    def records(self, rank: int) -> list[ExchangeRecord]:
        return read(self.folder / f"exchanges-{rank}.jsonl")

    def mixed(self, rank: int) -> list[dict[int, int]]:
        """The versions of messages that were mixed, by peer, of each exchange."""
        return [record.messages for record in self.records(rank) if record.kind == "mixed"]

    def published(self, segment: str, size: int) -> np.ndarray:
        out = np.empty(size, np.float32)
        assert Published(Segment.open(self.folder / segment)).fetch(out)
        return out

    def close(self) -> None:
        for exchange in self.made:
            exchange.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with closing(Run(tmp_path / "run")) as made:
        yield made


class Matrices:
    """A slow reference: weights and newest messages of all learners are the rows of one matrix, [2n, size].

    A row is a sum of the first weights and of every local step, each with a coefficient. An exchange multiplies the
    coefficients by a matrix that copies a learner's weights to its message, and then by one that mixes.
    """

    def __init__(self, graph: GraphSettings, count: int) -> None:
        self.graph, self.count = graph, count
        self.coefficients = np.ones((2 * count, 1))
        self.changes = [start().double().numpy()]
        self.alone = [
            Alone(AloneExchangeSettings(), Learner(PAAC, start(), torch.zeros(PARAMETERS))) for _ in range(count)
        ]
        self.posted, self.mixes = [-1] * count, [0] * count
        self.used: list[dict[int, int]] = [{} for _ in range(count)]

    @property
    def weights(self) -> np.ndarray:
        return self.coefficients[: self.count] @ np.stack(self.changes)

    def learn(self, who: int, gradient: torch.Tensor) -> None:
        """One local step, which does not depend on the weights, and its exchange."""
        alone = self.alone[who]
        alone.parameters.zero_()
        alone.step(gradient.clone(), [RATE])
        self.changes.append(torch.cat([alone.parameters.double(), torch.zeros(STATISTICS)]).numpy())
        self.coefficients = np.pad(self.coefficients, ((0, 0), (0, 1)))
        self.coefficients[who, -1] = 1.0
        post = np.eye(2 * self.count)
        post[self.count + who] = post[who]
        self.coefficients = post @ self.coefficients
        self.posted[who] += 1
        peers = in_peers(self.graph, range(self.count), who, self.mixes[who])
        if any(self.posted[peer] <= self.used[who].get(peer, -1) for peer in peers):
            return
        mix = np.eye(2 * self.count)
        mix[who, [who, *(self.count + peer for peer in peers)]] = 1.0 / (1 + len(peers))
        self.coefficients = mix @ self.coefficients
        self.used[who] |= {peer: self.posted[peer] for peer in peers}
        self.mixes[who] += 1


@settings(max_examples=examples(40))
@given(st.sampled_from(GRAPHS), st.lists(st.integers(0, 3), min_size=1, max_size=24), st.integers(0, 100))
def test_weights_equal_those_of_the_matrices_in_any_order_of_steps(tmp_path_factory, graph, turns, seed):
    """No learner waits or uses a message twice, and each optimizer keeps a state of its own."""
    run = Run(tmp_path_factory.mktemp("g"))
    learners = [run.learner(rank, range(4), graph) for rank in range(4)]
    slow = Matrices(graph, 4)
    assert [exchange.join(0, 0) for exchange in learners] == [Joined(0, 0)] * 4
    for number, (who, gradient) in enumerate(zip(turns, gradients_of(len(turns), seed), strict=True)):
        learn(learners[who], gradient)
        slow.learn(who, gradient)
        found = np.stack([exchange.weights.numpy() for exchange in learners])
        np.testing.assert_allclose(found, slow.weights, rtol=1e-5, atol=1e-6)
        assert learners[who].counts.total == (10 * (number + 1), number + 1)
    assert slow.coefficients[:, 0] == pytest.approx(1.0)  # the initial weights are in each row, once
    assert slow.coefficients.min() >= 0.0 and slow.coefficients.max() <= 1.0 + 1e-9
    for who, exchange in enumerate(learners):
        for peer in range(4):
            versions = [messages[peer] for messages in run.mixed(who) if peer in messages]
            assert versions == sorted(set(versions))
        assert all((torch.equal(exchange.state()[name], slow.alone[who].state()[name])) for name in exchange.state())
    run.close()


class InStep:
    """A mailbox in lock-step: no learner mixes before all have posted, nor posts before all have mixed."""

    def __init__(self, mailbox, barrier: threading.Barrier) -> None:
        self._mailbox, self._barrier = mailbox, barrier
        self.version, self.take, self.posted_ns = mailbox.version, mailbox.take, mailbox.posted_ns
        self.close = mailbox.close

    def post(self, weights) -> int:
        self._barrier.wait()
        version = self._mailbox.post(weights)
        self._barrier.wait()
        return version


@pytest.mark.parametrize("graph", GRAPHS)
def test_rounds_in_lock_step_multiply_the_weights_by_the_mixing_matrix(run: Run, graph: GraphSettings) -> None:
    count, rollouts = 4, 6
    barrier = threading.Barrier(count, timeout=30)
    learners = [run.learner(rank, range(count), graph) for rank in range(count)]
    for rank, exchange in enumerate(learners):
        exchange.weights += rank  # as if they had begun apart
        exchange.join(0, 0)
        exchange.mailbox = InStep(exchange.mailbox, barrier)
    expected = np.stack([exchange.weights.double().numpy() for exchange in learners])
    means = [expected.mean(0)]
    for exchange in range(rollouts):
        expected = mixing_matrix(graph, range(count), exchange) @ expected
        means.append(expected.mean(0))

    def step(exchange: Gossip) -> None:
        for _ in range(rollouts):
            exchange.step(torch.zeros(PARAMETERS), [RATE])

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(step, learners))
    np.testing.assert_allclose([exchange.weights.numpy() for exchange in learners], expected, rtol=1e-5, atol=1e-5)
    stays = graph.name in ("none", "ring", "complete", "k-peer", "exponential-varying", "random-matching")
    assert bool(np.allclose(means, means[0])) == stays
    for exchange in learners:
        assert exchange.metrics()["mixed_share"] == 1.0


# Waiting --------------------------------------------------------------------------------------------------------------


def test_a_learner_waits_for_a_message_once_max_staleness_is_reached(run: Run) -> None:
    looks = []

    def alive() -> bool:
        looks.append(len(looks))
        if len(looks) == 3:
            learn(other)
        return True

    waiting, other = run.learner(0, range(2), alive=alive, max_staleness=2), run.learner(1, range(2))
    waiting.join(0, 0), other.join(0, 0)
    learn(waiting), learn(waiting)
    assert looks == []
    learn(waiting)
    assert len(looks) >= 3
    assert run.mixed(0) == [{1: 0}]
    told = waiting.metrics()
    assert (told["staleness_max"], told["staleness_mean"], told["mixed_share"]) == (2, 1.0, pytest.approx(1 / 3))
    assert told["learner_wait_s"] > 0.0


def test_a_learner_stops_waiting_for_a_peer_that_has_gone_and_mixes_with_the_next(run: Run) -> None:
    """On a ring 1 -> 2 -> 3 without 2 the in-peer of 3 is 1, which has a message."""
    members, looks = [0, 1, 2, 3], []

    def alive() -> bool:
        looks.append(len(looks))
        if len(looks) == 3:
            members.remove(2)
        return True

    waiting = run.learner(3, members, RING, alive=alive, max_staleness=0)
    other = run.learner(1, members, RING)
    waiting.join(0, 0), other.join(0, 0)
    learn(other)
    learn(waiting)
    assert len(looks) == 3
    assert run.mixed(3) == [{1: 0}]
    members[:] = [3]
    learn(waiting)  # alone, it does not wait


def test_a_learner_that_is_told_to_end_ends_its_step_without_mixing(run: Run) -> None:
    exchange = run.learner(0, range(2), alive=lambda: False, max_staleness=0)
    exchange.join(0, 0)
    learn(exchange)
    assert [record.kind for record in run.records(0)] == ["stepped"]
    assert exchange.counts.total == (10, 1)


@pytest.mark.parametrize("rule", ["momentum", "nesterov"])
def test_an_outer_optimizer_follows_the_mean_and_restarts_where_weights_are_adopted(run: Run, rule: str) -> None:
    outer = OuterSettings(rule=rule, learning_rate=0.7, momentum=0.5)  # type: ignore[arg-type]
    first, second = run.joined(2, outer=outer)
    local, expected = run.learner(2, [2]), start()
    local.join(0, 0)
    slow = Outer(outer, expected[:PARAMETERS])
    learn(first)
    learn(local)
    slow.step(expected[:PARAMETERS].copy_(local.weights[:PARAMETERS]))  # no learner had posted yet
    torch.testing.assert_close(first.weights[:PARAMETERS], expected[:PARAMETERS])
    learn(second)
    learn(first)  # now with the second's
    again = run.learner(0, range(2), outer=outer)
    again.join(0, 0, position_of(again))
    assert again.outer is not None and torch.equal(again.outer.anchor, again.weights[:PARAMETERS])


# What is not mixed ----------------------------------------------------------------------------------------------------


def test_an_exchange_comes_after_each_local_steps_steps_also_across_batches(run: Run) -> None:
    (exchange,), posted = run.joined(1, local_steps=3), []
    for gradient in gradients_of(7):
        learn(exchange, gradient)
        posted.append(exchange.mailbox.version(0))
    assert posted == [-1, -1, 0, 0, 0, 1, 1]


def travelled(run: Run, monkeypatch: pytest.MonkeyPatch, **keys: object) -> float:
    """Return how far two learners go that post half a step apart, relative to one alone with the same gradients."""
    clock = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    alone, both = run.learner(2, [2]), run.joined(2, **keys)
    alone.join(0, 0)
    for _ in range(60):
        learn(alone)
        for exchange in both:
            clock[0] += 500
            learn(exchange)
    far = [float((exchange.weights - start())[:PARAMETERS].norm()) for exchange in (alone, *both)]
    return (far[1] + far[2]) / 2 / far[0]


def test_messages_half_a_step_old_cost_a_fifth_of_the_progress_unless_age_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an age of d steps the progress is 1 / (1 + d / 2)."""
    with closing(Run(tmp_path / "gala")) as run:
        assert travelled(run, monkeypatch) == pytest.approx(0.8, abs=0.03)
    with closing(Run(tmp_path / "corrected")) as run:
        assert travelled(run, monkeypatch, age_corrected=True) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_step_that_is_not_finite_changes_no_weights_and_its_gradient_is_not_kept(run: Run, bad: float) -> None:
    exchange = run.learner(0, [0], gradient_every=1)
    assert exchange.metrics() == {
        "exchanges": 0,
        "messages_refused": 0,
        "learner_wait_s": 0.0,
        "gradient_cosine": {},
    }
    exchange.join(0, 0)
    assert not exchange.step(torch.full((PARAMETERS,), bad), [RATE]).taken
    assert not exchange.step(torch.ones(PARAMETERS), [RATE], usable=False).taken
    assert torch.equal(exchange.weights, start())
    shown = Published(Segment.open(run.folder / "gradients-0"))
    assert shown.version == 0  # the second gradient, of which only the loss was not finite


def test_statistics_are_merged_by_each_learner_and_mixed_with_the_weights(run: Run) -> None:
    learners = run.joined(2)
    for exchange, moments in zip(learners, (2.0, 4.0), strict=True):
        exchange.merge(torch.full((STATISTICS,), moments), lambda statistics, moments: statistics.copy_(moments))
        exchange.step(torch.zeros(PARAMETERS), [RATE])
    assert learners[0].weights[PARAMETERS:].tolist() == [2.0, 2.0]
    assert learners[1].weights[PARAMETERS:].tolist() == [3.0, 3.0]


def test_distances_are_of_the_learned_parameters_without_the_statistics(run: Run) -> None:
    learners = run.joined(2)
    for exchange, moments in zip(learners, (2e6, 4e6), strict=True):
        exchange.merge(torch.full((STATISTICS,), moments), lambda statistics, moments: statistics.copy_(moments))
        learn(exchange)
    assert [exchange.metrics()["consensus_distance"] for exchange in learners] == pytest.approx([0, 0], abs=1e-6)
    step = float(torch.linalg.vector_norm(learners[0].weights[:PARAMETERS] - start()[:PARAMETERS]))
    told = [*run.records(0), *run.records(1)]
    assert [(record.kind, record.norm) for record in told if record.kind != "measured"] == [
        ("stepped", pytest.approx(step, rel=1e-5)),
        ("stepped", pytest.approx(step, rel=1e-5)),
        ("mixed", pytest.approx(0.0, abs=1e-6)),
    ]
    measured = [record for record in told if record.kind == "measured"]
    assert [record.distance for record in measured] == pytest.approx([0, 0], abs=1e-6)
    assert [record.distances for record in measured] == [pytest.approx({0: 0, 1: 0}, abs=1e-6)] * 2


def test_every_gradient_every_updates_the_unclipped_gradient_is_kept(run: Run) -> None:
    (exchange,), kept = run.joined(1, gradient_every=3), []
    gradients = 100.0 * gradients_of(7)
    for gradient in gradients:
        learn(exchange, gradient)
        kept.append(run.published("gradients-0", PARAMETERS))
    np.testing.assert_array_equal(kept, gradients[[0, 0, 0, 3, 3, 3, 6]].numpy())


def test_the_log_has_the_distance_that_each_step_and_each_mixing_moved_the_weights(run: Run) -> None:
    learners = run.joined(2)
    learn(learners[0])
    step = float(torch.linalg.vector_norm(learners[0].weights - start()))
    learn(learners[1])  # equal steps lead to equal weights, so mixing moves nothing
    learn(learners[1], torch.zeros(PARAMETERS))
    told = run.records(1)
    assert [(record.kind, record.version, record.messages) for record in told] == [
        ("stepped", 0, {}),
        ("mixed", -1, {0: 0}),
        ("stepped", 1, {}),
    ]
    assert [record.norm for record in told] == pytest.approx([step, 0.0, 0.0], rel=1e-5, abs=1e-6)


def test_the_first_present_learner_compares_the_gradients_of_all(run: Run) -> None:
    members = [0, 1, 2]
    learners = [run.learner(rank, members, gradient_every=1) for rank in range(3)]
    for exchange, gradient in zip(learners, ([1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [-3, 0, 0, 0, 0]), strict=True):
        exchange.join(0, 0)
        learn(exchange, torch.tensor(gradient, dtype=torch.float32))
    told = [exchange.metrics().get("gradient_cosine") for exchange in learners]
    assert told[0] == pytest.approx({"0-1": 0.5**0.5, "0-2": -1.0, "1-2": -(0.5**0.5)})
    assert told[1:] == [None, None]
    members.remove(0)
    assert learners[1].metrics()["gradient_cosine"] == pytest.approx({"1-2": -(0.5**0.5)})


# Coming and going -----------------------------------------------------------------------------------------------------


def test_a_resumed_run_continues_with_each_learners_own_weights(run: Run) -> None:
    early, late = (run.learner(rank, range(2)) for rank in range(2))
    assert early.join(1000, 100)[:2] == (1000, 100)
    learn(early)
    late.weights += 7.0
    mine = late.weights.clone()
    assert late.join(1020, 102)[:2] == (1030, 103)  # the most with which a learner began, and what was done since
    assert torch.equal(late.weights, mine)
    assert early.counts.total == (1030, 103)
    assert [record.kind for record in run.records(1)] == ["adopted"]


def test_a_killed_learner_comes_back_with_the_mean_of_its_in_peers(run: Run) -> None:
    learners = run.joined(3)
    for exchange, gradient in zip(learners, gradients_of(3), strict=True):
        learn(exchange, gradient)
    before = learners[0].state()
    messages = np.stack([run.published(f"messages-{rank}", SIZE) for rank in (1, 2)])
    again = run.learner(0, range(3))
    again.restore(before)
    again.weights += 9.0
    assert again.join(10, 1, position_of(again))[:2] == (30, 3)  # what it had learned is counted already
    np.testing.assert_allclose(again.weights.numpy(), messages.mean(0), rtol=1e-6)
    assert all(torch.equal(again.state()[name], before[name]) for name in before)
    assert run.records(0)[-1].messages == {1: 0, 2: 0}
    learn(again)
    assert run.records(0)[-1].kind == "stepped"  # their messages have been used
    assert again.mailbox.version(0) == 1


@pytest.mark.parametrize("point", ["shared_counts.claimed", "gossip.posted", "record.written"])
def test_a_rollout_that_may_have_reached_other_learners_is_not_learned_from_again(run: Run, point: str) -> None:
    learners = [run.learner(rank, range(2)) for rank in range(2)]
    for exchange in learners:
        assert exchange.join(0, 0).position is None
        learn(exchange)
    with armed(f"{point}=raise"), pytest.raises(Killed):
        learn(learners[0])
    again = run.learner(0, range(2))
    assert again.join(0, 0, position_of(again)) == Joined(20, 2, Position(2, 0))


def test_a_rollout_that_reached_no_other_learner_is_learned_from_again_and_counted_once(run: Run) -> None:
    first = run.learner(0, range(2), local_steps=5)
    first.join(0, 0)
    learn(first)
    with armed("record.committed=raise"), pytest.raises(Killed):
        learn(first)
    again = run.learner(0, range(2), local_steps=5)
    assert again.join(0, 0, position_of(again)) == Joined(20, 2)
    again.counts.add(1, 10)  # its trainer had not committed the rollout, and does it once more
    assert again.counts.total == (20, 2)


def test_an_attached_learner_takes_the_weights_of_its_in_peer(run: Run) -> None:
    members = [0, 1]
    learners = [run.learner(rank, members, RING, learners=2) for rank in range(2)]
    for exchange, gradient in zip(learners, gradients_of(2), strict=True):
        exchange.join(0, 0)
        learn(exchange, gradient)
    members.append(2)
    new = run.learner(2, members, RING, learners=2)
    assert new.join(0, 0)[:2] == (20, 2)
    assert np.array_equal(new.weights.numpy(), run.published("messages-1", SIZE))
    learn(new)
    learn(learners[0])
    assert run.records(0)[-1].messages == {2: 0}  # the ring has closed over it


def test_a_restarted_learner_that_finds_no_messages_continues_from_its_own_checkpoint(run: Run) -> None:
    run.learner(0, range(2)).join(0, 0)
    again = run.learner(0, range(2))
    again.weights += 1.0
    again.join(0, 0, position_of(again))
    assert torch.equal(again.weights, start() + 1.0)


@pytest.mark.parametrize("by_sockets", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_messages_of_a_poisoned_peer_are_refused_named_and_counted(run: Run, by_sockets: bool, bad: float) -> None:
    said = list[str]()
    first, second, poisoned = (
        run.learner(rank, [0, 1, 2], alive=lambda: True, warn=warn, by_sockets=by_sockets)
        for rank, warn in enumerate((said.append, print, print))
    )
    for exchange in (first, second, poisoned):
        exchange.join(0, 0)
    poison = np.zeros(SIZE, np.float32)
    poison[SIZE // 2] = bad
    for count in range(1, 12):
        learn(second, torch.zeros(PARAMETERS))
        posted = poisoned.mailbox.post(poison)  # the other one has posted as often
        until(lambda posted=posted: min(first.mailbox.version(peer) for peer in (1, 2)) >= posted)
        before, other = first.weights.clone(), second.weights.clone()
        learn(first, torch.zeros(PARAMETERS))
        torch.testing.assert_close(first.weights, (before + other) / 2)
        assert len(said) == (1 if count < 10 else 2)
    assert first.metrics()["messages_refused"] == 11
    assert first.metrics()["messages_refused"] == 0
    assert said[0].startswith(
        "message 0 of trainer-2 was not mixed, because it has weights that are not finite or larger than 1e+18"
    )
    assert "(10 refused messages of this learner so far)" in said[1]


def test_a_newcomer_adopts_no_poisoned_weights(run: Run) -> None:
    said = list[str]()
    good, bad = run.joined(2)
    learn(good, torch.zeros(PARAMETERS))
    bad.mailbox.post(np.full(SIZE, np.nan, np.float32))
    new = run.learner(2, [0, 1, 2], warn=said.append, learners=2)
    new.join(0, 0)
    assert torch.equal(new.weights, good.weights)
    assert "trainer-1" in said[0]


def test_a_learner_with_only_poisoned_peers_continues_with_its_own_weights(run: Run) -> None:
    only, bad = run.joined(2, max_staleness=0, alive=lambda: True)
    bad.mailbox.post(np.full(SIZE, np.nan, np.float32))
    learn(only)
    assert torch.isfinite(only.weights).all()
    assert only.metrics()["staleness_max"] == 1  # an exchange that mixed nothing


def test_through_sockets_messages_are_mixed_and_a_newcomer_waits_for_the_first(run: Run) -> None:
    members, turns = [0, 1], []

    def first_waits() -> bool:
        if not turns:
            turns.append(1)
            learn(learners[1], gradients_of(1)[0])
        return True

    def newcomer_waits() -> bool:
        learn(learners[0], torch.zeros(PARAMETERS))  # changes no weights, but posts them again
        return True

    sockets = {"by_sockets": True, "learners": 2, "max_staleness": 0}
    learners = [
        run.learner(0, members, alive=first_waits, **sockets),
        run.learner(1, members, alive=lambda: True, **sockets),
    ]
    for exchange in learners:
        exchange.join(0, 0)
    learn(learners[0])
    np.testing.assert_allclose(learners[0].weights.numpy(), learners[1].weights.numpy(), rtol=1e-6)
    assert not torch.equal(learners[0].weights, start())
    members.append(2)
    new = run.learner(2, members, alive=newcomer_waits, **sockets)
    learners[0].settings = msgspec.structs.replace(learners[0].settings, max_staleness=None)
    assert new.join(0, 0)[1] >= 3
    assert torch.equal(new.weights, learners[0].weights)


LEARNER = """
import sys
from pathlib import Path
import torch
from tests.parameters.gossiping import learn, learner
torch.set_num_threads(1)
exchange = learner(Path(sys.argv[1]), 1, [0, 1])
exchange.join(0, 0)
while True:
    learn(exchange)
"""


@pytest.mark.nightly
@pytest.mark.timeout(180)  # each peer loads torch, on a machine that may be busy
def test_a_learner_goes_on_without_a_killed_peer_and_mixes_again_when_it_is_back(run: Run) -> None:
    members = [0, 1]
    exchange = run.learner(0, members)
    exchange.join(0, 0)

    def used() -> list[int]:
        """Versions of the peer's messages that were mixed, in order."""
        return [messages[1] for messages in run.mixed(0)]

    def learn_until_mixed(times: int) -> None:
        deadline_s = time.monotonic() + 80.0
        while len(used()) < times:
            assert time.monotonic() < deadline_s
            for _ in range(20):
                learn(exchange, torch.zeros(PARAMETERS))

    for _ in range(2):
        peer = subprocess.Popen([sys.executable, "-c", LEARNER, str(run.folder)], cwd=ROOT)
        try:
            learn_until_mixed(len(used()) + 3)
        finally:
            peer.send_signal(signal.SIGKILL)
            assert peer.wait() == -signal.SIGKILL
        before = len(used())
        for _ in range(50):
            learn(exchange, torch.zeros(PARAMETERS))
        assert len(used()) <= before + 1  # its last message
        assert torch.isfinite(exchange.weights).all()
        members[:] = [0]
        learn(exchange)
        assert exchange.metrics()["staleness_max"] >= 48
        members[:] = [0, 1]
    assert used() == sorted(set(used()))
    adopted = [record.messages for record in run.records(1) if record.kind == "adopted"]
    assert len(adopted) == 1 and adopted[0][0] > 0  # by the second, of this learner's newest message
