"""Messages that wait in lanes: all arrive, in the order of their lane, however many and large they are."""

from __future__ import annotations

from launch.nodes.messages import CHUNK_BYTES, LogChunk, decode
from launch.nodes.outbox import MOST_AHEAD, Outbox
from launch.nodes.stream import Numbered, Stream


def test_large_messages_of_many_lanes_all_arrive_in_the_order_of_their_lanes() -> None:
    """Formerly one message of each of 200 lanes was more than the stream keeps, and the rest was silently lost."""
    here, there = Stream(1), Stream(1)
    outbox = Outbox(here)
    lanes = [f"lane-{number}" for number in range(200)]
    for number in range(2):
        for lane in lanes:
            outbox.put(lane, LogChunk(f"{lane}-{number}.log", bytes(CHUNK_BYTES)))
    came: list[str] = []
    for now_s in range(100):
        outbox.pump()
        frames = []
        here.send(now_s, lambda frame, sent=frames: sent.append(frame) or True)  # type: ignore[misc]
        for frame in frames:
            body = there.take(frame, now_s)
            if body is not None:
                message = decode(body, "reporter")
                assert isinstance(message, LogChunk)
                came.append(message.file)
        there.send(now_s, lambda frame: here.take(frame, 0.0) is None)
    assert outbox.empty
    assert came == [f"{lane}-{number}.log" for number in range(2) for lane in lanes]


def test_messages_that_are_not_acknowledged_are_bounded() -> None:
    stream = Stream(1)
    outbox, sent = Outbox(stream), list[Numbered]()
    for number in range(3 * MOST_AHEAD):
        outbox.put("logs", LogChunk(f"{number}.log", bytes(CHUNK_BYTES)))
    for now_s in range(0, 100, 10):
        outbox.pump()
        sent.clear()
        stream.send(now_s, lambda frame: sent.append(frame) is None)
        assert len(stream.waiting) == len(sent) == MOST_AHEAD
    stream.take(Numbered(epoch=1, number=0, acknowledged=1), 100.0)
    outbox.pump()
    assert len(stream.waiting) == MOST_AHEAD and not outbox.empty
