"""Messages of learners through ZeroMQ sockets of this machine: each learner's newest weights, sent to its out-peers.

Reads and writes sockets only; knows neither graph nor weights. The same ``Mailbox`` as that of shared memory, with one
difference: a message is here when it has arrived, so a learner that joins has none before its peers' next update.

A message is one frame: magic, protocol version, sender, version and checksum, then the raw float32. A message of
another size or form is dropped and counted, and raises no error. Of each peer the newest version is kept, unless later
messages of the sender contradict its version (CONTRADICTIONS). A line to a peer that is slow, dead or not yet started
holds one message, the newest.

A process that can reach an address can send weights; an ipc endpoint is reached by processes of its owner alone.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.wire.channel import Pull, Push

MAGIC = b"ACTLMESG"
PROTOCOL = 1
"""Version of the frame; raised when its form changes."""
HEADER = struct.Struct("<8sIIqI")
"""Magic, protocol, sender, version, CRC-32 of the weights."""
INCARNATION = 1 << 40
"""Versions per incarnation: the next one starts above, as it cannot know its predecessor's last version."""
CONTRADICTIONS = 8
"""Consecutive messages, of increasing versions and all older than the kept one, after which the kept one is replaced:
otherwise one wrong version would mute its sender for ever. A dead incarnation may have one late message, not 8."""
_POLL_MS = 50


class SocketMailbox:
    """One learner's own messages and those of its peers."""

    def __init__(
        self,
        learner: int,
        size: int,
        listen: Callable[[int], Pull],
        dial: Callable[[int], Push],
        peers: Callable[[], Collection[int]],
        incarnation: int = 0,
    ) -> None:
        """Listen; raises ChannelError.

        `size`: weights in a message; `listen` opens the own end, for messages of at most so many bytes, and `dial` the
        line to a learner; `peers` returns the learners that get this one's messages
        now; `incarnation` of this learner: larger than all before.
        """
        self._learner, self._size = learner, size
        self._dial, self._peers = dial, peers
        self._posted = incarnation * INCARNATION - 1
        self._lines: dict[int, Push] = {}
        self._here: dict[int, tuple[int, bytes]] = {}
        """Version and frame of each peer's newest message; written by the receiving thread alone."""
        self._older: dict[int, tuple[int, int]] = {}
        """Consecutive messages of each peer that contradicted its newest: their number, and the version of the last."""
        self.dropped = 0
        """Number of messages that were foreign, damaged, or older than the kept one."""
        self._pull = listen(HEADER.size + 4 * size)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._receive, name=f"messages to {learner}", daemon=True)
        self._thread.start()

    def post(self, weights: NDArray[np.float32]) -> int:
        """Send the next message [size] to all peers, without waiting for any; returns its version."""
        if weights.shape != (self._size,):
            raise ValueError(f"a message has {self._size} weights, not {list(weights.shape)}")
        self._posted += 1
        self._follow()
        content = np.ascontiguousarray(weights, np.float32).tobytes()
        frame = HEADER.pack(MAGIC, PROTOCOL, self._learner, self._posted, zlib.crc32(content)) + content
        for line in self._lines.values():
            line.send(frame)
        return self._posted

    def version(self, peer: int) -> int:
        """Return the newest version that has arrived from a peer; -1 = none."""
        return self._here[peer][0] if peer in self._here else -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy the newest message that has arrived from a peer."""
        if peer not in self._here:
            return -1
        version, frame = self._here[peer]
        out[:] = np.frombuffer(frame, np.float32, self._size, HEADER.size)
        return version

    def close(self) -> None:
        """Stop listening; unsent messages are dropped."""
        self._over.set()
        self._thread.join()
        self._pull.close()
        for line in self._lines.values():
            line.close()
        self._lines = {}

    def _follow(self) -> None:
        """Open lines to new peers and close those to peers that have gone."""
        wanted = set(self._peers()) - {self._learner}
        for gone in self._lines.keys() - wanted:
            self._lines.pop(gone).close()
        for new in wanted - self._lines.keys():
            self._lines[new] = self._dial(new)

    def _receive(self) -> None:
        """Read all arriving messages, so that the kept ones are the newest even if ``take`` is called rarely."""
        while not self._over.is_set():
            received = self._pull.recv(_POLL_MS)
            if received is not None and not self.keep(received[1]):
                self.dropped += 1

    def keep(self, frames: list[bytes]) -> bool:
        """Keep a received message if it is valid and newer than the kept one; returns whether it was."""
        if len(frames) != 1 or len(frames[0]) != HEADER.size + 4 * self._size:
            return False
        magic, protocol, sender, version, checksum = HEADER.unpack_from(frames[0])
        if (magic, protocol) != (MAGIC, PROTOCOL) or sender >= MOST_LEARNERS or version < 0:
            return False
        if zlib.crc32(memoryview(frames[0])[HEADER.size :]) != checksum:
            return False
        if version <= self.version(sender) and not self._contradicted(sender, version):
            return False
        self._older.pop(sender, None)
        self._here[sender] = version, frames[0]
        return True

    def _contradicted(self, sender: int, version: int) -> bool:
        """Count a message that is older than the kept one; True when it is to replace that."""
        count, last = self._older.get(sender, (0, -1))
        self._older[sender] = (count + 1 if version > last else 1, version)
        return self._older[sender][0] >= CONTRADICTIONS
