"""Every message arrives exactly once and in order, even if frames are lost, repeated, re-ordered or cut."""

from __future__ import annotations

import random
import time
from collections import deque

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlearn.address import Tcp
from actorlearn.wire.channel import Dealer, Router
from actorlearn.wire.messages import encode
from launch.nodes.outbox import MOST_AHEAD
from launch.nodes.stream import RESEND_MOST_S, RESEND_S, Numbered, Stream, StreamError
from tests.examples import examples
from tests.wire.doors import HERE, Keys, Relay, until


class Network:
    """Two ends, and the frames between them, which it may lose, repeat and re-order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ends = {end: Stream(epoch=3) for end in "ab"}
        self.flying: dict[str, list[Numbered]] = {"a": [], "b": []}
        """Frames on their way to each end."""
        self.put: dict[str, list[bytes]] = {"a": [], "b": []}
        self.got: dict[str, list[bytes]] = {"a": [], "b": []}
        """Messages that each end has put and has got."""
        self.up = True

    def other(self, end: str) -> str:
        return "b" if end == "a" else "a"

    def add(self, end: str) -> None:
        body = f"{end}{len(self.put[end])}".encode()
        self.ends[end].put(body)
        self.put[end].append(body)

    def send(self, end: str, fails_after: int = 1000) -> None:
        left = fails_after if self.up else 0

        def send(frame: Numbered) -> bool:
            nonlocal left
            if not left:
                return False
            left -= 1
            self.flying[self.other(end)].append(frame)
            return True

        self.ends[end].send(self.now_s, send)

    def deliver(self, end: str, which: int, keep: bool) -> None:
        frames = self.flying[end]
        if frames:
            frame = frames[which % len(frames)]
            if not keep:
                frames.pop(which % len(frames))
            body = self.ends[end].take(frame, self.now_s)
            if body is not None:
                self.got[end].append(body)

    def lose(self, end: str, which: int) -> None:
        if self.flying[end]:
            self.flying[end].pop(which % len(self.flying[end]))

    def cut(self) -> None:
        """Break or restore the connection; all frames on their way are lost."""
        self.up = not self.up
        for frames in self.flying.values():
            frames.clear()

    def check(self) -> None:
        for end in "ab":
            sent = self.put[self.other(end)]
            assert self.got[end] == sent[: len(self.got[end])]

    def settle(self) -> None:
        """Restore the connection, deliver all frames, and check that every message has arrived."""
        self.up = True
        for _ in range(300):
            for end in "ab":
                self.send(end)
            for end in "ab":
                while self.flying[end]:
                    self.deliver(end, 0, keep=False)
            self.now_s += RESEND_MOST_S
        for end in "ab":
            assert self.got[end] == self.put[self.other(end)]
            assert not self.ends[end].waiting


end = st.sampled_from("ab")
index = st.integers(0, 1 << 20)
steps = st.one_of(
    st.tuples(st.just("add"), end),
    st.tuples(st.just("add"), end),
    st.tuples(st.just("send"), end),
    st.tuples(st.just("send"), end, st.integers(0, 3)),
    st.tuples(st.just("deliver"), end, index, st.booleans()),
    st.tuples(st.just("deliver"), end, index, st.booleans()),
    st.tuples(st.just("lose"), end, index),
    st.tuples(st.just("cut")),
    st.tuples(st.just("wait"), st.floats(0, 2 * RESEND_S)),
)


@settings(max_examples=examples(300))
@given(st.lists(steps, max_size=150))
def test_messages_arrive_exactly_once_and_in_order_whatever_the_network_does(told: list[tuple[str, ...]]) -> None:
    network = Network()
    for name, *arguments in told:
        if name == "wait":
            network.now_s += float(arguments[0])
        else:
            getattr(network, name)(*arguments)
        network.check()
    network.settle()


def test_a_message_without_acknowledgement_is_sent_again_at_growing_intervals() -> None:
    stream, sent = Stream(epoch=1), []
    stream.put(b"x")
    for now_s in (0.0, RESEND_S - 0.01, RESEND_S, 2 * RESEND_S, 3 * RESEND_S):
        before = len(sent)
        stream.send(now_s, lambda frame: not sent.append(frame))
        assert len(sent) - before == (now_s in (0.0, RESEND_S, 3 * RESEND_S))
    assert [frame.number for frame in sent] == [1, 1, 1]


def test_all_unacknowledged_messages_are_sent_again_after_a_send_has_failed() -> None:
    stream, sent = Stream(epoch=1), []
    for body in (b"x", b"y"):
        stream.put(body)
    stream.send(0.0, lambda frame: not sent.append(frame))
    stream.put(b"z")
    stream.send(0.01, lambda _frame: False)
    stream.send(0.02, lambda frame: not sent.append(frame))
    assert [frame.body for frame in sent] == [b"x", b"y", b"x", b"y", b"z"]


def test_a_frame_of_another_epoch_is_refused_with_both_numbers(epoch: int = 2) -> None:
    """Such a frame was recorded and sent again, or comes from a node that was declared lost."""
    stream = Stream(epoch=epoch)
    old = Numbered(epoch=1, number=1, acknowledged=0, body=b"spawn")
    with pytest.raises(StreamError, match="epoch 1, but the node is in epoch 2"):
        stream.take(old, 0.0)
    own = Numbered(epoch=2, number=1, acknowledged=0, body=b"spawn")
    assert stream.take(own, 0.0) == b"spawn"
    assert stream.take(own, 0.0) is None


def test_an_acknowledgement_of_a_message_that_was_never_sent_is_refused() -> None:
    stream = Stream(epoch=1)
    stream.put(b"x")
    with pytest.raises(StreamError, match="acknowledges message 2, but only 1 were sent"):
        stream.take(Numbered(epoch=1, number=1, acknowledged=2, body=b"y"), 0.0)
    assert stream.taken == 0 and stream.waiting == [b"x"]


def test_messages_arrive_exactly_once_over_connections_that_are_cut(messages: int = 1000) -> None:
    """The same over sockets, whose connections end in the middle of a message.

    The node sends heartbeats, as agents do; they tell the head of a new connection.
    """
    draw, keys = random.Random(5), Keys()
    router = Router(HERE, keys.server)
    decoder = msgspec.msgpack.Decoder(Numbered)
    ends = {"head": Stream(epoch=1), "node": Stream(epoch=1)}
    put = {end: [f"{end} {number}".encode() for number in range(messages)] for end in ends}
    left = {end: deque(bodies) for end, bodies in put.items()}
    got: dict[str, list[bytes]] = {"head": [], "node": []}
    cuts: list[float] = []
    assert isinstance(router.address, Tcp)
    with Relay(router.address) as relay:
        dealer = Dealer(relay.address, "node-1", keys.node("node-1"))

        def turn() -> None:
            now_s = time.monotonic()
            for end, send in (
                ("head", lambda frame: router.send("node-1", encode(frame))),
                ("node", lambda frame: dealer.send(encode(frame))),
            ):
                while left[end] and len(ends[end].waiting) < MOST_AHEAD and draw.random() < 0.9:
                    ends[end].put(left[end].popleft())
                ends[end].send(now_s, send)
            came = [("head", body) for _, body in iter(router.recv, None)]
            came += [("node", body) for body in iter(dealer.recv, None)]
            for end, data in came:
                if (body := ends[end].take(decoder.decode(data), now_s)) is not None:
                    got[end].append(body)
            dealer.send(encode(Numbered(epoch=1, number=0, acknowledged=ends["node"].taken)))
            time.sleep(0.001)
            if sum(map(len, got.values())) >= 200 * (len(cuts) + 1):
                cuts.append(now_s)
                relay.cut()

        until(lambda: not any(left.values()) and not any(end.waiting for end in ends.values()), turn)
        dealer.close()
    router.close()
    assert got == {"head": put["node"], "node": put["head"]} and len(cuts) >= messages // 100
