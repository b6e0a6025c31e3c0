"""Barriers between machines: the same bits as through shared memory, and no endless wait for a lost learner."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from actorlearn.address import Shm
from actorlearn.memory.shared import Segment
from actorlearn.parameters.allreduce import Sync
from actorlearn.parameters.barrier import rows_fields
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.frame_headers import HUB
from actorlearn.parameters.hub import NUMBERS_BYTES, Hub
from actorlearn.parameters.hub_barrier import HubBarrier, most_bytes
from actorlearn.parameters.interface import Learner, PeerLost, Stopped
from actorlearn.parameters.modes import SYNC
from actorlearn.parameters.settings import SyncExchangeSettings
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import trainer_id
from tests.parameters.networked import Listing
from tests.parameters.sync_learner import OPTIMIZER, PARAMETERS, ROWS, combine, gradient, start
from tests.wire.doors import Relay

HOST = "127.0.0.1"
SIZE = 1000


def places(
    listing: Listing, learners: int, generation: int = 1, alive: Callable[[], bool] = lambda: True
) -> list[HubBarrier]:
    endpoints = [listing.trainer(rank) for rank in range(learners)]
    trainers = [trainer_id(rank) for rank in range(learners)]
    return [HubBarrier(each, HOST, trainers, generation, SIZE, alive) for each in endpoints]


@pytest.fixture
def opened() -> Iterator[list[HubBarrier]]:
    made: list[HubBarrier] = []
    yield made
    with ThreadPoolExecutor(max(len(made), 1)) as threads:
        list(threads.map(lambda each: each.close(), made))


def test_all_learners_get_the_same_numbers_and_sums_bit_for_bit(listing: Listing, opened: list[HubBarrier]) -> None:
    opened += places(listing, 3)
    vectors = np.random.default_rng(0).normal(size=(3, SIZE)).astype(np.float32)

    def attend(place: HubBarrier) -> tuple[list[list[int]], bytes, bytes, bytes]:
        said = place.gather_numbers([10**15 + place.rank, 5])[:, :2].tolist()
        rows = place.gather(vectors[place.rank])
        (_, total), (_, two) = (place.add(vectors[place.rank], among) for among in ([0, 1, 2], [0, 2]))
        return said, rows.tobytes(), total.tobytes(), two.tobytes()

    with ThreadPoolExecutor(3) as threads:
        heard = list(threads.map(attend, opened))
    total = (vectors[0] + vectors[1]) + vectors[2]
    said = [[10**15 + rank, 5] for rank in range(3)]
    assert heard == [(said, vectors.tobytes(), total.tobytes(), (vectors[0] + vectors[2]).tobytes())] * 3
    sent = 4 * (HUB.size + 8 * 16 + HUB.size) + 3 * 4 * SIZE  # each answer is acknowledged
    received = 4 * (HUB.size + 3 * 8 * 16) + (3 + 1 + 1) * 4 * SIZE
    assert {(place.moved.sent, place.moved.received) for place in opened} == {(sent, received)}
    for place in reversed(opened):  # the hub's learner last: a hub that all have heard does not wait for farewells
        place.close()
    assert {place.moved.sent for place in opened} == {sent + HUB.size}


def test_the_hub_answers_its_own_learner_last(
    listing: Listing, opened: list[HubBarrier], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That learner computes on in the hub's process, and would take the interpreter from the answers to the others."""
    answered, send = list[str](), Router.send

    def note(self: Router, peer: str, body: bytes) -> bool:
        answered.append(peer)
        return send(self, peer, body)

    monkeypatch.setattr(Router, "send", note)
    opened += places(listing, 3)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda place: place.gather_numbers([]), opened))
    assert answered == [trainer_id(rank).socket_id for rank in (1, 2, 0)]


def test_a_learner_no_longer_listed_is_missed_and_the_others_go_on_in_a_new_generation(
    listing: Listing, opened: list[HubBarrier]
) -> None:
    taken = places(listing, 3)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda place: place.gather_numbers([]), taken))
        waiting = [threads.submit(place.gather_numbers, []) for place in taken[:2]]
        time.sleep(0.1)
        listing.lose(trainer_id(2))
        for each in waiting:
            with pytest.raises(PeerLost):
                each.result(20)
        list(threads.map(lambda place: place.close(), taken))
    opened += places(listing, 2, generation=2)
    with ThreadPoolExecutor(2) as threads:
        assert all(len(said) == 2 for said in threads.map(lambda place: place.gather_numbers([]), opened))


def test_when_the_hub_is_gone_its_learner_is_missed(listing: Listing, opened: list[HubBarrier]) -> None:
    opened += places(listing, 2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(opened[1].gather_numbers, [])
        time.sleep(0.1)
        listing.lose(trainer_id(0))
        with pytest.raises(PeerLost, match="gone"):
            waiting.result(20)


def test_a_hub_that_fails_ends_its_learner_which_others_then_miss(
    listing: Listing, opened: list[HubBarrier], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Hub, "take", fail)
    opened += places(listing, 2)
    with ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(place.gather_numbers, []) for place in opened)
        with pytest.raises(RuntimeError, match="hub of the learners has failed"):
            first.result(20)
        listing.lose(trainer_id(0))
        with pytest.raises(PeerLost, match="gone"):
            second.result(20)


def test_all_get_the_last_answer_though_the_hubs_learner_leaves(listing: Listing, opened: list[HubBarrier]) -> None:
    opened += places(listing, 3)
    with ThreadPoolExecutor(3) as threads:

        def attend(place: HubBarrier) -> int:
            said = len(place.gather_numbers([]))
            if place.rank == 0:
                place.close()  # it has the hub
            return said

        assert list(threads.map(attend, opened)) == [3, 3, 3]


def test_learners_wait_for_a_link_that_is_cut_between_barriers(listing: Listing, opened: list[HubBarrier]) -> None:
    opened += places(listing, 2)
    other, hub = sorted(listing.order.endpoints, key=lambda each: each.address is not None)
    assert hub.address is not None
    with Relay(hub.address) as relay, ThreadPoolExecutor(2) as threads:
        listing.announce([msgspec.structs.replace(hub, address=relay.address), other])

        def attend(place: HubBarrier) -> list[list[int]]:
            said = []
            for barrier in range(12):
                said.append(place.gather_numbers([barrier + place.rank])[:, 0].tolist())
                if place.rank == 0 and barrier % 4 == 1:
                    relay.cut()
            return said

        heard = list(threads.map(attend, opened))
        assert heard == [[[barrier, barrier + 1] for barrier in range(12)]] * 2
        for place in reversed(opened):
            place.close()


def test_a_learner_that_is_told_to_end_stops_waiting_at_the_hub(listing: Listing, opened: list[HubBarrier]) -> None:
    ends = threading.Event()
    opened += places(listing, 2, alive=lambda: not ends.is_set())
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(opened[0].gather_numbers, [])
        time.sleep(0.1)
        ends.set()
        with pytest.raises(Stopped):
            waiting.result(20)


def sync_learner(rank: int, learners: int, folder: Path, listing: Listing | None) -> Sync:
    trainers = [trainer_id(other) for other in range(learners)]
    own = SyncExchangeSettings(
        rendezvous=Shm(f"{folder}/learners"), gradients=Shm(f"{folder}/gradients"), host=HOST if listing else ""
    )
    made = SYNC.among(own, trainers, trainers[rank], 1)
    assert isinstance(made, SyncExchangeSettings)
    endpoints = listing.trainer(rank) if listing else None
    learner = Learner(
        *(OPTIMIZER, start(), torch.zeros(PARAMETERS)), number=rank, consumed=Consumed(learners), endpoints=endpoints
    )
    return Sync(made, learner, hash_every=1)


@pytest.mark.parametrize("learners", [2, 3])
def test_learners_on_several_machines_have_the_same_weights_as_those_on_one(tmp_path: Path, learners: int) -> None:
    Segment.create(tmp_path / "gradients", rows_fields(learners, len(start()))).close()

    def learn(exchange: Sync) -> bytes:
        rank = exchange.settings.rank
        exchange.join(0, 0)
        for update in range(4):
            exchange.agree(10, 1)
            exchange.merge(torch.tensor([rank + 1.0, float(update)]), combine)
            each = ROWS // learners
            exchange.step(gradient(exchange.weights, slice(rank * each, (rank + 1) * each), update), [0.05])
            exchange.settle()
        exchange.close()
        return exchange.weights.numpy().tobytes()

    found = set()
    for listing in (None, Listing()):
        exchanges = [sync_learner(rank, learners, tmp_path, listing) for rank in range(learners)]
        with ThreadPoolExecutor(learners) as threads:
            found |= set(threads.map(learn, exchanges))
    assert len(found) == 1


@pytest.mark.parametrize("learners", [2, 3])
@pytest.mark.parametrize("brought", ["nothing", "moments", "gradients"])
def test_bytes_of_an_update_are_those_of_its_barriers(learners: int, brought: str) -> None:
    """Moments or gradients that are brought to the agreement need no barrier of their own."""
    listing, barriers = Listing(), {"nothing": 3, "moments": 2, "gradients": 1}[brought]
    exchanges = [sync_learner(rank, learners, Path(), listing) for rank in range(learners)]
    moments, gradients = torch.zeros(3, dtype=torch.float64), torch.ones(PARAMETERS)

    def learn(exchange: Sync) -> tuple[float, float]:
        exchange.join(0, 0)
        exchange.metrics()
        if brought != "nothing":
            exchange.bring(**{brought: {"moments": moments, "gradients": gradients}[brought]})
        exchange.agree(10, 1)
        if brought != "gradients":  # observations are not normalised
            exchange.merge(moments, lambda *_: None)
        exchange.step(gradients, [0.05])
        exchange.settle()
        moved = exchange.metrics()
        exchange.close()
        return moved["bytes_sent"], moved["bytes_received"]

    with ThreadPoolExecutor(learners) as threads:
        found = set(threads.map(learn, exchanges))
    moments_bytes = 8 * 3 * (brought != "gradients")
    sent = barriers * 240 + 4 * PARAMETERS + moments_bytes
    received = barriers * (56 + 128 * learners) + 4 * PARAMETERS + learners * moments_bytes
    assert found == {(sent, received)}


@pytest.mark.timeout(20)
def test_a_vector_that_is_too_long_for_the_hub_is_refused(listing: Listing, opened: list[HubBarrier]) -> None:
    """The hub closes the connection before it reads such a message, which would be sent again forever."""
    opened += places(listing, 2)
    most = (most_bytes(SIZE) - NUMBERS_BYTES) // 8
    with ThreadPoolExecutor(2) as threads:
        longest = [threads.submit(each.gather, np.zeros(most)) for each in opened]
        assert [each.result(10).shape for each in longest] == [(2, most)] * 2
    with pytest.raises(ValueError, match="too long"):
        opened[1].gather(np.zeros(most + 1))


def test_a_learner_that_waits_for_the_hubs_learner_ends_when_the_hub_closes(
    listing: Listing, opened: list[HubBarrier]
) -> None:
    """It waits for the hub's learner, which does not come, although it is told to end."""
    opened += places(listing, 2, alive=lambda: False)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(opened[1].exchange, [], np.zeros(3, np.float32), [0, 1])
        time.sleep(0.3)
        opened[0].close()
        with pytest.raises(PeerLost):
            waiting.result(20)


@pytest.mark.parametrize("renewed", [False, True], ids=["no other hub", "hub of the next generation"])
@pytest.mark.timeout(20)
def test_a_learner_that_comes_after_the_hub_has_closed_gets_an_error(
    listing: Listing, opened: list[HubBarrier], renewed: bool
) -> None:
    """The hub's learner has begun the next generation before this learner knows of it, and still lives."""
    endpoints, trainers = [listing.trainer(rank) for rank in range(2)], [trainer_id(rank) for rank in range(2)]

    def place(rank: int, generation: int) -> HubBarrier:
        opened.append(HubBarrier(endpoints[rank], HOST, trainers, generation, SIZE, alive=lambda: True))
        return opened[-1]

    first = [place(rank, 1) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda each: each.gather_numbers([]), first))
        after = place(0, 2) if renewed else None
        first[0].close()
        with pytest.raises(PeerLost):
            first[1].exchange([], np.zeros(3, np.float32), [0, 1])
        if after is not None:
            said = [threads.submit(each.gather_numbers, [each.rank]) for each in (after, place(1, 2))]
            assert [each.result(10)[:, 0].tolist() for each in said] == [[0, 1]] * 2


@pytest.mark.timeout(40)
def test_a_learner_that_has_begun_the_next_generation_is_missed_though_its_farewell_is_lost(
    opened: list[HubBarrier],
) -> None:
    """The learner whose death began that generation had arrived at the barrier, so only this one is awaited."""
    listing, ends = Listing(), threading.Event()
    endpoints = [listing.trainer(rank) for rank in range(3)]

    def place(rank: int, generation: int, ranks: Sequence[int]) -> HubBarrier:
        trainers = [trainer_id(each) for each in ranks]
        opened.append(HubBarrier(endpoints[rank], HOST, trainers, generation, SIZE, lambda: not ends.is_set()))
        return opened[-1]

    first = [place(rank, 1, range(3)) for rank in range(3)]
    (hub,) = (each for each in listing.order.endpoints if each.address is not None)
    others = [each for each in listing.order.endpoints if each != hub]
    assert hub.address is not None
    with Relay(hub.address) as relay, ThreadPoolExecutor(3) as threads:
        listing.announce([msgspec.structs.replace(hub, address=relay.address), *others])
        list(threads.map(lambda each: each.gather_numbers([]), first))
        waiting = [threads.submit(each.gather_numbers, []) for each in first[:2]]
        time.sleep(0.3)
        relay.passes.clear()
        relay.cut()
        time.sleep(0.3)
        listing.lose(trainer_id(1))
        ahead = place(2, 2, (0, 2))
        first[2].close()
        relay.passes.set()
        try:
            with pytest.raises(PeerLost, match=r"learners \[2\] are gone"):
                waiting[0].result(20)
            again = [threads.submit(each.gather_numbers, []) for each in (place(0, 2, (0, 2)), ahead)]
            assert [len(each.result(10)) for each in again] == [2, 2]
        finally:
            ends.set()
