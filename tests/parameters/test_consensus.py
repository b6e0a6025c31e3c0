"""Proposition 1's bound against learners that really mix: random graphs, delays, gaps, deaths; and closed forms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from actorlearn.memory.shared import Segment
from actorlearn.parameters import consensus, exchange_log
from actorlearn.parameters.consensus import HISTORY, Bound, Consensus, Measured, cosines, measure
from actorlearn.parameters.exchange_log import RECORDS, STEPPED, ExchangeLog, Record, exchange_fields
from actorlearn.parameters.mixing import GRAPHS, GraphSettings, in_peers, mixing_matrix
from tests.examples import examples

SIZE = 5
Vector = NDArray[np.float64]


class Fake:
    """Learners in float64 that exchange by hand, each logging what it does."""

    def __init__(self, folder: Path, graph: GraphSettings, learners: int, seed: int, records: int = RECORDS) -> None:
        self.graph, self.random = graph, np.random.default_rng(seed)
        self.members = list(range(learners))
        self.weights = {learner: np.zeros(SIZE) for learner in self.members}
        self.messages: dict[int, list[Vector]] = {learner: [] for learner in self.members}
        self.used: dict[tuple[int, int], int] = {}
        self.exchanges = dict.fromkeys(self.members, 0)
        self.logs = {
            learner: ExchangeLog(Segment.create(folder / f"exchanges-{learner}", exchange_fields(records)))
            for learner in self.members
        }
        self.consensus = Consensus(folder)

    def step(self, learner: int, update: Vector, posted: bool = True) -> None:
        """A local step, and its message unless the learner dies before."""
        self.weights[learner] = self.weights[learner] + update
        self.logs[learner].stepped(len(self.messages[learner]), float(np.linalg.norm(update)))
        if posted:
            self.messages[learner].append(self.weights[learner])

    def mix(self, learner: int, late: int = 0) -> bool:
        """Mix messages that are so many versions old, if there are such that were not used."""
        peers = in_peers(self.graph, self.members, learner, self.exchanges[learner])
        versions = {peer: len(self.messages[peer]) - 1 - late for peer in peers}
        if not peers:
            self.exchanges[learner] += 1  # nobody's turn to wait for
        if not peers or any(version <= self.used.get((learner, peer), -1) for peer, version in versions.items()):
            return False
        mixed = np.mean([self.weights[learner], *(self.messages[p][v] for p, v in versions.items())], axis=0)
        self.logs[learner].mixed(versions, float(np.linalg.norm(mixed - self.weights[learner])))
        self.weights[learner] = mixed
        self.exchanges[learner] += 1
        self.used.update({(learner, peer): version for peer, version in versions.items()})
        return True

    def rejoin(self, learner: int) -> None:
        """Come back from the in-peers' newest messages, or from a checkpoint if there are none."""
        self.members = sorted({*self.members, learner})
        peers = in_peers(self.graph, self.members, learner, self.exchanges[learner])
        versions = {peer: len(self.messages[peer]) - 1 for peer in peers if self.messages[peer]}
        self.logs[learner].adopted(versions)
        adopted = [self.messages[peer][version] for peer, version in versions.items()]
        self.weights[learner] = np.mean(adopted, axis=0) if adopted else self.random.normal(size=SIZE)

    def newest(self) -> dict[int, Vector]:
        return {learner: self.messages[learner][-1] for learner in self.members if self.messages[learner]}

    def measured(self) -> Measured:
        newest = self.newest()
        first = next(iter(newest))
        return Measured(
            {learner: len(self.messages[learner]) - 1 for learner in newest},
            {learner: float(np.linalg.norm(vector - newest[first])) for learner, vector in newest.items()},
            float(np.linalg.norm(newest[first] - np.mean(list(newest.values()), axis=0))),
        )

    def check(self) -> tuple[Vector, Vector]:
        """Distances of the newest messages from their mean, and their bounds, which are no smaller."""
        told = self.consensus.bound(self.members, self.measured())
        assert told is not None
        bounds, together = told
        newest = np.stack(list(self.newest().values()))
        off = np.linalg.norm(newest - newest.mean(0), axis=1)
        allowed = 1e-9 * (1 + np.abs(newest).max())  # of rounding
        assert (off <= bounds + allowed).all(), (off, bounds)
        assert np.linalg.norm(off) <= together + allowed * len(off)
        return off, bounds


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


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
    records=st.sampled_from([24, 64, RECORDS]),
    acts=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["exchange"] * 12 + ["look"] * 3 + ["die", "die unposted"])),
        min_size=30,
        max_size=120,
    ),
    latest=st.sampled_from([0, 1, 2 * HISTORY]),
    agreed=st.sampled_from([consensus.AGREED, 0.2]),
)
@settings(max_examples=examples(150))
def test_no_distance_exceeds_its_bound(
    graph: GraphSettings,
    learners: int,
    seed: int,
    records: int,
    acts: list[tuple[int, str]],
    latest: int,
    agreed: float,
) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(consensus, "AGREED", agreed),
        mock.patch.object(consensus, "FOLD_AFTER", 6),
    ):
        fake = Fake(Path(name), graph, learners, seed, records)
        random = fake.random
        for drawn, act in acts:
            learner = drawn % learners
            if learner not in fake.members:
                fake.rejoin(learner)
            elif act == "look":
                fake.consensus.follow(fake.members)
                if fake.newest():
                    fake.check()
            elif act == "exchange":
                fake.step(learner, random.normal(size=SIZE) * random.choice([0.0, 0.1, 1.0, 30.0]))
                if random.random() < 0.8:
                    fake.mix(learner, int(random.integers(latest + 1)))
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
def test_the_bound_of_a_synchronous_run_is_the_closed_form(folder: Path, name: str) -> None:
    graph, learners, rollouts, norm = GraphSettings(name=name), 4, 12, 0.5
    fake = Fake(folder, graph, learners, seed=0)
    for _ in range(rollouts):
        for learner in fake.members:
            fake.step(learner, norm * np.eye(SIZE)[learner])
        if all(len(messages) < rollouts for messages in fake.messages.values()):
            for learner in fake.members:
                assert fake.mix(learner)
    expected = coefficients_of_a_synchronous_run(graph, learners, rollouts)
    _, bounds = fake.check()
    np.testing.assert_allclose(bounds, norm * np.abs(expected - 1 / learners).sum(0))
    told = fake.consensus.bound(fake.members, fake.measured())
    assert told is not None
    assert told[1] == pytest.approx(norm * np.linalg.norm(expected - 1 / learners, axis=1).sum())


def test_the_distance_of_a_single_update_is_the_bound(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 4, seed=0)
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


def test_two_that_mix_in_the_same_rollout_agree_and_one_that_skips_does_not(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    for mixing in ([0, 1], [0]):
        for learner in fake.members:
            fake.step(learner, fake.random.normal(size=SIZE))
        for learner in mixing:
            assert fake.mix(learner)
        for learner in fake.members:
            fake.step(learner, np.zeros(SIZE))
        off, bounds = fake.check()
        assert ((off < 1e-12) == (bounds < 1e-12)).all() and (bounds.max() < 1e-12) == (len(mixing) == 2)


def test_an_overrun_ring_begins_anew_from_the_measured_distances(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 2, seed=0, records=16)
    fake.step(0, np.full(SIZE, 100.0))
    fake.step(1, np.zeros(SIZE))
    before, _ = fake.check()
    for _ in range(20):
        for learner in fake.members:
            fake.mix(learner)
        for learner in fake.members:
            fake.step(learner, np.full(SIZE, 1e-3))
    _, bounds = fake.check()
    np.testing.assert_allclose(bounds, fake.measured().distances[1] / 2)
    assert bounds.max() < 1e-3 < before.max()
    fake.mix(0)
    fake.step(0, np.ones(SIZE))
    assert fake.check()[1].max() > 1  # and goes on from there


def test_weights_of_unequal_checkpoints_are_measured(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    for learner in fake.members:
        fake.rejoin(learner)  # nobody has posted
    for learner in fake.members:
        fake.step(learner, np.zeros(SIZE))
    off, bounds = fake.check()
    assert off.min() > 0.1
    np.testing.assert_allclose(bounds, off)


def test_updates_on_which_all_agree_are_folded_and_never_forgotten(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(name="complete"), 3, seed=0)
    for _ in range(1500):
        for learner in fake.members:
            fake.step(learner, fake.random.normal(size=SIZE))
        for learner in fake.members:
            fake.mix(learner)
    _, bounds = fake.check()
    bound = fake.consensus._bound
    assert bound._count < 1000 and len(bound._norms) <= 1024  # of 4500 updates
    assert bounds.max() < 20  # the last rollout's, and nothing much besides
    assert bound._remainder < 4500 * 10 * consensus.AGREED


def test_more_updates_than_can_be_followed_begin_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consensus, "MOST_COEFFICIENTS", 500 * 2 * (HISTORY + 1))
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    fake.step(1, np.zeros(SIZE))
    for _ in range(600):  # learner 1 never comes again, so nothing is agreed upon
        fake.step(0, np.ones(SIZE))
        fake.consensus.follow(fake.members)
    off, bounds = fake.check()
    np.testing.assert_allclose(bounds, off)
    assert fake.consensus._bound._count == 2


def test_many_learners_take_no_more_memory_than_few(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 64 * (HISTORY + 1) * 200
    monkeypatch.setattr(consensus, "MOST_COEFFICIENTS", most)
    monkeypatch.setattr(consensus, "FOLD_AFTER", 32)
    bound, sizes = Bound(), []
    for version in range(6):
        for learner in range(64):
            bound.replay(learner, Record(0, STEPPED, version, 1.0, {}))
            sizes.append(bound._rows.size)
    assert most < max(sizes) <= 1.5625 * most  # where it is seen, there is room for a quarter more, twice
    assert bound.lost and sizes[-1] == 0


def test_a_learner_that_starts_after_updates_were_folded_is_measured(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 3, seed=0)
    for _ in range(600):
        for learner in (0, 1):
            fake.step(learner, np.ones(SIZE))
        for learner in (0, 1):
            fake.mix(learner)
        fake.consensus.follow(fake.members)
    fake.step(2, np.zeros(SIZE))
    off, bounds = fake.check()
    assert off.min() > 100
    np.testing.assert_allclose(bounds[2], off[2])  # the others are where the first is, or next to it


def test_what_is_folded_still_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consensus, "AGREED", 1.0)  # everything is
    monkeypatch.setattr(consensus, "FOLD_AFTER", 3)
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    fake.step(1, np.zeros(SIZE))
    for _ in range(20):
        fake.step(0, np.ones(SIZE))
    fake.check()
    assert fake.consensus._bound._count <= 3


def test_a_learner_that_is_listed_again_but_has_not_adopted_weights_is_measured(folder: Path) -> None:
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    for learner in fake.members:
        fake.step(learner, np.full(SIZE, 5.0 * learner))
    fake.check()
    fake.step(1, np.zeros(SIZE))  # which nobody reads before it dies
    fake.members = [0]
    fake.check()
    fake.members = [0, 1]
    assert fake.check()[0].min() > 2


def test_a_record_newer_than_the_look_waits_for_what_it_rests_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Learner 0's ring is read, then learner 1 mixes a message of which only learner 0's next record tells."""
    fake = Fake(folder, GraphSettings(), 2, seed=0)
    fake.step(1, np.zeros(SIZE))
    reader = fake.consensus._reader(0)
    assert reader is not None
    read = reader.read

    def slow_read() -> list[Record]:
        monkeypatch.setattr(reader, "read", read)
        records = read()
        fake.step(0, np.ones(SIZE))
        fake.mix(1)
        return records

    monkeypatch.setattr(reader, "read", slow_read)
    fake.consensus.follow(fake.members)
    fake.mix(0)
    fake.step(0, np.zeros(SIZE))
    fake.step(1, np.zeros(SIZE))
    off, bounds = fake.check()
    np.testing.assert_allclose(off, 0.0)
    np.testing.assert_allclose(bounds, 0.0)  # an unknown message would have counted as an update


def test_a_message_that_is_not_remembered_counts_as_an_update() -> None:
    bound = Bound()
    for version in range(HISTORY + 1):
        for learner in (0, 1):
            bound.replay(learner, Record(0, STEPPED, version, 0.0, {}))
    bound.replay(1, Record(0, exchange_log.MIXED, -1, 3.0, {0: 0}))
    bound.replay(1, Record(0, STEPPED, HISTORY + 1, 0.0, {}))
    told = bound.of({0: HISTORY, 1: HISTORY + 1})
    assert told is not None
    np.testing.assert_allclose(told[0], 1.5)
    assert told[1] == pytest.approx(1.5 * 2**0.5)
    assert bound.of({0: 0, 1: HISTORY + 1}) is None


def test_messages_are_measured_from_the_first_learner() -> None:
    messages = {5: np.array([1, 0, 0], np.float32), 2: np.array([0, 2, 0], np.float32)}

    def take(learner: int, out: NDArray[np.float32]) -> int:
        out[:] = messages[learner]
        return learner * 10

    measured = measure([5, 2], take, 3)
    assert measured.versions == {5: 50, 2: 20}
    assert measured.distances == {5: 0.0, 2: pytest.approx(5**0.5)}
    assert measured.distance == pytest.approx(5**0.5 / 2)


def test_cosines_of_gradients() -> None:
    told = cosines({k: np.array(v, np.float32) for k, v in {2: (0, 3), 0: (1, 0), 1: (-2, -2), 7: (0, 0)}.items()})
    assert told == {
        "0-1": pytest.approx(-(0.5**0.5)),
        "0-2": 0.0,
        "0-7": 0.0,
        "1-2": pytest.approx(-(0.5**0.5)),
        "1-7": 0.0,
        "2-7": 0.0,
    }


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
    folder: Path, graph: GraphSettings, learners: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew: list[object] = []
    monkeypatch.setattr(Bound, "start", lambda *args: anew.append(args))
    fake = Fake(folder, graph, learners, seed=1)
    random, drift = fake.random, fake.random.normal(size=SIZE)
    ratios, mixes = [], 0
    for exchange in range(10_000):
        learner = int(random.integers(learners))
        if learner == 0 and exchange % 5:
            continue  # five times as slow
        fake.step(learner, 0.01 * (drift + random.normal(size=SIZE)))  # gradients of learners are somewhat alike
        if random.random() < 0.9:
            mixes += fake.mix(learner, late=int(random.choice([0, 0, 0, 1, 3])))
        fake.consensus.follow(fake.members)
        if exchange % 50 == 49 and len(fake.newest()) == learners:
            off, bounds = fake.check()
            ratios.append(bounds.max() / off.max())
    assert mixes > 500 and not anew
    assert np.median(ratios) < 20  # near enough to say something
