"""The door of a port: whose key may enter, as whom it may speak. Others are refused and named, and disturb nobody."""

from __future__ import annotations

import os
import random
import re
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.address import Tcp
from actorlearn.wire import channel
from actorlearn.wire.channel import ChannelError, Dealer, Pull, Push, Router, new_pair
from actorlearn.wire.door import MOST_PEERS, ClientKeys, Door, Pair, Refusals, RefusedError, ServerKeys
from tests.examples import examples
from tests.wire.doors import HERE, PATIENCE_S, Keys, Relay, heard, until

ETH_P_ALL, SO_RCVBUFFORCE = 3, 33


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
        with pytest.raises(ChannelError, match=rf"{host}:0: .* needs keys, .*make them with `actorlearn keys new`"):
            Router(Tcp(host, 0))
        with pytest.raises(ChannelError, match="needs keys"):
            Pull(Tcp(host, 0), 100)
    for kind in (lambda: Dealer(Tcp("10.0.0.1", 5), "node-1"), lambda: Push(Tcp("10.0.0.1", 5))):
        with pytest.raises(ChannelError, match="needs keys"):
            kind()


def refused(router: Router, match: str) -> list[str]:
    """Somebody is refused, with these words, and is not heard."""
    said: list[str] = []
    until(lambda: said, lambda: (said.extend(router.refusals()), silent(router)))
    assert any(re.search(match, line) for line in said), said
    return said


def silent(router: Router) -> None:
    assert router.recv(50) is None


def test_an_unknown_key(keys: Keys, router: Router, node: Dealer) -> None:
    dealer = Dealer(router.address, "node-1", keys.stranger())
    dealer.send(b"hello")
    refused(router, r"from '127.0.0.1' was refused: its key [0-9a-f]{8}… is not on the list")
    until(lambda: "does not accept our key" in (dealer.trouble or ""), lambda: silent(router))
    dealer.close()


def test_a_key_that_is_listed_late_gets_in(keys: Keys, router: Router, node: Dealer) -> None:
    late = keys.stranger()
    dealer = Dealer(router.address, "node-2", late)
    said = set()
    for _ in range(40):  # more than one attempt
        assert not dealer.send(b"hello")
        assert router.recv(50) is None
        said.add(dealer.trouble)
    assert all("does not accept our key" in told or "not connected yet" in told for told in said if told), said
    keys.names[late.pair.public] = "node-2"
    assert heard(router, dealer, b"hello") == ("node-2", b"hello")
    assert dealer.trouble is None
    dealer.close()


def test_a_key_of_another_head(keys: Keys, router: Router, node: Dealer) -> None:
    mine = keys.node("node-2")
    dealer = Dealer(router.address, "node-2", ClientKeys(mine.pair, new_pair().public))
    refused(router, "the public key of another head")
    until(lambda: "its key is not the one in our key file" in (dealer.trouble or ""), lambda: silent(router))
    dealer.close()


def test_a_second_peer_of_the_same_name(own: ClientKeys, router: Router, node: Dealer) -> None:
    dealer = Dealer(router.address, "node-1", own)
    until(lambda: dealer.send(b"hello"), lambda: silent(router))
    refused(router, "a second peer connected as node-1, which is connected already")
    until(lambda: "second peer" in (dealer.trouble or ""), lambda: dealer.recv(20))
    dealer.close()


def test_a_key_that_is_revoked_while_it_is_connected(keys: Keys, router: Router, node: Dealer) -> None:
    theirs = keys.node("node-2")
    dealer = Dealer(router.address, "node-2", theirs)
    assert heard(router, dealer, b"x") == ("node-2", b"x")
    router.refusals()  # before the key is revoked: a message that is late is refused too, and told once a minute
    del keys.names[theirs.pair.public]
    assert dealer.send(b"y")
    refused(router, r"the key [0-9a-f]{8}… was revoked")
    assert not router.send("node-2", b"order")
    until(lambda: "revoked" in (dealer.trouble or ""), lambda: dealer.recv(20))
    dealer.close()
    again = Dealer(router.address, "node-2", theirs)
    until(lambda: "does not accept our key" in (again.trouble or ""), lambda: silent(router))
    again.close()


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN"])
def test_a_downgrade(router: Router, node: Dealer, mechanism: str) -> None:
    assert isinstance(router.address, Tcp)
    with socket.create_connection((router.address.host, router.address.port)) as stranger:
        stranger.settimeout(PATIENCE_S)
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.encode().ljust(20, b"\0") + bytes(32)
        stranger.sendall(greeting + b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER")
        refused(router, "used no CURVE keys")
        ended(stranger, router)


def ended(stranger: socket.socket, router: Router) -> None:
    """The listener hangs up."""
    stranger.settimeout(0.05)
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        silent(router)
        with suppress(TimeoutError):
            try:
                if not stranger.recv(1000):
                    return
            except ConnectionResetError:
                return
    raise AssertionError("the connection of a stranger stays")


@pytest.mark.parametrize("said", ["node-2", "node-1x", "", "node-1/\n", "node-2/trainer-0", "node-1" * 50, "\x1b[2J"])
def test_an_id_that_is_not_the_key_s(keys: Keys, own: ClientKeys, router: Router, said: str) -> None:
    keys.node("node-2")
    dealer = Dealer(router.address, said, own)
    until(lambda: dealer.send(b"hello"), lambda: silent(router))
    lines = refused(
        router, "node-1 (connected as .*; its key allows only its own name|sent a message of another protocol)"
    )
    assert all(line.isprintable() for line in lines)
    assert not router.send(said, b"order")
    dealer.close()


def test_processes_of_a_node_speak_beside_it(own: ClientKeys, router: Router, node: Dealer) -> None:
    dealer = Dealer(router.address, "node-1/trainer-0.2", own)
    assert heard(router, dealer, b"x") == ("node-1/trainer-0.2", b"x")
    assert router.send("node-1/trainer-0.2", b"for it")
    assert dealer.recv(5000) == b"for it"
    dealer.close()


@pytest.mark.parametrize(
    "frames",
    [[b"x"], [b"node-1", b"x"], [b"node-1", b"s" * 15, b"x"], [b"node-1", b"s" * 16, b"x", b"y"], [b""] * 300],
    ids=["one", "two", "session", "four", "many"],
)
def test_frames_that_are_no_message(own: ClientKeys, router: Router, node: Dealer, frames: list[bytes]) -> None:
    dealer = Dealer(router.address, "node-1", own)
    until(lambda: dealer.send(b""), lambda: silent(router))
    router.refusals()
    dealer.socket.send_multipart(frames)
    refused(router, "node-1 sent a message of another protocol")
    dealer.close()


def test_a_message_that_is_too_large(keys: Keys, own: ClientKeys) -> None:
    router = Router(HERE, keys.server, limit_bytes=10_000)
    dealer = Dealer(router.address, "node-1", own)
    assert heard(router, dealer, b"x" * 10_000) == ("node-1", b"x" * 10_000)
    dealer.send(b"x" * 10_001)
    refused(router, "node-1 sent a message of 10001 bytes; the limit is 10000")
    dealer.send(b"x" * 100_000)  # zmq parts with it before it is read, and it dials again
    assert router.recv(200) is None
    assert heard(router, dealer, b"small") == ("node-1", b"small")
    router.close()
    dealer.close()


def test_a_peer_that_dials_again_is_itself_and_one_that_is_gone_makes_room(own: ClientKeys, keys: Keys) -> None:
    """A cut connection, and an agent that was killed and started anew."""
    router = Router(HERE, keys.server)
    address = router.address
    first = Dealer(address, "node-1", own)
    assert heard(router, first, b"x")
    router.close()
    until(lambda: first.trouble and not first.send(b"nobody there"), lambda: time.sleep(0.05))
    router_again = Router(address, keys.server)
    assert heard(router_again, first, b"y") == ("node-1", b"y")
    assert first.trouble is None
    first.close()
    second = Dealer(address, "node-1", own)
    assert heard(router_again, second, b"z") == ("node-1", b"z")
    assert router_again.send("node-1", b"for the second")
    assert second.recv(5000) == b"for the second"
    second.close()
    router_again.close()


def test_a_thousand_connections_of_junk_disturb_nobody_and_leave_nothing(router: Router, node: Dealer) -> None:
    assert isinstance(router.address, Tcp)
    before, there = len(os.listdir("/proc/self/fd")), (router.address.host, router.address.port)
    draw, longest_s = random.Random(7), 0.0
    for number in range(1000):
        with socket.create_connection(there) as stranger, suppress(OSError):
            stranger.sendall(draw.randbytes(draw.choice([0, 1, 10, 64, 1000])))
        if number % 100 == 0:
            began_s = time.monotonic()
            goes_on(router, node)
            longest_s = max(longest_s, time.monotonic() - began_s)
    assert longest_s < PATIENCE_S
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, lambda: silent(router))
    assert len(router.refusals()) <= 4


def test_more_connections_than_there_may_be_are_not_accepted(
    own: ClientKeys, router: Router, node: Dealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_CONNECTIONS", 20)
    assert isinstance(router.address, Tcp)
    address, strangers, said = router.address, list[socket.socket](), list[str]()

    def another_comes() -> None:
        stranger = socket.socket()
        stranger.setblocking(False)
        with suppress(BlockingIOError):
            stranger.connect((address.host, address.port))
        strangers.append(stranger)
        router.recv(1)
        said.extend(router.refusals())

    until(lambda: said, another_comes)
    assert said[0].startswith("more than 20 connections are open") and len(strangers) >= 20
    for _ in range(20):
        another_comes()
    goes_on(router, node)
    assert not any(map(is_connected, strangers[-20:]))
    for stranger in strangers:
        stranger.close()
    other = Dealer(router.address, "node-1/other", own)
    assert heard(router, other, b"x") == ("node-1/other", b"x")
    other.close()


def is_connected(stranger: socket.socket) -> bool:
    try:
        stranger.getpeername()
    except OSError:
        return False
    return True


def test_who_shows_no_key_is_parted_with(keys: Keys, own: ClientKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "HANDSHAKE_MS", 300)
    router = Router(HERE, keys.server)
    assert isinstance(router.address, Tcp)
    with socket.create_connection((router.address.host, router.address.port)) as stranger:
        ended(stranger, router)
    router.close()


def test_a_connection_whose_other_end_says_nothing_more_is_lost(
    keys: Keys, own: ClientKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut cable tells nobody; here something between the two holds back all bytes."""
    monkeypatch.setattr(channel, "HEARTBEAT_MS", 100)
    monkeypatch.setattr(channel, "HEARTBEAT_LOST_MS", 400)
    router = Router(HERE, keys.server)
    assert isinstance(router.address, Tcp)
    with Relay(router.address) as relay:
        dealer = Dealer(relay.address, "node-1", own)
        assert heard(router, dealer, b"x")
        relay.passes.clear()
        until(lambda: dealer.trouble, lambda: router.recv(20))
        assert not dealer.send(b"x")
        until(lambda: not router.send("node-1", b"x"), lambda: router.recv(20))
        relay.passes.set()
        assert heard(router, dealer, b"y") == ("node-1", b"y")
        dealer.close()
    router.close()


@pytest.mark.parametrize("host", ["::1", "::"])
def test_ipv6(keys: Keys, own: ClientKeys, host: str) -> None:
    try:
        router = Router(Tcp(host, 0), keys.server)
    except ChannelError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    assert isinstance(router.address, Tcp)
    for dialled in ("::1",) if host == "::1" else ("::1", "127.0.0.1"):
        dealer = Dealer(Tcp(dialled, router.address.port), f"node-1/{len(dialled)}", own)
        assert heard(router, dealer, b"x")
        dealer.close()
    router.close()


def test_a_name_is_dialled_and_not_listened_at(keys: Keys, own: ClientKeys, router: Router) -> None:
    assert isinstance(router.address, Tcp)
    dealer = Dealer(Tcp("localhost", router.address.port), "node-1", own)
    assert heard(router, dealer, b"x") == ("node-1", b"x")
    dealer.close()
    with pytest.raises(ChannelError, match="localhost:0: a listener needs an IP address"):
        Router(Tcp("localhost", 0), keys.server)


def test_a_port_that_is_taken_and_an_address_of_another_machine_are_named(keys: Keys, router: Router) -> None:
    with pytest.raises(ChannelError, match="cannot listen: Address already in use; use port 0"):
        Router(router.address, keys.server)
    with pytest.raises(ChannelError, match=r"192.0.2.1:5: cannot listen: .*; use an address of this machine"):
        Router(Tcp("192.0.2.1", 5), keys.server)


def test_nobody_listening_is_said(own: ClientKeys) -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        dealer = Dealer(Tcp("127.0.0.1", taken.getsockname()[1]), "node-1", own)
        until(lambda: "no process listens there" in (dealer.trouble or ""), lambda: time.sleep(0.02))
        assert not dealer.send(b"x") and dealer.recv() is None
        dealer.close()


def test_refusals_are_told_once_a_minute_however_many() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    for _ in range(5):
        refusals.note("one")
    assert refusals.read() == ["one (5 times)"]
    refusals.note("one")
    assert refusals.read() == []
    for number in range(1000):
        refusals.note(f"stranger {number}")
    assert len(refusals.read()) <= 33
    now[0] = 61.0
    assert refusals.read() == ["one"]


def test_a_refusal_that_does_not_stand_any_more_is_not_told() -> None:
    refusals, listed = Refusals(), [False]
    refusals.note("its key is not on the list", lambda: not listed[0])
    refusals.note("another")
    listed[0] = True
    assert refusals.read() == ["another"]
    listed[0] = False
    assert refusals.read() == []


def test_nothing_of_ours_can_be_read_on_the_way(keys: Keys) -> None:
    """All packets of the loopback interface are looked at; a canary is let out in the end, to know that they are."""
    try:
        capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    except (OSError, AttributeError) as error:
        pytest.skip(f"packets can be captured by root alone: {error}")
    with capture:
        capture.bind(("lo", 0))
        capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
        capture.setblocking(False)
        own = keys.node("canary-of-a-name")
        router = Router(HERE, keys.server)
        dealer = Dealer(router.address, "canary-of-a-name", own)
        assert heard(router, dealer, b"canary of a body" * 10)
        assert router.send("canary-of-a-name", b"canary of an order" * 10)
        until(lambda: (dealer.recv(20) or b"").startswith(b"canary"), lambda: router.recv(20))
        pull = Pull(HERE, 1000, keys.server)
        push = Push(pull.address, own)
        push.send(b"canary of weights" * 10)
        until(lambda: pull.recv(20), lambda: None)
        for end in (dealer, push, router, pull):
            end.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            control.sendto(b"control: canary let out", (HERE.host, 9))
        packets = []
        with suppress(BlockingIOError):
            while True:
                packets.append(capture.recv(1 << 17))
    ports = [end.address.port.to_bytes(2, "big") for end in (router, pull) if isinstance(end.address, Tcp)]
    ours = [packet for packet in packets if any(port in packet[34:38] for port in ports)]
    assert sum(map(len, ours)) > 2000 and any(b"CURVE" in packet for packet in ours)
    assert any(b"control: canary" in packet for packet in packets)
    told = [b"canary-of", b"canary of", b"actorlearn", own.pair.secret, keys.pair.secret]
    assert not [packet for packet in ours for word in told if word in packet or word.hex().encode() in packet]


frames_of_strangers = st.lists(st.one_of(st.binary(max_size=40), st.just(b"1.0"), st.just(b"CURVE")), max_size=9)


@settings(max_examples=examples(300))
@given(frames_of_strangers, frames_of_strangers)
def test_whatever_is_asked_or_said_is_refused_and_raises_nothing_else(asked: list[bytes], said: list[bytes]) -> None:
    door = Door(ServerKeys(Pair(b"p" * 32, b"s" * 32), {b"k" * 32: "node-1"}.get), 1000)
    assert door.answer(asked)[2] == b"400"
    with pytest.raises(RefusedError):
        door.enter(b"route", (b"k" * 32).hex(), said, lambda _: True)
    with pytest.raises(RefusedError):
        door.enter(b"route", (b"x" * 32).hex(), [b"node-1", b"s" * 16, b"body"], lambda _: True)
    assert all(line.isprintable() for line in door.refusals.read())
    assert door.route("node-1") is None


def test_who_waits_for_the_descriptor_is_woken_to_let_a_node_in(own: ClientKeys, router: Router) -> None:
    """Handshakes come on other sockets than messages, and a supervisor's loop sleeps on one descriptor of all."""
    received: list[tuple[str, bytes]] = []
    sent = woken = 0
    with selectors.DefaultSelector() as selector:
        selector.register(router.fd, selectors.EVENT_READ)
        dealer = Dealer(router.address, "node-1", own)
        deadline_s = time.monotonic() + PATIENCE_S
        while (not received or len(received) < sent) and time.monotonic() < deadline_s:
            if not received:
                sent += dealer.send(b"x")
            woken += bool(selector.select(0.05))
            while (message := router.recv()) is not None:
                received.append(message)
        assert received == [("node-1", b"x")] * sent and 0 < woken < 100
        assert not selector.select(0.2)  # it is not woken for nothing
        assert dealer.send(b"y") and selector.select(PATIENCE_S)
        assert router.recv() == ("node-1", b"y")
    other = Dealer(router.address, "node-1/other", own)
    until(lambda: other.send(b"z"), lambda: router.recv(50))
    other.close()
    dealer.close()


def test_ids_of_one_key_are_bounded() -> None:
    door = Door(ServerKeys(Pair(b"p" * 32, b"s" * 32), {b"k" * 32: "node-1"}.get), 1000)
    for number in range(2 * MOST_PEERS):
        door.enter(b"route", (b"k" * 32).hex(), [f"node-1/{number}".encode(), b"s" * 16, b"body"], lambda _: True)
    assert sum(door.route(f"node-1/{number}") is not None for number in range(2 * MOST_PEERS)) == MOST_PEERS


def test_a_late_message_of_an_earlier_connection_does_not_turn_the_answers_back() -> None:
    door = Door(ServerKeys(Pair(b"p" * 32, b"s" * 32), {b"k" * 32: "node-1"}.get), 1000)
    for route in (b"first", b"second", b"first"):
        door.enter(route, (b"k" * 32).hex(), [b"node-1", b"s" * 16, b"body"], lambda _: True)
    assert door.route("node-1") == b"second"
