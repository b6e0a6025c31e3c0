"""Headers of the binary messages (frames) between learners, hubs and parameter servers, and counts of their bytes.

Every header begins with a magic number of the format, the version of the format, and an id of the run. A frame of
another format, version or run is dropped. Numbers that depend on the format follow, and then the content.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from actorlearn.parameters.shard_layout import ROW_WORDS
from actorlearn.parameters.shared_counts import TABLE_WORDS


@dataclass(frozen=True)
class FrameHeader:
    """Packs and unpacks the header of one format of binary messages; little-endian, without padding."""

    magic: bytes
    """8 bytes that identify the format."""
    protocol: int
    """Version of the format, which is increased whenever its frames change."""
    numbers: str
    """Types of the numbers that depend on the format, as a format string of ``struct``."""

    @cached_property
    def _layout(self) -> struct.Struct:
        return struct.Struct(f"<8sI16s{self.numbers}")

    @property
    def size(self) -> int:
        """Number of bytes of a header."""
        return self._layout.size

    def pack(self, run: bytes, *numbers: int) -> bytes:
        """Return the bytes of a header; ``run`` is the run's id of 16 bytes."""
        return self._layout.pack(self.magic, self.protocol, run, *numbers)

    def unpack(self, run: bytes, frame: bytes) -> tuple[int, ...] | None:
        """Return the numbers in a message's header; None for a message of another format, version or run."""
        if len(frame) < self.size:
            return None
        magic, protocol, own, *numbers = self._layout.unpack_from(frame)
        return tuple(numbers) if (magic, protocol, own) == (self.magic, self.protocol, run) else None


class MovedBytes:
    """Counts the bytes of sent and received messages before encryption; a message that is sent again counts again."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._reported = 0, 0

    def metrics(self) -> dict[str, int]:
        """Return the metrics ``bytes_sent`` and ``bytes_received`` since the last call."""
        before, self._reported = self._reported, (self.sent, self.received)
        return {"bytes_sent": self._reported[0] - before[0], "bytes_received": self._reported[1] - before[1]}


HUB = FrameHeader(b"ACTLMEET", 3, "BxxxqqQ")
"""Frames between learners in mode sync and their hub (``hub.py``). Numbers: kind, generation, barrier, and a bit
for each rank whose vector is added."""

MAILBOX = FrameHeader(b"ACTLMESG", 3, "IqII")
"""Frames between learners in mode gossip (``mailbox.py``). Numbers: sender, version, number of rows in the table
of counts, CRC-32 of the content."""
MAILBOX_ROW_BYTES = 8 * TABLE_WORDS
"""Number of bytes of a row in the table of counts."""

SHARD = FrameHeader(b"ACTLPSRV", 2, "BBHHHIqqqqqq")
"""Frames between learners and parameter servers (``shard_frames.py``). Numbers: those of `ShardFrame`, and how many
rows, learning rates and scalars the content has."""
SHARD_ROW_BYTES = 8 * ROW_WORDS
"""Number of bytes of a row in the table of learners."""
