"""Messages of learners through ZeroMQ sockets: each learner sends its newest weights to its out-peers.

Reads and writes sockets only. Implements ``Mailbox`` like shared memory, with one difference: messages must arrive
first, so a learner that joins has no message before the next exchange of its peers.

A message is one frame: a header (MAILBOX), a table of counts if learners do not share these in memory, then the weights
as float32. A message of another size, format or run is dropped and counted, without an error. The newest version of
each peer is kept, unless later messages of the sender contradict it (CONTRADICTIONS). A line to a peer that is slow,
dead or not yet started holds the newest message only. A learner that waits for others sends its newest message again,
as they may wait for it.

Any process that can connect to an address can send weights to it. Only processes of the same user can connect to an ipc
address; if the run has nodes, the header must name a process that is listed. On TCP the sender's key identifies it, and
the header must name the same sender.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Ipc
from actorlearn.parameters.frame_headers import MAILBOX, MAILBOX_ROW_BYTES, MovedBytes
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.parameters.shared_counts import TABLE_WORDS, SharedCounts
from actorlearn.wire.channel import Pull, Pulls, Push
from actorlearn.wire.identity import trainer_id
from actorlearn.wire.messages import Endpoint

INCARNATION = 1 << 40
"""Number of versions reserved for each incarnation, which does not know the last version of the one before it."""
CONTRADICTIONS = 8
"""Number of consecutive messages, with increasing versions and all older than the kept message, after which the kept
message is replaced. Otherwise one wrong version would hide all later messages of its sender. At most one late message
of a dead incarnation is expected."""
REDIAL_S = 0.5
"""Shortest time in seconds between two attempts to connect to a peer that has refused the line because it did not know
this learner yet."""
AGAIN_S = 10.0
"""Seconds after which a learner that waits sends its newest message again, which may have been lost with a
connection."""
_POLL_MS = 50


class Ways(NamedTuple):
    """Functions that connect a learner with its peers."""

    listen: Callable[[int], Pull | Pulls]
    """Opens the socket of this learner, for messages of at most this number of bytes."""
    find: Callable[[int], Ipc | Endpoint | None]
    """Returns the address at which a learner listens now; None if it does not listen."""
    dial: Callable[[Ipc | Endpoint], Push]
    """Opens a line to an address."""
    run: bytes = bytes(16)
    """The run's 16 bytes in message headers."""


class _PeerLine(NamedTuple):
    to: Ipc | Endpoint
    push: Push
    dialled_s: float


class SocketMailbox:
    """The messages of one learner and of its peers, through sockets."""

    def __init__(
        self,
        learner: int,
        size: int,
        ways: Ways,
        peers: Callable[[], Collection[int]],
        incarnation: int = 0,
        counts: SharedCounts | None = None,
        others: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Listen; raises ChannelError.

        `size`: number of weights in a message. `peers` returns the learners that get this learner's messages now.
        `incarnation` is this learner's, larger than all earlier ones. With `counts`, their table is sent before the
        weights, and without weights to those `others` that are not peers.
        """
        self._learner, self._size = learner, size
        self._ways, self._peers, self._others, self._counts = ways, peers, others, counts
        self._first = incarnation * INCARNATION
        """Version of this incarnation's first message."""
        self._posted = self._first - 1
        self._sent_s = self._followed_s = -np.inf
        """Times at which the newest message was last sent on all lines, and the lines last followed the addresses."""
        self._newest = b""
        """Weights of the newest message."""
        self._without_weights: Collection[int] = ()
        """Learners that got the newest message without its weights."""
        self._lines: dict[int, _PeerLine] = {}
        self._here: dict[int, tuple[int, bytes]] = {}
        """Version and frame of each peer's newest message; only the receiving thread writes it."""
        self._older: dict[int, tuple[int, int]] = {}
        """Consecutive messages of each peer that contradict its kept message: their number, and the last's version."""
        self.dropped = 0
        """Number of messages that were foreign, damaged, or older than the kept message."""
        self.moved = MovedBytes()
        """Bytes of messages that were given to a line, and of valid received messages."""
        self._pull = ways.listen(MAILBOX.size + MOST_LEARNERS * MAILBOX_ROW_BYTES * bool(counts) + 4 * size)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._receive, name=f"messages to {learner}", daemon=True)
        self._thread.start()

    def post(self, weights: NDArray[np.float32]) -> int:
        """Send the next message [size] to all peers without waiting; returns its version."""
        if weights.shape != (self._size,):
            raise ValueError(f"a message has {self._size} weights, not {list(weights.shape)}")
        self._posted += 1
        self._newest = np.ascontiguousarray(weights, np.float32).tobytes()
        self._follow()
        self._send_to_all()
        return self._posted

    def send_again(self) -> None:
        """Send the newest message again, if it is due; called in each turn of a wait for messages of others.

        It goes at once to learners whose addresses are new, and to all every AGAIN_S.
        """
        now_s = time.monotonic()
        if not self._newest or now_s - self._followed_s < REDIAL_S:
            return
        new = self._follow()
        if now_s - self._sent_s >= AGAIN_S:
            self._send_to_all()
        else:
            self._send(new)

    def tell_counts(self) -> None:
        """Send the newest message again, with the counts of now; without counts in messages, do nothing.

        It has the weights again because a line holds one message only, and may not have sent the last one yet. Before
        the first message, the counts are sent alone.
        """
        if self._counts:
            self._follow()
            self._send_to_all()

    def _send_to_all(self) -> None:
        self._sent_s = time.monotonic()
        self._send(self._lines)

    def _send(self, learners: Collection[int]) -> None:
        """Send the newest weights and counts to these learners; to those that are no peers, only the counts."""
        if not learners:
            return
        table = self._counts.table() if self._counts else np.zeros((0, TABLE_WORDS), np.int64)
        frame = self._frame(table, self._newest)
        alone = self._frame(table) if self._without_weights else b""
        for learner in learners:
            said = alone if learner in self._without_weights else frame
            self.moved.sent += len(said) * self._lines[learner].push.send(said)

    def _frame(self, table: NDArray[np.int64], weights: bytes = b"") -> bytes:
        content = table.tobytes() + weights
        version = max(self._posted, self._first)
        return MAILBOX.pack(self._ways.run, self._learner, version, len(table), zlib.crc32(content)) + content

    def version(self, peer: int) -> int:
        """Return the newest version that has arrived from a peer; -1 = none."""
        return self._here[peer][0] if peer in self._here else -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy the newest message that has arrived from a peer to ``out``; returns its version, or -1 if none."""
        if peer not in self._here:
            return -1
        version, frame = self._here[peer]
        out[:] = np.frombuffer(frame, np.float32, self._size, len(frame) - 4 * self._size)
        return version

    def posted_ns(self, peer: int) -> int | None:
        """Return None: clocks of machines differ, and frames wait to be read."""
        return None

    def close(self) -> None:
        """Stop listening; unsent messages are dropped."""
        self._over.set()
        self._thread.join()
        self._pull.close()
        for line in self._lines.values():
            line.push.close()
        self._lines = {}

    def _follow(self) -> Collection[int]:
        """Open lines to learners that have none, and return these; close lines that were refused or lead nowhere."""
        now_s = self._followed_s = time.monotonic()
        peers = set(self._peers()) - {self._learner}
        self._without_weights = others = set(self._others()) - {self._learner} - peers
        wanted = {peer: where for peer in peers | others if (where := self._ways.find(peer)) is not None}
        for peer, line in list(self._lines.items()):
            refused = not line.push.takes and now_s - line.dialled_s >= REDIAL_S
            if refused or wanted.get(peer) != line.to:
                self._lines.pop(peer).push.close()
        new = wanted.keys() - self._lines.keys()
        for learner in new:
            self._lines[learner] = _PeerLine(wanted[learner], self._ways.dial(wanted[learner]), now_s)
        return new

    def _receive(self) -> None:
        """Read all arriving messages, so that the kept ones are the newest even if ``take`` is called rarely."""
        while not self._over.is_set():
            received = self._pull.recv(_POLL_MS)
            if received is not None and not self.keep(received[1], received[0]):
                self.dropped += 1

    def keep(self, frames: list[bytes], by: str = "") -> bool:
        """Keep a received message if it is valid and newer than the kept one; returns False if it is dropped.

        ``by``: id of the process with the sender's key. Empty on ipc: if the run has nodes, the sender must then be the
        process that is listed now.
        """
        numbers = MAILBOX.unpack(self._ways.run, frames[0]) if len(frames) == 1 else None
        if numbers is None:
            return False
        sender, version, rows, checksum = numbers
        if sender >= MOST_LEARNERS or version < 0:
            return False
        if not by:
            where = self._ways.find(sender)
            if where is None:  # it is not listed
                return False
            by = where.id.socket_id if isinstance(where, Endpoint) else ""
        if by and by != trainer_id(sender).again(version // INCARNATION).socket_id:
            return False
        content = memoryview(frames[0])[MAILBOX.size :]
        table, weights = content[: rows * MAILBOX_ROW_BYTES], content[rows * MAILBOX_ROW_BYTES :]
        if rows > MOST_LEARNERS or bool(rows) != bool(self._counts) or len(table) < rows * MAILBOX_ROW_BYTES:
            return False
        if len(weights) not in ((0, 4 * self._size) if rows else (4 * self._size,)) or zlib.crc32(content) != checksum:
            return False
        self.moved.received += len(frames[0])
        if self._counts:
            self._counts.hear(np.frombuffer(table, np.int64).reshape(rows, TABLE_WORDS))
        again = bool(rows) and version == self.version(sender)  # sent again for its counts
        return not weights or again or self._keep_weights(sender, version, frames[0])

    def _keep_weights(self, sender: int, version: int, frame: bytes) -> bool:
        if version <= self.version(sender) and not self._contradicted(sender, version):
            return False
        self._older.pop(sender, None)
        self._here[sender] = version, frame
        return True

    def _contradicted(self, sender: int, version: int) -> bool:
        """Count a message that is not newer than the kept one; returns whether to replace the kept one by it."""
        count, last = self._older.get(sender, (0, -1))
        self._older[sender] = (count + 1 if version > last else 1, version)
        return self._older[sender][0] >= CONTRADICTIONS
