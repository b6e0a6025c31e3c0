"""Headers of the frames that learners, hubs and parameter servers send to each other, and the count of their bytes.

Pure; loads neither torch nor zmq. Every header begins with a magic that names the format, the version of the format and
the run. A frame of another format, version or run is not read. The format's own numbers follow, and then the content.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from actorlearn.parameters.shard_layout import ROW_WORDS
from actorlearn.parameters.shared_counts import TABLE_WORDS


@dataclass(frozen=True)
class FrameHeader:
    """The header of one format of frames, in little-endian order without padding."""

    magic: bytes
    """8 bytes."""
    protocol: int
    """Version of the format, increased whenever its frames change."""
    numbers: str
    """The format's own numbers, as a format string of ``struct``."""

    @cached_property
    def _layout(self) -> struct.Struct:
        return struct.Struct(f"<8sI16s{self.numbers}")

    @property
    def size(self) -> int:
        """Bytes of a header."""
        return self._layout.size

    def pack(self, run: bytes, *numbers: int) -> bytes:
        """Return the header of a frame; ``run``: the run's 16 bytes."""
        return self._layout.pack(self.magic, self.protocol, run, *numbers)

    def unpack(self, run: bytes, frame: bytes) -> tuple[int, ...] | None:
        """Return the format's numbers in a frame's header; None for a frame of another format, version or run."""
        if len(frame) < self.size:
            return None
        magic, protocol, own, *numbers = self._layout.unpack_from(frame)
        return tuple(numbers) if (magic, protocol, own) == (self.magic, self.protocol, run) else None


class MovedBytes:
    """Bytes of frames that were sent and received, before encryption; repeated frames are counted again."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._reported = 0, 0

    def metrics(self) -> dict[str, int]:
        """Return the metrics of both since the last call."""
        before, self._reported = self._reported, (self.sent, self.received)
        return {"bytes_sent": self._reported[0] - before[0], "bytes_received": self._reported[1] - before[1]}


MEETING = FrameHeader(b"ACTLMEET", 3, "BxxxqqQ")
"""Frames between learners in lock-step and their hub (``meetings.py``): kind, generation, meeting, ranks whose
vectors are added."""

MAILBOX = FrameHeader(b"ACTLMESG", 3, "IqII")
"""Frames between learners in mode gossip (``socket_mailbox.py``): sender, version, rows of the table, CRC-32 of the
content."""
MAILBOX_ROW_BYTES = 8 * TABLE_WORDS
"""Bytes of a row of the table of counts."""

SHARD = FrameHeader(b"ACTLPSRV", 2, "BBHHHIqqqqqq")
"""Frames between learners and parameter servers (``shard_frames.py``): kind, wire, shard, rows, rates, scalars,
request, number, version, outcome, two numbers of the base."""
SHARD_ROW_BYTES = 8 * ROW_WORDS
"""Bytes of a row of the table of learners."""
