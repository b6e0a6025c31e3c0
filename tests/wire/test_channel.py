"""Sockets: owner-only, never blocking, and honest about what was not delivered."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from actorlearn.address import Ipc
from actorlearn.wire.channel import ChannelError, Dealer, Router, Waiter
from actorlearn.wire.control import Control
from actorlearn.wire.wakeup import Wakeup, Wakeups
from tests.identities import address_of, process

PATIENCE_MS = 30_000
"""Longest wait for a message that must come, on a machine that may be busy."""


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    """A listening router in a folder of its own."""
    router = Router(Ipc(f"{tmp_path}/r.sock"))
    yield router
    router.close()


def test_there_and_back(router: Router) -> None:
    dealer = Dealer(router.address, "simulator-0.0")
    assert dealer.send(b"hello")
    assert router.recv(PATIENCE_MS) == ("simulator-0.0", b"hello")
    assert router.send("simulator-0.0", b"hi")
    assert dealer.recv(PATIENCE_MS) == b"hi"
    dealer.close()


def test_a_message_of_several_frames_is_not_mistaken_for_silence(router: Router) -> None:
    dealer = Dealer(router.address, "simulator-0.0")
    dealer.socket.send_multipart([b"", b"hello"])
    assert dealer.send(b"hello")
    assert [router.recv(PATIENCE_MS) for _ in range(2)] == [("simulator-0.0", b""), ("simulator-0.0", b"hello")]
    dealer.close()


def test_a_peer_without_an_id_of_its_own_is_answered_too(router: Router) -> None:
    """ZeroMQ then makes one of random bytes, which are no text."""
    for identity in (None, b"\xff\xfe\x80"):
        with zmq.Context.instance().socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            if identity:
                dealer.identity = identity
            dealer.connect(router.address.endpoint)
            dealer.send(b"hello")
            received = router.recv(PATIENCE_MS)
            assert received and received[1] == b"hello"
            assert router.send(received[0], b"hi")
            assert dealer.poll(PATIENCE_MS) and dealer.recv() == b"hi"


def test_the_socket_file_is_its_owners_alone_and_goes_with_it(tmp_path: Path) -> None:
    router = Router(Ipc(f"{tmp_path}/r.sock"))
    assert (tmp_path / "r.sock").stat().st_mode & 0o777 == 0o600
    router.close()
    assert not (tmp_path / "r.sock").exists()


def test_an_unknown_peer_is_reported_not_swallowed(router: Router) -> None:
    assert not router.send("nobody", b"x")


def test_an_endpoint_that_cannot_be_bound_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="nowhere"):
        Router(Ipc(f"{tmp_path}/nowhere/r.sock"))


def test_a_slow_peer_fills_up_and_says_so(router: Router) -> None:
    dealer = Dealer(router.address, "slow")
    dealer.send(b"here")
    assert router.recv(PATIENCE_MS) is not None
    accepted = sum(router.send("slow", b"x" * 1000) for _ in range(20_000))
    assert accepted < 20_000
    assert all(dealer.recv(PATIENCE_MS) is not None for _ in range(accepted))
    assert dealer.recv(200) is None
    dealer.close()


def test_an_id_belongs_to_who_had_it_first(router: Router) -> None:
    """A role that somebody started by hand with a run's settings had the run's own never heard again."""
    first, second = (Dealer(router.address, "same") for _ in range(2))
    first.send(b"one")
    assert router.recv(PATIENCE_MS) == ("same", b"one")
    second.send(b"two")
    assert router.recv(100) is None
    first.send(b"three")
    assert router.recv(PATIENCE_MS) == ("same", b"three")
    assert router.send("same", b"for you")
    assert first.recv(PATIENCE_MS) == b"for you"
    first.close()
    second.close()


def test_last_words_are_heard_beside_a_line_that_is_still_open(router: Router) -> None:
    line = Control(address_of(router), process("simulator-0", 3), "run-1")
    line.warned("one")
    again = Control(address_of(router), process("simulator-0", 3), "run-1", last_words=True)
    again.failed("two")
    assert {peer for peer, _ in filter(None, (router.recv(PATIENCE_MS) for _ in range(2)))} == {
        "simulator-0.3",
        "simulator-0.3.failed",
    }
    line.close()
    again.close()


def test_waiting_ends_with_a_message_a_ring_or_at_the_deadline(router: Router, tmp_path: Path) -> None:
    dealer, wakeup = Dealer(router.address, "d"), Wakeup(tmp_path / "d.wakeup")
    dealer.send(b"x")
    assert router.recv(PATIENCE_MS) == ("d", b"x")
    waiter = Waiter(wakeup, dealer)
    began = time.monotonic()
    assert not waiter.wait(30)
    assert time.monotonic() - began >= 0.02  # the kernel counts whole milliseconds, from where one has begun
    assert router.send("d", b"y")
    assert waiter.wait(PATIENCE_MS)
    assert dealer.recv() == b"y"
    wakeups = Wakeups({"d": tmp_path / "d.wakeup"})
    assert wakeups.wake("d") and wakeups.wake("d")
    assert waiter.wait(PATIENCE_MS)
    assert not waiter.wait(0)  # woken twice is woken once
    for end in (dealer, wakeups, wakeup):
        end.close()
