"""Delivery of messages in order and exactly once between a head and a node, across broken connections.

Each end has a ``Stream`` for an epoch of the node (``launch/nodes/messages.py``). Each message gets a sequence number
and is kept until the other end has acknowledged it. Messages that are not acknowledged in time are sent again, from the
oldest one (go-back-N). The receiver accepts only the number that follows the last accepted one. Each frame that it
sends acknowledges the last accepted number. Frames may be lost, repeated or reordered, and connections may break. The
module has no input or output of its own.

A stream ends with its epoch. Frames of another epoch are refused: they are replayed, or come from a fenced node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from actorlearn.wire.identity import Count
from actorlearn.wire.messages import LIMIT_BYTES, Message

BODY_BYTES = LIMIT_BYTES + 1024
"""Maximum bytes of a message: LIMIT_BYTES for a message of a process, and room for the name of the process."""
RESEND_S = 0.5
RESEND_MOST_S = 4.0
"""Shortest and longest time until messages are sent again, in seconds; it doubles until an acknowledgement."""


class StreamError(ValueError):
    """A frame does not belong to this stream: it has another epoch, or acknowledges messages that were not sent."""


class Numbered(Message, frozen=True):
    """A frame: a message with its sequence number, or only an acknowledgement, with number 0."""

    epoch: Count
    number: Count
    """1 for the first message of the epoch, and so on."""
    acknowledged: Count
    """Number of the last message that the sender of this frame has accepted."""
    body: Annotated[bytes, Meta(max_length=BODY_BYTES)] = b""


@dataclass
class Stream:
    """One end of a stream, for messages in both directions, within one node epoch."""

    epoch: int
    acknowledged: int = 0
    """Number of the last message of this end that the other end has accepted."""
    taken: int = 0
    """Number of the last message of the other end that this end has accepted."""
    _kept: deque[bytes] = field(default_factory=deque)
    """Messages of this end that are not acknowledged, from the oldest, which has number ``acknowledged + 1``."""
    _flying: int = 0
    """Number of messages of ``_kept``, from the oldest, that were sent and may still be acknowledged."""
    _sent_s: float = 0.0
    """Time when the oldest message of ``_kept`` was sent, or of the last acknowledgement."""
    _patience_s: float = RESEND_S
    """Seconds without an acknowledgement after which messages are sent again."""
    _owed: bool = False
    """Whether an acknowledgement must be sent to the other end."""

    @property
    def waiting(self) -> list[bytes]:
        """Messages of this end that are not acknowledged yet, in order; the other end may have accepted some."""
        return list(self._kept)

    def put(self, body: bytes) -> None:
        """Add a message to be sent; `Outbox` limits the number of messages that are not acknowledged."""
        self._kept.append(body)

    def send(self, now_s: float, send: Callable[[Numbered], bool]) -> None:
        """Send the messages that are due. ``send`` returns False without a connection; then all are due again."""
        if self._flying and now_s - self._sent_s >= self._patience_s:
            self._flying = 0
            self._patience_s = min(2 * self._patience_s, RESEND_MOST_S)
        while self._flying < len(self._kept):
            number = self.acknowledged + self._flying + 1
            body = self._kept[self._flying]
            if not send(Numbered(epoch=self.epoch, number=number, acknowledged=self.taken, body=body)):
                self._flying = 0
                return
            if not self._flying:
                self._sent_s = now_s
            self._flying += 1
            self._owed = False
        if self._owed:
            self._owed = not send(Numbered(epoch=self.epoch, number=0, acknowledged=self.taken))

    def take(self, frame: Numbered, now_s: float) -> bytes | None:
        """Return the message of a frame if its number is the next one, else None.

        If the frame is not of this stream, raises StreamError and changes nothing.
        """
        if frame.epoch != self.epoch:
            raise StreamError(f"the frame is of epoch {frame.epoch}, but the node is in epoch {self.epoch}")
        if frame.acknowledged > self.acknowledged + len(self._kept):
            most = self.acknowledged + len(self._kept)
            raise StreamError(f"the frame acknowledges message {frame.acknowledged}, but only {most} were sent")
        while self.acknowledged < frame.acknowledged:
            self._kept.popleft()
            self.acknowledged += 1
            self._flying = max(0, self._flying - 1)
            self._sent_s, self._patience_s = now_s, RESEND_S
        if not frame.number:
            return None
        self._owed = True
        if frame.number != self.taken + 1:
            return None
        self.taken += 1
        return frame.body
