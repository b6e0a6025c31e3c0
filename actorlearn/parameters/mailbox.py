"""Messages between learners in mode gossip: each learner posts its newest weights, and others read them at any time.

`SharedMailbox` keeps each learner's message in shared memory. A reader always gets a complete message, and neither side
waits (``published.py``).

`SocketMailbox` sends messages through ZeroMQ sockets. Messages must arrive first, so a learner that joins has no
messages before the next exchange of its peers.

* Format: a message is one frame: a header (`frame_headers.MAILBOX`), a table of counts if learners do not share these
  in memory, and the weights as float32. A message of another size, format or run is dropped and counted, without an
  error. The newest version of each peer is kept (see also CONTRADICTIONS).
* Delivery: a line (connection) to a peer that is slow, dead or not started keeps only the newest message. A learner
  that waits for others sends its newest message again, because they may wait for it.
* Security: any process that can connect to an address can send weights to it. Only processes of the same user can
  connect to a Unix socket; if the run has nodes, the header must also name a process that is listed. On TCP, the key of
  the sender identifies it, and the header must name the same sender.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import ByLearner, Ipc, Shm
from actorlearn.memory.shared import Segment, SegmentError
from actorlearn.parameters.frame_headers import MAILBOX, MAILBOX_ROW_BYTES, MovedBytes
from actorlearn.parameters.published import Published
from actorlearn.parameters.settings import MOST_LEARNERS
from actorlearn.parameters.shared_counts import TABLE_WORDS, SharedCounts
from actorlearn.wire.channel import Pull, Pulls, Push
from actorlearn.wire.endpoints import Endpoints
from actorlearn.wire.identity import trainer_id
from actorlearn.wire.messages import Endpoint

INCARNATION = 1 << 40
"""Number of versions that are reserved for each start of a learner, because a restarted one does not know its last
version."""
CONTRADICTIONS = 8
"""Number of consecutive messages older than the kept one, with increasing versions, after which the kept one is
replaced. Otherwise a single message with a wrong version would hide all later messages of its sender. Of a dead
incarnation, at most one late message is expected."""
REDIAL_S = 0.5
"""Shortest time, in seconds, between two attempts to connect to a peer that has refused the connection because it did
not know this learner yet."""
AGAIN_S = 10.0
"""Seconds after which a learner that waits sends its newest message again, which may have been lost with a
connection."""
_POLL_MS = 50


class SharedMailbox:
    """Gossip messages in shared memory: a segment for each learner with its newest weights or gradient."""

    def __init__(self, messages: ByLearner[Shm], learner: int) -> None:
        """Keep the addresses; segments are opened at first use, because learners may be attached later."""
        self._messages, self._learner = messages, learner
        self._segments: dict[int, Segment] = {}
        self._posted_ns: dict[int, int] = {}
        """Time at which the newest message that was read from each learner was sent."""

    def post(self, weights: NDArray[np.float32]) -> int:
        """Make ``weights`` [size] this learner's newest message; returns its version, which never decreases."""
        return self._of(self._learner).publish(weights, time.monotonic_ns())  # the time instead of environment steps

    def version(self, peer: int) -> int:
        """Return the version of a learner's newest message; -1 if it has sent none."""
        try:
            return self._of(peer).version
        except (FileNotFoundError, SegmentError):  # the segment is not made yet, or is being made
            return -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy the newest weights that a learner has sent to ``out`` [size]; returns their version, -1 if none."""
        found = self._of(peer).fetch(out) if self.version(peer) >= 0 else None
        if found is None:
            return -1
        version, self._posted_ns[peer] = found
        return version

    def posted_ns(self, peer: int) -> int | None:
        """Return when the message taken last from ``peer`` was sent, in ns of the monotonic clock; None before."""
        return self._posted_ns.get(peer)

    def close(self) -> None:
        """Close the segments; messages stay in shared memory."""
        for segment in self._segments.values():
            segment.close()
        self._segments = {}

    def _of(self, learner: int) -> Published:
        if learner not in self._segments:
            self._segments[learner] = Segment.open(self._messages.of(learner).file)
        return Published(self._segments[learner])


class Transport(NamedTuple):
    """Functions by which a learner opens sockets to exchange weights with its peers, the learners it averages with."""

    listen: Callable[[int], Pull | Pulls]
    """Opens the socket at which this learner listens; the argument is the largest number of bytes of a message."""
    find: Callable[[int], Ipc | Endpoint | None]
    """Returns the address at which a learner listens now; None if it does not listen."""
    dial: Callable[[Ipc | Endpoint], Push]
    """Connects to an address."""
    run: bytes = bytes(16)
    """The run's id in the headers of messages."""


def ipc_transport(sockets: ByLearner[Ipc], learner: int) -> Transport:
    """Return the functions that connect a learner with others on its machine, through Unix sockets."""

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Ipc)
        return Push(to)

    return Transport(lambda limit_bytes: Pull(sockets.of(learner), limit_bytes), sockets.of, dial)


def tcp_transport(endpoints: Endpoints, host: str) -> Transport:
    """Return the functions that connect a learner with others on other machines; ``host``: this machine's address."""

    def find(peer: int) -> Endpoint | None:
        found = endpoints.find(endpoints.own.role).get(peer)
        return found if found is not None and found.address is not None else None

    def dial(to: Ipc | Endpoint) -> Push:
        assert isinstance(to, Endpoint)
        return endpoints.push(to)

    return Transport(lambda limit_bytes: endpoints.pull(host, limit_bytes), find, dial, endpoints.run)


class _PeerLine(NamedTuple):
    """The connection to a peer, and the time at which it was opened, in seconds."""

    to: Ipc | Endpoint
    push: Push
    dialled_s: float


class SocketMailbox:
    """Gossip messages over sockets: sends a learner's weights to its peers, and keeps the newest weights of each."""

    def __init__(
        self,
        learner: int,
        size: int,
        transport: Transport,
        peers: Callable[[], Collection[int]],
        incarnation: int = 0,
        counts: SharedCounts | None = None,
        others: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Listen for messages; raises ChannelError.

        ``size`` is the number of weights in a message. ``peers`` returns the learners that get this learner's weights
        now. ``incarnation`` is the number of restarts of this learner. If ``counts`` is given, messages also have the
        step counts of all learners, and the learners ``others``, which are no peers, get messages with the counts only.
        """
        self._learner, self._size = learner, size
        self._transport, self._peers, self._others, self._counts = transport, peers, others, counts
        self._first = incarnation * INCARNATION
        """Version of this learner's first message since its last start."""
        self._posted = self._first - 1
        self._sent_s = self._followed_s = -np.inf
        """Time at which the newest message was last sent to all, and time at which the connections were last
        updated."""
        self._newest = b""
        """Weights of the newest message."""
        self._without_weights: Collection[int] = ()
        """Learners that get only the table of counts."""
        self._lines: dict[int, _PeerLine] = {}
        self._here: dict[int, tuple[int, bytes]] = {}
        """Version and frame of each peer's newest message; only the receiving thread writes it."""
        self._older: dict[int, tuple[int, int]] = {}
        """For each peer, the number of consecutive messages older than the kept one, and the version of the last."""
        self.dropped = 0
        """Number of messages that were foreign, damaged, or older than the kept message."""
        self.moved = MovedBytes()
        """Bytes of messages that were sent, and of valid messages that were received."""
        self._pull = transport.listen(MAILBOX.size + MOST_LEARNERS * MAILBOX_ROW_BYTES * bool(counts) + 4 * size)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._receive, name=f"messages to {learner}", daemon=True)
        self._thread.start()

    def post(self, weights: NDArray[np.float32]) -> int:
        """Send weights [size] to all peers, without waiting, as the next message; returns its version."""
        if weights.shape != (self._size,):
            raise ValueError(f"a message has {self._size} weights, not {list(weights.shape)}")
        self._posted += 1
        self._newest = np.ascontiguousarray(weights, np.float32).tobytes()
        self._follow()
        self._send_to_all()
        return self._posted

    def send_again(self) -> None:
        """Send the newest message again if that is due; called repeatedly while this learner waits for others.

        Learners with new addresses get it at once, and all learners every AGAIN_S seconds.
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
        """Send the newest message again, with the present step counts. If messages have no counts, do nothing.

        The message also has the weights, because a connection keeps only one unsent message. Before the first weights,
        the counts are sent alone.
        """
        if self._counts:
            self._follow()
            self._send_to_all()

    def _send_to_all(self) -> None:
        self._sent_s = time.monotonic()
        self._send(self._lines)

    def _send(self, learners: Collection[int]) -> None:
        """Send the newest weights and the step counts to these learners; only the counts if they are no peers."""
        if not learners:
            return
        table = self._counts.table() if self._counts else np.zeros((0, TABLE_WORDS), np.int64)
        frame = self._frame(table, self._newest)
        alone = self._frame(table) if self._without_weights else b""
        for learner in learners:
            message = alone if learner in self._without_weights else frame
            self.moved.sent += len(message) * self._lines[learner].push.send(message)

    def _frame(self, table: NDArray[np.int64], weights: bytes = b"") -> bytes:
        content = table.tobytes() + weights
        version = max(self._posted, self._first)
        return MAILBOX.pack(self._transport.run, self._learner, version, len(table), zlib.crc32(content)) + content

    def version(self, peer: int) -> int:
        """Return the newest version that has arrived from a peer; -1 = none."""
        return self._here[peer][0] if peer in self._here else -1

    def take(self, peer: int, out: NDArray[np.float32]) -> int:
        """Copy the newest weights that came from a learner to ``out`` [size]; returns their version, -1 if none."""
        if peer not in self._here:
            return -1
        version, frame = self._here[peer]
        out[:] = np.frombuffer(frame, np.float32, self._size, len(frame) - 4 * self._size)
        return version

    def posted_ns(self, peer: int) -> int | None:
        """Return None: the time is not known, because the clocks of machines differ."""
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
        """Connect to learners to which there is no connection, and return these learners.

        Connections that were refused, or whose learner has another address or none, are closed.
        """
        now_s = self._followed_s = time.monotonic()
        peers = set(self._peers()) - {self._learner}
        self._without_weights = others = set(self._others()) - {self._learner} - peers
        wanted = {peer: where for peer in peers | others if (where := self._transport.find(peer)) is not None}
        for peer, line in list(self._lines.items()):
            refused = not line.push.takes and now_s - line.dialled_s >= REDIAL_S
            if refused or wanted.get(peer) != line.to:
                self._lines.pop(peer).push.close()
        new = wanted.keys() - self._lines.keys()
        for learner in new:
            self._lines[learner] = _PeerLine(wanted[learner], self._transport.dial(wanted[learner]), now_s)
        return new

    def _receive(self) -> None:
        """Read all messages as they arrive, so that the newest ones are kept even if `take` is called rarely."""
        while not self._over.is_set():
            received = self._pull.recv(_POLL_MS)
            if received is not None and not self.keep(received[1], received[0]):
                self.dropped += 1

    def keep(self, frames: list[bytes], by: str = "") -> bool:
        """Keep a received message if it is valid and the newest from its sender; returns False if it is dropped.

        ``by`` is the id of the process whose key the connection has. It is empty for a Unix socket; if the run has
        nodes, the sender must then be a process that the supervisor lists now.
        """
        numbers = MAILBOX.unpack(self._transport.run, frames[0]) if len(frames) == 1 else None
        if numbers is None:
            return False
        sender, version, rows, checksum = numbers
        if sender >= MOST_LEARNERS or version < 0:
            return False
        if not by:
            where = self._transport.find(sender)
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
            self._counts.receive(np.frombuffer(table, np.int64).reshape(rows, TABLE_WORDS))
        again = bool(rows) and version == self.version(sender)  # sent again for its counts
        return not weights or again or self._keep_weights(sender, version, frames[0])

    def _keep_weights(self, sender: int, version: int, frame: bytes) -> bool:
        if version <= self.version(sender) and not self._contradicted(sender, version):
            return False
        self._older.pop(sender, None)
        self._here[sender] = version, frame
        return True

    def _contradicted(self, sender: int, version: int) -> bool:
        """Count a message that is not newer than the kept one; returns whether it must replace the kept one."""
        count, last = self._older.get(sender, (0, -1))
        self._older[sender] = (count + 1 if version > last else 1, version)
        return self._older[sender][0] >= CONTRADICTIONS


Mailbox = SharedMailbox | SocketMailbox
"""A mailbox through shared memory or through sockets; both have the same methods."""
