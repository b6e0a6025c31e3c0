"""Queues of messages that wait to be put into a stream (``stream.py``). The queues are called lanes.

A lane keeps its order, so a message behind the copy of a checkpoint waits until the copy ends. Other lanes do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from actorlearn.wire.messages import MessageError, brief
from launch.nodes.messages import CopyDone, NodeWarning, encode
from launch.nodes.stream import Stream
from launch.plan.plan import NodeMessage
from launch.supervision import events as ev

MOST_AHEAD = 32
"""Most unacknowledged messages in the stream; further messages wait in their lanes.

If a message is lost, up to this many are sent again.
"""


class Outbox:
    """Sends messages and copies of checkpoints from several lanes in turn; a copy is read when there is room for it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lanes: dict[str, deque[NodeMessage | Iterator[NodeMessage]]] = {}

    @property
    def empty(self) -> bool:
        """Whether all messages have been sent and acknowledged."""
        return not self._lanes and not self._stream.waiting

    def waits(self, lane: str) -> bool:
        """Whether a lane has messages that are not in the stream yet."""
        return lane in self._lanes

    def put(self, lane: str, message: NodeMessage | Iterator[NodeMessage]) -> None:
        """Add a message to a lane; a Send replaces an earlier Send to the same process that still waits."""
        waiting = self._lanes.get(lane, deque())
        if isinstance(message, ev.Send):
            key = message.name, message.incarnation
            waiting = deque(m for m in waiting if not (isinstance(m, ev.Send) and (m.name, m.incarnation) == key))
        waiting.append(message)
        self._lanes[lane] = waiting

    def pump(self) -> None:
        """Move messages to the stream while it has room, one from each lane in turn."""
        room = MOST_AHEAD - len(self._stream.waiting)
        while room > 0 and self._lanes:
            lane = next(iter(self._lanes))
            message = self._next(lane)
            if lane in self._lanes:  # its next turn comes after those of all other lanes
                self._lanes[lane] = self._lanes.pop(lane)
            if message is not None:
                self._stream.put(_encode(message))
                room -= 1

    def send(self, now_s: float, send: Callable[[bytes], bool]) -> None:
        """Send the messages that are due; ``send`` returns False without a connection."""
        self.pump()
        self._stream.send(now_s, lambda frame: send(encode(frame)))

    def _next(self, lane: str) -> NodeMessage | None:
        """Take the next message from a lane; returns None at the end of a copy."""
        waiting = self._lanes[lane]
        first = waiting[0]
        if isinstance(first, NodeMessage):
            waiting.popleft()
            message: NodeMessage | None = first
        else:
            message = next(first, None)
            if message is None:
                waiting.popleft()
        if not waiting:
            del self._lanes[lane]
        return message


def _encode(message: NodeMessage) -> bytes:
    """Encode a message; if it is too large, encode a NodeWarning instead, so that the messages behind it are sent."""
    try:
        return encode(message)
    except MessageError as error:
        folder = message.folder if isinstance(message, CopyDone) else None
        return encode(NodeWarning(f"{error}; the message is not sent: {brief(repr(message), 200)}", folder))
