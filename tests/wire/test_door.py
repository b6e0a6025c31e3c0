"""The door of a port: whose key may enter, as whom it may speak. Others are refused and named, and disturb nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import zmq

from actorlearn.address import Tcp
from actorlearn.wire.channel import ChannelError, Dealer, Pull, Push, Router, new_pair
from actorlearn.wire.door import ClientKeys
from tests.wire.doors import HERE, Keys, heard, until


@pytest.fixture
def keys() -> Keys:
    """A head's keys, with nobody on the list."""
    return Keys()


@pytest.fixture
def router(keys: Keys) -> Iterator[Router]:
    """A head that listens."""
    router = Router(HERE, keys.server)
    yield router
    router.close()


@pytest.fixture
def own(keys: Keys) -> ClientKeys:
    """Keys of node-1."""
    return keys.node("node-1")


@pytest.fixture
def node(own: ClientKeys, router: Router) -> Iterator[Dealer]:
    """A node that was let in, and that goes on undisturbed."""
    dealer = Dealer(router.address, "node-1", own)
    assert heard(router, dealer, b"first") == ("node-1", b"first")
    while router.recv(50) is not None:
        pass
    yield dealer
    goes_on(router, dealer)
    dealer.close()


def goes_on(router: Router, dealer: Dealer) -> None:
    """A node that was let in speaks and is spoken to."""
    assert dealer.send(b"still here")
    assert router.recv(5000) == ("node-1", b"still here")
    assert router.send("node-1", b"good")
    assert dealer.recv(5000) == b"good"
    assert dealer.trouble is None


def test_there_and_back_with_a_port_that_was_found(router: Router, node: Dealer) -> None:
    assert isinstance(router.address, Tcp) and router.address.port > 0
    assert router.send("node-1", b"hi")
    assert node.recv(5000) == b"hi"
    assert not router.send("node-2", b"hi")


def test_nothing_listens_or_dials_on_a_network_without_keys() -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(ChannelError, match=rf"{host}:0: .* keys only; make some with `actorlearn keys new`"):
            Router(Tcp(host, 0))
        with pytest.raises(ChannelError, match="keys only"):
            Pull(Tcp(host, 0), 100)
    for kind in (lambda: Dealer(Tcp("10.0.0.1", 5), "node-1"), lambda: Push(Tcp("10.0.0.1", 5))):
        with pytest.raises(ChannelError, match="needs keys"):
            kind()


def test_no_key(router: Router, node: Dealer) -> None:
    assert isinstance(router.address, Tcp)
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(router.address.endpoint)
    socket.send_multipart([b"node-1", b"s" * 16, b"hello"])
    refused(router, "ended before it had shown a key|without CURVE")
    socket.close()


def refused(router: Router, match: str) -> None:
    """Somebody is refused, with these words, and is not heard."""
    said: list[str] = []
    until(lambda: said, lambda: (said.extend(router.refusals()), silent(router)))
    assert re.search(match, said[0]), said


def silent(router: Router) -> None:
    assert router.recv(50) is None


def test_an_unknown_key(keys: Keys, router: Router, node: Dealer) -> None:
    dealer = Dealer(router.address, "node-1", keys.stranger())
    dealer.send(b"hello")
    refused(router, r"from '127.0.0.1' was refused: its key [0-9a-f]{8}… is not on the list")
    until(lambda: "does not know our key" in (dealer.trouble or ""), lambda: silent(router))
    dealer.close()


def test_a_key_of_another_head(keys: Keys, router: Router, node: Dealer) -> None:
    mine = keys.node("node-2")
    dealer = Dealer(router.address, "node-2", ClientKeys(mine.pair, new_pair().public))
    refused(router, "the public key of another head")
    until(lambda: "it has other keys than our key file says" in (dealer.trouble or ""), lambda: silent(router))
    dealer.close()


def test_a_second_peer_of_the_same_name(own: ClientKeys, router: Router, node: Dealer) -> None:
    dealer = Dealer(router.address, "node-1", own)
    until(lambda: dealer.send(b"hello"), lambda: silent(router))
    refused(router, "a second peer spoke as node-1, which is connected already")
    dealer.recv(5000)
    assert "second peer" in (dealer.trouble or "")
    dealer.close()
