"""Messages in order and exactly once between a head and a node, however often their connection breaks. Pure.

Each end has a ``Stream`` for as long as a node epoch lasts. Every message gets a sequence number and is kept until the
other end has acknowledged it; what is not acknowledged in time is sent again, from the oldest on (go-back-N). The
receiver takes only the number that follows the last one taken, so that repetitions and gaps change nothing, and says
with everything that it sends which one that was. It does not matter what is lost, repeated or re-ordered on the way,
nor whether a connection broke: only that some frames arrive in the end.

A stream ends with its epoch. Frames of another epoch are refused: they are a replay, or a node's that was fenced.
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
"""Largest message: one of a process, of LIMIT_BYTES at most, with the name of that process."""
MOST_KEPT = 4096
"""Messages that wait to be acknowledged; while there are so many, none is taken for sending."""
MOST_KEPT_BYTES = 16 << 20
MOST_FLYING = 64
"""Messages that are on their way at a time: as many are sent again when an acknowledgement does not come."""
RESEND_S = 0.5
RESEND_MOST_S = 4.0
"""The time until messages are sent again doubles up to this, and begins anew with an acknowledgement."""


class StreamError(ValueError):
    """A frame that cannot be of this stream: of another epoch, or contradicting what was sent."""


class Numbered(Message, frozen=True):
    """A message in its place, or with number 0 nothing but an acknowledgement."""

    epoch: Count
    number: Count
    """1 for the first message of the epoch, and so on."""
    acknowledged: Count
    """Number of the last message that the sender of this frame has taken."""
    body: Annotated[bytes, Meta(max_length=BODY_BYTES)] = b""


@dataclass
class Stream:
    """One end's messages to the other and from it, within one node epoch."""

    epoch: int
    acknowledged: int = 0
    """Number of the last own message that the other end has taken."""
    taken: int = 0
    """Number of the last message of the other end that was taken."""
    _kept: deque[bytes] = field(default_factory=deque)
    """Own messages that are not acknowledged, the oldest first: number ``acknowledged + 1``."""
    _kept_bytes: int = 0
    _flying: int = 0
    """Number of them that were sent and may still arrive."""
    _sent_s: float = 0.0
    """Time at which the oldest of them was sent, or acknowledgements last came."""
    _patience_s: float = RESEND_S
    _owed: bool = False
    """Whether the other end has to hear what was taken."""

    @property
    def waiting(self) -> list[bytes]:
        """Own messages that are not acknowledged, in order; some of them may have been taken."""
        return list(self._kept)

    def put(self, body: bytes) -> bool:
        """Add a message to be sent; False, with nothing done, while too many wait to be acknowledged."""
        if len(self._kept) >= MOST_KEPT or self._kept_bytes + len(body) > MOST_KEPT_BYTES:
            return False
        if len(body) > BODY_BYTES:
            raise StreamError(f"a message of {len(body)} bytes: at most {BODY_BYTES}; send less at a time")
        self._kept.append(body)
        self._kept_bytes += len(body)
        return True

    def send(self, now_s: float, send: Callable[[Numbered], bool]) -> None:
        """Send what is due. Where ``send`` returns False there is no connection: all on its way is due again."""
        if self._flying and now_s - self._sent_s >= self._patience_s:
            self._flying = 0
            self._patience_s = min(2 * self._patience_s, RESEND_MOST_S)
        while self._flying < min(len(self._kept), MOST_FLYING):
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
        """Return the message of a frame if it is the next one, else None; raises StreamError, with nothing changed."""
        if frame.epoch != self.epoch:
            raise StreamError(f"a frame of epoch {frame.epoch}; this is epoch {self.epoch}, so it comes too late")
        if frame.acknowledged > self.acknowledged + len(self._kept):
            most = self.acknowledged + len(self._kept)
            raise StreamError(
                f"acknowledges message {frame.acknowledged}; there are {most}, so it is of another stream"
            )
        while self.acknowledged < frame.acknowledged:
            self._kept_bytes -= len(self._kept.popleft())
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
