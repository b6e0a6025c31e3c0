"""Proposition 1's bound against learners that really mix: random graphs, delays, gaps, deaths; and closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from actorlearn.parameters.consensus import ExchangeRecord
from actorlearn.parameters.mixing import GRAPHS, GraphSettings, in_peers, mixing_matrix
from benchmarks.papers import gossip_bound
from benchmarks.papers.gossip_bound import HISTORY, Bound, Drift, Follower, logs_of, points
from tests.examples import examples
from tests.parameters import gossiping

SIZE = 5
Vector = NDArray[np.float64]


class Fake:
    """Learners with weights in float64, which exchange when the test says so; each record is followed at once."""

    def __init__(self, graph: GraphSettings, learners: int, seed: int = 0) -> None:
        self.graph, self.random = graph, np.random.default_rng(seed)
        self.members = list(range(learners))
        self.weights = {learner: np.zeros(SIZE) for learner in self.members}
        self.messages: dict[int, list[Vector]] = {learner: [] for learner in self.members}
        self.used: dict[tuple[int, int], int] = {}
        self.exchanges = dict.fromkeys(self.members, 0)
        self.follower = Follower()
        self.logs: dict[int, list[ExchangeRecord]] = {learner: [] for learner in self.members}
        self.now_ns = 0
        self.silent: set[int] = set()
        """Learners whose disk is full."""
        self.untold: set[int] = set()
        """Learners whose newest message has no record."""

    def log(self, learner: int, kind: Any, **what: Any) -> Drift | None:
        """Write a record, and follow it; nothing where the learner's disk is full."""
        if learner in self.silent:
            return None
        self.now_ns += 1
        record = ExchangeRecord(self.now_ns, kind, **what)
        self.logs[learner].append(record)
        return self.follower.take(learner, record)

    def step(self, learner: int, update: Vector, posted: bool = True) -> None:
        """A local step, and its message unless the learner dies before."""
        self.weights[learner] = self.weights[learner] + update
        self.log(learner, "stepped", version=len(self.messages[learner]), norm=float(np.linalg.norm(update)))
        if posted:
            self.messages[learner].append(self.weights[learner])
            (self.untold.add if learner in self.silent else self.untold.discard)(learner)

    def mix(self, learner: int, late: int = 0) -> bool:
        """Mix the in-peers' messages of ``late`` versions ago, if none of them was used before."""
        peers = in_peers(self.graph, self.members, learner, self.exchanges[learner])
        versions = {peer: len(self.messages[peer]) - 1 - late for peer in peers}
        if not peers:
            self.exchanges[learner] += 1  # it has no in-peer in this exchange
        if not peers or any(version <= self.used.get((learner, peer), -1) for peer, version in versions.items()):
            return False
        mixed = np.mean([self.weights[learner], *(self.messages[p][v] for p, v in versions.items())], axis=0)
        self.log(learner, "mixed", messages=versions, norm=float(np.linalg.norm(mixed - self.weights[learner])))
        self.weights[learner] = mixed
        self.exchanges[learner] += 1
        self.used.update({(learner, peer): version for peer, version in versions.items()})
        return True

    def rejoin(self, learner: int) -> None:
        """Come back from the in-peers' newest messages, or from a checkpoint if there are none."""
        self.members = sorted({*self.members, learner})
        self.silent.discard(learner)
        peers = in_peers(self.graph, self.members, learner, self.exchanges[learner])
        versions = {peer: len(self.messages[peer]) - 1 for peer in peers if self.messages[peer]}
        self.log(learner, "adopted", messages=versions)
        adopted = [self.messages[peer][version] for peer, version in versions.items()]
        self.weights[learner] = np.mean(adopted, axis=0) if adopted else self.random.normal(size=SIZE)

    def newest(self) -> dict[int, Vector]:
        return {learner: self.messages[learner][-1] for learner in self.members if self.messages[learner]}

    def measure(self, first: int) -> Drift | None:
        """One learner compares the newest messages, its own first."""
        newest = self.newest()
        others = [learner for learner in newest if learner != first]
        return self.log(
            first,
            "measured",
            messages={learner: len(self.messages[learner]) - 1 for learner in (first, *others)},
            distances={learner: float(np.linalg.norm(vector - newest[first])) for learner, vector in newest.items()},
            distance=float(np.linalg.norm(newest[first] - np.mean(list(newest.values()), axis=0))),
        )

    def check(self) -> tuple[Vector, Vector]:
        """Distances of the newest messages from their mean, and their bounds, which are no smaller."""
        told = [self.measure(learner) for learner in self.newest()]
        points = [point for point in told if point is not None]
        if (self.silent | self.untold) & self.newest().keys():
            return np.zeros(0), np.zeros(0)  # without all records there is no bound
        assert len(points) == len(told)
        off, bounds = (np.array([getattr(point, name) for point in points]) for name in ("distance", "bound"))
        allowed = 1e-9 * (1 + max(np.abs(message).max() for message in self.newest().values()))  # for rounding errors
        assert (off <= bounds + allowed).all(), (off, bounds)
        assert np.linalg.norm(off) <= points[-1].together + allowed * len(off)
        return off, bounds


lists = st.lists(st.sets(st.integers(0, 3)), min_size=4, max_size=4).map(
    lambda drawn: tuple(tuple(sorted(peers - {learner})) for learner, peers in enumerate(drawn))
)
graphs = st.one_of(
    st.builds(GraphSettings, name=st.sampled_from([g for g in GRAPHS if g != "lists"]), peers=st.integers(1, 3)),
    st.builds(GraphSettings, name=st.just("lists"), lists=lists),
)


@given(
    graph=graphs,
    learners=st.integers(2, 4),
    seed=st.integers(0, 1 << 30),
    acts=st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["exchange"] * 12 + ["look"] * 3 + ["die", "die unposted", "full disk"])
        ),
        min_size=30,
        max_size=120,
    ),
    latest=st.sampled_from([0, 1, 2 * HISTORY]),
    agreed=st.sampled_from([gossip_bound.AGREED, 0.2]),
)
@settings(max_examples=examples(150))
def test_no_distance_exceeds_its_bound(
    graph: GraphSettings,
    learners: int,
    seed: int,
    acts: list[tuple[int, str]],
    latest: int,
    agreed: float,
) -> None:
    with (
        mock.patch.object(gossip_bound, "AGREED", agreed),
        mock.patch.object(gossip_bound, "FOLD_AFTER", 6),
    ):
        fake = Fake(graph, learners, seed)
        random = fake.random
        for drawn, act in acts:
            learner = drawn % learners
            if learner not in fake.members:
                fake.rejoin(learner)
            elif act == "look":
                if fake.newest():
                    fake.check()
            elif act == "exchange":
                fake.step(learner, random.normal(size=SIZE) * random.choice([0.0, 0.1, 1.0, 30.0]))
                if random.random() < 0.8:
                    fake.mix(learner, int(random.integers(latest + 1)))
            elif act == "full disk":
                fake.silent.add(learner)
            elif len(fake.members) > 1:
                if act == "die unposted":
                    fake.step(learner, random.normal(size=SIZE), posted=False)
                fake.members.remove(learner)
        if fake.newest():
            fake.check()


def coefficients_of_a_synchronous_run(graph: GraphSettings, learners: int, rollouts: int) -> Vector:
    """[updates, learners]: the product of the mixing matrices after each update; slow and obvious."""
    columns = []
    for born in range(rollouts):
        product = np.eye(learners)
        for exchange in range(born, rollouts - 1):
            product = mixing_matrix(graph, range(learners), exchange) @ product
        columns.append(product.T)
    return np.concatenate(columns)


@pytest.mark.parametrize("name", ["ring", "exponential", "exponential-varying", "complete", "random-matching"])
def test_the_bound_of_a_synchronous_run_is_the_closed_form(name: str) -> None:
    graph, learners, rollouts, norm = GraphSettings(name=name), 4, 12, 0.5
    fake = Fake(graph, learners, seed=0)
    for _ in range(rollouts):
        for learner in fake.members:
            fake.step(learner, norm * np.eye(SIZE)[learner])
        if all(len(messages) < rollouts for messages in fake.messages.values()):
            for learner in fake.members:
                assert fake.mix(learner)
    expected = coefficients_of_a_synchronous_run(graph, learners, rollouts)
    _, bounds = fake.check()
    np.testing.assert_allclose(bounds, norm * np.abs(expected - 1 / learners).sum(0))
    told = fake.measure(0)
    assert told is not None
    assert told.together == pytest.approx(norm * np.linalg.norm(expected - 1 / learners, axis=1).sum())


def test_the_distance_of_a_single_update_is_the_bound() -> None:
    fake = Fake(GraphSettings(), 4, seed=0)
    for learner in fake.members:
        fake.step(learner, np.full(SIZE, 2.0 if learner == 1 else 0.0))
    for _ in range(5):
        off, bounds = fake.check()
        np.testing.assert_allclose(off, bounds)
        assert off.max() > 0.1
        for learner in fake.members:
            fake.mix(learner)
        for learner in fake.members:
            fake.step(learner, np.zeros(SIZE))


def test_two_that_mix_in_the_same_rollout_agree_and_one_that_skips_does_not() -> None:
    fake = Fake(GraphSettings(), 2, seed=0)
    for mixing in ([0, 1], [0]):
        for learner in fake.members:
            fake.step(learner, fake.random.normal(size=SIZE))
        for learner in mixing:
            assert fake.mix(learner)
        for learner in fake.members:
            fake.step(learner, np.zeros(SIZE))
        off, bounds = fake.check()
        assert ((off < 1e-12) == (bounds < 1e-12)).all() and (bounds.max() < 1e-12) == (len(mixing) == 2)


def test_after_what_is_not_recorded_the_bound_begins_anew_from_the_measured_distances() -> None:
    fake = Fake(GraphSettings(), 2)
    for learner in fake.members:
        fake.step(learner, np.full(SIZE, 100.0 * learner))
    before, _ = fake.check()
    fake.silent.add(1)
    fake.step(1, np.zeros(SIZE))
    assert fake.measure(0) is None
    fake.members.remove(1)
    fake.rejoin(1)
    for learner in fake.members:
        fake.step(learner, np.full(SIZE, 1e-3))
    off, bounds = fake.check()
    np.testing.assert_allclose(bounds, off)
    assert bounds.max() < 1e-2 < before.max()
    fake.mix(0)
    fake.step(0, np.ones(SIZE))
    assert fake.check()[1].max() > 1  # the bound is followed from there


def test_of_two_steps_to_one_message_the_later_one_led_to_it() -> None:
    fake = Fake(GraphSettings(), 2)
    for learner in fake.members:
        fake.rejoin(learner)  # so that the distances are measured
    fake.step(1, np.zeros(SIZE))
    fake.step(0, np.full(SIZE, 50.0), posted=False)  # it dies before it posts
    fake.rejoin(0)
    fake.step(0, np.ones(SIZE))
    fake.mix(0)
    off, bounds = fake.check()
    np.testing.assert_allclose(bounds, off)


def test_logs_of_learners_are_merged_by_time() -> None:
    fake = Fake(GraphSettings(), 3)
    told = []
    for _ in range(20):
        for learner in fake.members:
            fake.step(learner, fake.random.normal(size=SIZE))
            fake.mix(learner)
        told += [fake.measure(learner) for learner in fake.members]
    assert points(fake.logs) == told
    assert points({}) == []


def test_weights_of_unequal_checkpoints_are_measured() -> None:
    fake = Fake(GraphSettings(), 2, seed=0)
    for learner in fake.members:
        fake.rejoin(learner)  # no learner has posted a message
    for learner in fake.members:
        fake.step(learner, np.zeros(SIZE))
    off, bounds = fake.check()
    assert off.min() > 0.1
    np.testing.assert_allclose(bounds, off)


def test_updates_on_which_all_agree_are_folded_and_never_forgotten() -> None:
    fake = Fake(GraphSettings(name="complete"), 3, seed=0)
    for _ in range(1500):
        for learner in fake.members:
            fake.step(learner, fake.random.normal(size=SIZE))
        for learner in fake.members:
            fake.mix(learner)
    _, bounds = fake.check()
    bound = fake.follower.bound
    assert bound.updates < 1000 and bound.coefficients <= 1024 * 3 * (HISTORY + 1)  # of 4500 updates
    assert bounds.max() < 20  # hardly more than the last rollout's
    assert bound.remainder < 4500 * 10 * gossip_bound.AGREED


def test_more_updates_than_can_be_followed_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_bound, "MOST_COEFFICIENTS", 500 * 2 * (HISTORY + 1))
    fake = Fake(GraphSettings(), 2, seed=0)
    fake.step(1, np.zeros(SIZE))
    for _ in range(600):  # learner 1 does not mix again, so nothing is agreed upon
        fake.step(0, np.ones(SIZE))
    off, bounds = fake.check()
    np.testing.assert_allclose(bounds, off)
    assert fake.follower.bound.updates == 2


def test_many_learners_take_no_more_memory_than_few(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 64 * (HISTORY + 1) * 200
    monkeypatch.setattr(gossip_bound, "MOST_COEFFICIENTS", most)
    monkeypatch.setattr(gossip_bound, "FOLD_AFTER", 32)
    bound, sizes = Bound(), []
    for version in range(6):
        for learner in range(64):
            bound.replay(learner, ExchangeRecord(0, "stepped", version, 1.0))
            sizes.append(bound.coefficients)
    assert most < max(sizes) <= 1.5625 * most  # when it is noticed, memory has grown by a quarter twice
    assert bound.lost and sizes[-1] == 0


def test_a_learner_that_starts_after_updates_were_folded_is_measured() -> None:
    fake = Fake(GraphSettings(), 3, seed=0)
    for _ in range(600):
        for learner in (0, 1):
            fake.step(learner, np.ones(SIZE))
        for learner in (0, 1):
            fake.mix(learner)
    fake.step(2, np.zeros(SIZE))
    off, bounds = fake.check()
    assert off.min() > 100
    np.testing.assert_allclose(bounds[2], off[2])  # the others are where the first is, or next to it


def test_what_is_folded_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip_bound, "AGREED", 1.0)  # all updates count as agreed upon
    monkeypatch.setattr(gossip_bound, "FOLD_AFTER", 3)
    fake = Fake(GraphSettings(), 2, seed=0)
    fake.step(1, np.zeros(SIZE))
    for _ in range(20):
        fake.step(0, np.ones(SIZE))
    fake.check()
    assert fake.follower.bound.updates <= 3


def test_a_learner_that_is_listed_again_but_has_not_adopted_weights_is_measured() -> None:
    fake = Fake(GraphSettings(), 2, seed=0)
    for learner in fake.members:
        fake.step(learner, np.full(SIZE, 5.0 * learner))
    fake.check()
    fake.step(1, np.zeros(SIZE))  # which nobody reads before it dies
    fake.members = [0]
    fake.check()
    fake.members = [0, 1]
    assert fake.check()[0].min() > 2


def test_a_message_that_is_not_remembered_counts_as_an_update() -> None:
    bound = Bound()
    for version in range(HISTORY + 1):
        for learner in (0, 1):
            bound.replay(learner, ExchangeRecord(0, "stepped", version))
    bound.replay(1, ExchangeRecord(0, "mixed", norm=3.0, messages={0: 0}))
    bound.replay(1, ExchangeRecord(0, "stepped", HISTORY + 1))
    told = bound.of({0: HISTORY, 1: HISTORY + 1})
    assert told is not None
    np.testing.assert_allclose(told[0], 1.5)
    assert told[1] == pytest.approx(1.5 * 2**0.5)
    assert bound.of({0: 0, 1: HISTORY + 1}) is None


@pytest.mark.parametrize(
    "graph",
    [
        *(GraphSettings(), GraphSettings(name="complete"), GraphSettings(name="k-peer", peers=2)),
        *(GraphSettings(name="exponential-varying"), GraphSettings(name="random-matching", seed=5)),
    ],
)
def test_learners_are_never_farther_apart_than_their_bound_and_a_lost_one_is_soon_among_them(
    tmp_path: Path, graph: GraphSettings
) -> None:
    """Of four that learn in any order one is killed, misses a while, and comes back with an old checkpoint."""
    folder, members = gossiping.segments(tmp_path, 4), [0, 1, 2, 3]
    learners = [gossiping.learner(folder, rank, members, graph) for rank in range(4)]
    for exchange in learners:
        exchange.join(0, 0)
    drawn = np.random.default_rng(1)
    distances: list[float] = []

    def go_on(turns: int) -> None:
        for _ in range(turns):
            who = int(drawn.choice(members))
            gossiping.learn(learners[who], torch.from_numpy(drawn.normal(size=gossiping.PARAMETERS)).float())
            told = learners[who].metrics()
            if who == 1 and "consensus_distance" in told:  # not before two have posted
                distances.append(told["consensus_distance"])

    go_on(200)
    level, state = float(np.median(distances)), learners[1].state()
    members.remove(1)
    go_on(100)
    learners[1].close()
    members[:] = [0, 1, 2, 3]
    learners[1] = gossiping.learner(folder, 1, members, graph)
    learners[1].restore(state)
    learners[1].weights += 100.0  # an old checkpoint
    learners[1].join(0, 0)
    distances.clear()
    go_on(150)
    assert len(distances) >= 20 and min(distances[:20]) < level
    told = points(logs_of(folder))
    assert len(told) > 400 and all(point.distance <= point.bound for point in told)
    for exchange in learners:
        exchange.close()


@pytest.mark.parametrize("name", ["ring", "complete", "random-matching"])
def test_the_bound_allows_for_rounding(tmp_path: Path, name: str) -> None:
    """When nothing is learned any more the learners come together, as far as float32 lets them."""
    folder = gossiping.segments(tmp_path, 3)
    learners = [gossiping.learner(folder, rank, range(3), GraphSettings(name=name)) for rank in range(3)]
    for exchange in learners:
        exchange.weights += 100.0  # large weights are rounded more
        exchange.join(0, 0)
        assert "consensus_distance" not in exchange.metrics()  # nothing was posted
    drawn, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    for gradient in torch.cat(
        [torch.randn(100, gossiping.PARAMETERS, generator=generator), torch.zeros(100, gossiping.PARAMETERS)]
    ):
        gossiping.learn(learners[drawn.integers(3)], gradient)
        for exchange in learners:
            exchange.metrics()
    told = points(logs_of(folder))
    assert all(point.distance <= point.bound for point in told)
    assert min(point.bound for point in told) < 0.01 < max(point.bound for point in told)
    for exchange in learners:
        exchange.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("graph", "learners"),
    [
        (GraphSettings(), 6),
        (GraphSettings(name="k-peer", peers=2), 6),
        (GraphSettings(name="exponential"), 8),
        (GraphSettings(name="exponential-varying"), 8),
        (GraphSettings(name="complete"), 4),
        (GraphSettings(name="random-matching"), 5),
    ],
    ids=lambda value: value.name if isinstance(value, GraphSettings) else str(value),
)
def test_thousands_of_exchanges_with_delays_gaps_and_a_slow_learner(
    graph: GraphSettings, learners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew: list[object] = []
    monkeypatch.setattr(Bound, "start", lambda *args: anew.append(args))
    fake = Fake(graph, learners, seed=1)
    random, drift = fake.random, fake.random.normal(size=SIZE)
    ratios, mixes = [], 0
    for exchange in range(10_000):
        learner = int(random.integers(learners))
        if learner == 0 and exchange % 5:
            continue  # five times as slow
        fake.step(learner, 0.01 * (drift + random.normal(size=SIZE)))  # gradients of learners are somewhat alike
        if random.random() < 0.9:
            mixes += fake.mix(learner, late=int(random.choice([0, 0, 0, 1, 3])))
        if exchange % 50 == 49 and len(fake.newest()) == learners:
            off, bounds = fake.check()
            ratios.append(bounds.max() / off.max())
    assert mixes > 500 and not anew
    assert np.median(ratios) < 20  # tight enough to be of use
