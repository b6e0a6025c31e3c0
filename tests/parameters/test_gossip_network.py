"""Gossip between machines: accepted senders, lost and repeated messages, and counts without shared memory."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Literal

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.address import ByLearner, Shm
from actorlearn.memory.shared import Segment
from actorlearn.parameters.frame_headers import MAILBOX, MAILBOX_ROW_BYTES
from actorlearn.parameters.gossip import Gossip
from actorlearn.parameters.interface import Learner, Present
from actorlearn.parameters.mailbox import INCARNATION, SocketMailbox, tcp_transport
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.modes import make
from actorlearn.parameters.settings import GossipExchangeSettings
from actorlearn.parameters.shared_counts import TABLE_WORDS, SharedCounts, counts_fields
from actorlearn.wire.identity import trainer_id
from actorlearn.wire.messages import Endpoint
from tests.examples import examples
from tests.parameters import gossiping
from tests.parameters.gossiping import PAAC, PARAMETERS, SIZE, learn, start
from tests.parameters.networked import Listing
from tests.wire.doors import Relay, until

HOST = "127.0.0.1"


@pytest.fixture
def opened() -> Iterator[list[SocketMailbox | Gossip]]:
    made: list[SocketMailbox | Gossip] = []
    yield made
    for each in made:
        each.close()


def mailbox(listing: Listing, learner: int, peers: Sequence[int], incarnation: int = 0) -> SocketMailbox:
    transport = tcp_transport(listing.trainer(learner, incarnation), HOST)
    return SocketMailbox(learner, SIZE, transport, lambda: peers, incarnation)


def weights(number: float) -> np.ndarray:
    return np.full(SIZE, number, np.float32)


def learner(
    folder: Path,
    listing: Listing,
    rank: int,
    members: Sequence[int],
    incarnation: int = 0,
    alive: Callable[[], bool] = lambda: True,
    local_steps: int = 1,
    max_staleness: int | None = None,
    graph: Literal["ring", "none"] = "ring",
) -> Gossip:
    """A learner on a machine of its own, whose folder no other learner uses."""
    folder.mkdir(exist_ok=True)
    if not (folder / "counts").exists():
        Segment.create(folder / "counts", counts_fields(64)).close()
    told = GossipExchangeSettings(
        rank=rank,
        learners=len(members),
        counts=Shm(path=f"{folder}/counts"),
        messages=ByLearner(Shm(f"{folder}/messages")),
        graph=GraphSettings(name=graph),
        incarnation=incarnation,
        host=HOST,
        local_steps=local_steps,
        max_staleness=max_staleness,
    )
    own = Learner(
        *(PAAC, start(), torch.zeros(PARAMETERS), alive, lambda: Present(members), print),
        endpoints=listing.trainer(rank, incarnation),
    )
    made = make(told, own)
    assert isinstance(made, Gossip)
    return made


def test_near_the_end_of_a_run_each_batch_is_reported_to_the_others_at_once(
    tmp_path: Path, listing: Listing, opened: list[SocketMailbox | Gossip]
) -> None:
    one, other = made = [learner(tmp_path / str(rank), listing, rank, (0, 1)) for rank in range(2)]
    opened += made
    for each in made:
        each.join(0, 0)
        learn(each)
    learn(one)
    until(lambda: other.learned(1_000) == 20)  # of the first learner's batches only the first was told
    assert one.learned(40) == 20
    learn(one)
    until(lambda: other.learned(1_000) == 40)


def test_a_learner_assumes_that_others_learned_as_much_since_their_last_message_as_itself(
    tmp_path: Path, listing: Listing, opened: list[SocketMailbox | Gossip]
) -> None:
    made = [learner(tmp_path / str(rank), listing, rank, (0, 1), local_steps=50) for rank in range(2)]
    one, other = made
    opened += made
    for each in made:
        each.join(0, 0)
    for _ in range(50):
        for each in made:
            learn(each)
    until(lambda: all(each.counts.total == (990, 99) for each in made))  # the last batch was counted after the message
    for _ in range(30):
        learn(one)
    assert one.learned(1_700) == 1_290  # with as much of the other since its message, 1,600
    learn(one)
    until(lambda: other.learned(1_700) == 1_310)


def test_near_the_end_of_a_run_batches_are_reported_also_before_the_first_exchange(
    tmp_path: Path, listing: Listing, opened: list[SocketMailbox | Gossip]
) -> None:
    """Once, if the first exchange came after the end of the run, each learner learned all of its steps."""
    made = [learner(tmp_path / str(rank), listing, rank, (0, 1), incarnation=rank, local_steps=50) for rank in range(2)]
    opened += made
    for each in made:
        each.counts.begin(0, 0)
        learn(each)
        assert each.learned(60) == 10
    for each in made:
        learn(each)
    until(lambda: [each.learned(60) for each in made] == [40, 40])


@pytest.mark.parametrize("rounds", [0, 7])
def test_a_run_exceeds_its_end_by_the_steps_that_are_learned_while_counts_travel(
    tmp_path: Path, opened: list[Gossip], rounds: int
) -> None:
    made = [learner(tmp_path / str(rank), Listing(), rank, (0, 1)) for rank in range(2)]  # they do not find each other
    opened += made
    for each in made:
        each.join(0, 0)
    travelling: list[deque[np.ndarray]] = [deque(), deque()]
    end, at_work = 600, {0, 1}
    while at_work:
        for rank in sorted(at_work):
            if made[rank].learned(end) >= end:
                at_work.remove(rank)
            else:
                learn(made[rank])
        for rank, sent in enumerate(travelling):
            sent.append(made[rank].counts.table())
            if len(sent) > rounds:
                made[1 - rank].counts.receive(sent.popleft())
    made[0].counts.receive(made[1].counts.table())
    total, _ = made[0].counts.total
    assert end <= total <= end + (rounds + 2) * 10
    assert (total > end + 2 * 10) == bool(rounds)


# Waits -------------------------------------------------------------------------------------------------------------


def waiting_learner(folder: Path, listing: Listing, rank: int, ends: Event) -> Gossip:
    """One of two learners that wait for each other's message at each exchange, until ``ends`` is set."""
    return learner(folder / str(rank), listing, rank, (0, 1), alive=lambda: not ends.is_set(), max_staleness=0)


@contextmanager
def waiting(made: Sequence[Gossip], ends: Event, claimed: int) -> Iterator[None]:
    """Let two learners learn; in the block both wait for the other's message, after it both learn two batches."""
    done = [0, 0]

    def learn_until(rank: int) -> None:
        while not ends.is_set():
            learn(made[rank])
            done[rank] += 1

    with ThreadPoolExecutor(2) as threads:
        try:
            learning = [threads.submit(learn_until, rank) for rank in range(2)]
            until(lambda: [each.counts.claimed for each in made] == [claimed, claimed])
            time.sleep(0.3)
            assert done == [0, 0]
            yield
            until(lambda: min(done) >= 2)
        finally:
            ends.set()
        for each in learning:
            each.result(20)


@pytest.mark.timeout(40)
def test_learners_that_wait_send_their_messages_to_peers_whose_addresses_come_later(
    tmp_path: Path, opened: list[Gossip]
) -> None:
    """Once each learner sent its message to nobody, and waited forever for the other's."""
    listings, ends = [Listing(), Listing()], Event()
    made = [waiting_learner(tmp_path, listings[rank], rank, ends) for rank in range(2)]
    opened += made
    for each in made:
        each.join(0, 0)
    with waiting(made, ends, claimed=1):
        everybody = [each for listing in listings for each in listing.order.endpoints]
        for listing in listings:
            listing.announce(everybody)


@pytest.mark.timeout(40)
def test_learners_that_wait_send_messages_again_that_were_lost_with_their_connections(
    tmp_path: Path, opened: list[Gossip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once both messages of an exchange were lost, and both learners waited forever."""
    monkeypatch.setattr("actorlearn.parameters.mailbox.AGAIN_S", 0.5)
    listing, ends = Listing(), Event()
    made = [waiting_learner(tmp_path, listing, rank, ends) for rank in range(2)]
    opened += made
    with ExitStack() as stack:
        relays, relayed = list[Relay](), list[Endpoint]()
        for each in listing.order.endpoints:
            assert each.address is not None
            relays.append(stack.enter_context(Relay(each.address)))
            relayed.append(msgspec.structs.replace(each, address=relays[-1].address))
        listing.announce(relayed)
        for exchange in made:
            exchange.join(0, 0)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(learn, made))
        for relay in relays:
            relay.passes.clear()
        with waiting(made, ends, claimed=2):
            for relay in relays:
                relay.cut()
                relay.passes.set()


# Who may speak -----------------------------------------------------------------------------------------------------


def test_a_message_goes_from_port_to_port(listing: Listing, opened: list[SocketMailbox]) -> None:
    opened += [mailbox(listing, own, (0, 1)) for own in range(2)]
    version = opened[0].post(weights(4))
    until(lambda: opened[1].version(0) == version)
    out = np.empty(SIZE, np.float32)
    opened[1].take(0, out)
    assert (out == 4).all()


def test_a_learner_that_connects_early_is_heard_once_it_is_listed(
    listing: Listing, opened: list[SocketMailbox]
) -> None:
    opened.append(mailbox(listing, 0, ()))
    other = Listing()
    opened.append(mailbox(other, 1, (0,)))
    (own,) = other.order.endpoints
    other.announce([*listing.order.endpoints, own])
    for _ in range(20):
        opened[1].post(weights(1))
        time.sleep(0.02)
    assert opened[0].version(1) == -1
    listing.announce([*listing.order.endpoints, own])
    until(lambda: opened[1].post(weights(2)) >= 0 and opened[0].version(1) >= 0)


def test_an_earlier_incarnation_is_no_longer_heard_and_the_new_one_is(
    listing: Listing, opened: list[SocketMailbox]
) -> None:
    reader, former = mailbox(listing, 0, (1,)), mailbox(listing, 1, (0,))
    opened += [reader, former]
    until(lambda: former.post(weights(1)) >= 0 and reader.version(1) >= 0)
    again = mailbox(listing, 1, (0,), incarnation=1)
    opened.append(again)
    until(lambda: again.post(weights(2)) >= 0 and reader.version(1) >= INCARNATION)
    for _ in range(20):
        former.post(weights(3))
        time.sleep(0.01)
    out = np.empty(SIZE, np.float32)
    assert reader.take(1, out) >= INCARNATION and (out == 2).all()
    until(lambda: reader.post(weights(9)) >= 0 and again.version(0) >= 0)


def frame(sender: int = 1, version: int = 5, run: bytes = b"", rows: int = 0) -> bytes:
    content = bytes(rows * MAILBOX_ROW_BYTES) + weights(7).tobytes()
    return MAILBOX.pack(run, sender, version, rows, zlib.crc32(content)) + content


def test_messages_of_another_run_or_with_another_name_are_dropped(
    listing: Listing, opened: list[SocketMailbox]
) -> None:
    reader = mailbox(listing, 0, ())
    opened.append(reader)
    own, other = listing.trainer(1).run, Listing("another").trainer(1).run
    assert not reader.keep([frame(run=other)], "trainer-1.0")
    assert not reader.keep([frame(run=own)], "trainer-2.0")
    assert not reader.keep([frame(run=own, version=INCARNATION)], "trainer-1.0")
    assert not reader.keep([frame(run=own, rows=1)], "trainer-1.0")
    assert reader.keep([frame(run=own)], "trainer-1.0")
    assert not reader.keep([frame(run=own)], "trainer-1.0")
    assert reader.version(1) == 5


# Counts ------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(
    deeds=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)), max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_totals_are_right_whatever_counts_are_lost_repeated_or_reordered(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[int, int, int]], order
) -> None:
    folder = tmp_path_factory.mktemp("c")
    counts = []
    for own in range(3):
        Segment.create(folder / f"counts-{own}", counts_fields(4)).close()
        counts.append(SharedCounts(Segment.open(folder / f"counts-{own}"), own))
        counts[own].begin(100 + own, 10 + own)
    rollouts, told = [0, 0, 0], []
    for own, steps, to in deeds:
        counts[own].add(rollouts[own], steps)
        rollouts[own] += 1
        told.append(counts[own].table())
        if order.random() < 0.5:
            counts[to].receive(order.choice(told))
    for _ in range(2):  # everything once more, in any order
        for table in order.sample(told, len(told)):
            counts[order.randrange(3)].receive(table)
    for each in counts:
        for other in counts:
            each.receive(other.table())
    done = sum(steps for _, steps, _ in deeds)
    assert {each.total for each in counts} == {(102 + done, 12 + len(deeds))}


def test_impossible_rows_of_counts_are_ignored(tmp_path: Path) -> None:
    Segment.create(tmp_path / "counts", counts_fields(4)).close()
    counts = SharedCounts(Segment.open(tmp_path / "counts"), 0)
    for row in ((-1, 1, 1, 1, 1), (4, 1, 1, 1, 1), (1, -1, 1, 1, 1), (1, 1, 1, 1 << 60, 1)):
        counts.receive(np.array([row], np.int64))
    counts.receive(np.zeros((0, TABLE_WORDS), np.int64))
    assert counts.total == (0, 0)


# The exchange ------------------------------------------------------------------------------------------------------


def test_learners_on_two_machines_mix_as_those_on_one_do(
    tmp_path: Path, listing: Listing, opened: list[Gossip]
) -> None:
    (tmp_path / "one").mkdir()
    folder = gossiping.segments(tmp_path / "one", 2)
    near = [gossiping.learner(folder, rank, range(2)) for rank in range(2)]
    far = [learner(tmp_path / f"far-{rank}", listing, rank, range(2)) for rank in range(2)]
    opened += [*near, *far]
    for exchange in (*near, *far):
        exchange.join(0, 0)
    gradient = torch.linspace(0.0, 1.0, PARAMETERS)
    learn(near[0], gradient)
    until(lambda: far[0].mailbox.post(start().numpy()) >= 0 and far[1].mailbox.version(0) >= 0)  # the line stands
    before = far[1].mailbox.version(0)
    learn(far[0], gradient)
    until(lambda: far[1].mailbox.version(0) > before)
    far[0].mailbox.post(far[0].weights.numpy())  # a batch is counted after its weights were posted
    until(lambda: far[1].counts.total == (10, 1))
    for learners in (near, far):
        learn(learners[1], -gradient)
    torch.testing.assert_close(far[1].weights, near[1].weights, rtol=0, atol=0)
    assert near[1].counts.total == far[1].counts.total == (20, 2)
    far[1].mailbox.post(far[1].weights.numpy())
    until(lambda: far[0].counts.total == (20, 2))
    far[0].metrics()
    learn(far[0], gradient)
    told = far[0].metrics()
    assert told["bytes_sent"] == MAILBOX.size + 2 * MAILBOX_ROW_BYTES + 4 * SIZE


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_message_that_is_not_finite_is_counted_and_not_mixed(
    tmp_path: Path, listing: Listing, opened: list[Gossip], bad: float
) -> None:
    own, poisoned = (learner(tmp_path / f"far-{rank}", listing, rank, range(2)) for rank in range(2))
    opened += [own, poisoned]
    for exchange in (own, poisoned):
        exchange.join(0, 0)
    until(lambda: poisoned.mailbox.post(weights(bad)) >= 0 and own.mailbox.version(1) >= 0)
    learn(own)
    assert torch.isfinite(own.weights).all()
    assert own.metrics()["messages_refused"] == 1


def test_learners_that_do_not_mix_a_learners_weights_still_hear_its_counts(
    tmp_path: Path, listing: Listing, opened: list[Gossip]
) -> None:
    made = [learner(tmp_path / f"far-{rank}", listing, rank, range(3)) for rank in range(3)]  # 2 -> 0 -> 1 -> 2
    opened += made
    for exchange in made:
        exchange.join(0, 0)

    def heard() -> bool:
        made[0].mailbox.post(made[0].weights.numpy())
        return made[2].counts.total == (10, 1)

    learn(made[0])
    until(heard)
    assert made[2].mailbox.version(0) == -1


@pytest.mark.parametrize("graph", ["ring", "none"])
def test_a_learner_restarted_on_another_machine_continues_from_what_others_know_of_it(
    graph: Literal["ring", "none"], tmp_path: Path, listing: Listing, opened: list[Gossip]
) -> None:
    stays, goes = (learner(tmp_path / f"far-{rank}", listing, rank, range(2), graph=graph) for rank in range(2))
    for exchange in (stays, goes):
        exchange.join(0, 0)
    for _ in range(3):
        learn(goes, torch.zeros(PARAMETERS))
    until(lambda: goes.mailbox.post(start().numpy()) >= 0 and stays.counts.total == (30, 3))
    learn(stays)
    goes.close()
    listing.lose(trainer_id(1))

    def stays_on() -> bool:
        return stays.mailbox.post(stays.weights.numpy()) >= 0

    def comes_back(folder: str, incarnation: int) -> Gossip:
        return learner(tmp_path / folder, listing, 1, range(2), incarnation, stays_on, graph=graph)

    again = comes_back("elsewhere", 1)
    opened.append(stays)
    joined = again.join(20, 2, gossiping.position_of(again))  # its newest checkpoint is older
    assert (joined.env_steps, joined.updates) == (40, 4)
    assert torch.equal(again.weights, stays.weights) == (graph == "ring")
    learn(again)
    assert again.counts.total == (50, 5)
    until(lambda: again.mailbox.post(start().numpy()) >= 0 and stays.counts.total == (50, 5))
    again.close()
    listing.lose(trainer_id(1))
    back = comes_back("far-1", 2)
    opened.append(back)
    joined = back.join(50, 5, gossiping.position_of(back))
    assert (joined.env_steps, joined.updates) == (50, 5), "and not as it left this machine"
