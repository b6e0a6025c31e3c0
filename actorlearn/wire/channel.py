"""ZeroMQ sockets with bounded queues and no lingering. The only file that imports zmq.

ROUTER and DEALER with explicit ids carry the messages that must arrive. PUSH and PULL carry weights, of which only the
newest matter: a killed puller loses messages. PUB/SUB is not used, because a late subscriber loses messages too.
High-water marks, LINGER and mandatory routing are set before bind or connect: zmq ignores them afterwards.
"""

from __future__ import annotations

import os
from pathlib import Path

import zmq

from actorlearn.wire import MINIMUM_LIBZMQ
from actorlearn.wire.wakeup import Wakeup

HIGH_WATER_MARK = 1000
RECONNECT_MS = 20
RECONNECT_MOST_MS = 200
_FRAMES = 2
"""Frames of what a Router receives: the peer's id and the body."""


class ChannelError(RuntimeError):
    """A socket that cannot be made."""


def _socket(kind: int) -> zmq.Socket[bytes]:
    if zmq.zmq_version_info() < MINIMUM_LIBZMQ:
        least = ".".join(map(str, MINIMUM_LIBZMQ))
        raise ChannelError(f"libzmq {zmq.zmq_version()}: at least {least} is needed; pip install -U pyzmq")
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = HIGH_WATER_MARK
    socket.maxmsgsize = 1 << 20
    return socket


def _listen(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Bind; an ipc endpoint is its owner's alone. Raises ChannelError naming the endpoint."""
    before = os.umask(0o177)  # the socket file must be 0600 from its first moment
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise ChannelError(f"{endpoint}: cannot listen: {error}; is another process using it?") from None
    finally:
        os.umask(before)


def _dial(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect, in the background if there is no listener yet; raises ChannelError for an invalid endpoint."""
    try:
        socket.connect(endpoint)
    except (zmq.ZMQError, ValueError) as error:
        socket.close()
        said = f"{endpoint!r:.200}: cannot be reached: {error}"
        raise ChannelError(f"{said}; write ipc://PATH") from None


def _forsake(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Close a listening socket and remove its file."""
    socket.close()
    if endpoint.startswith("ipc://"):
        Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)


class Router:
    """The listening side; identifies peers by the ids they choose.

    An id belongs to the first peer that uses it. Messages of a second peer with the same id are dropped, so a process
    started by hand beside a run cannot take the place of one of the run.
    """

    def __init__(self, endpoint: str) -> None:
        """Bind to an ipc endpoint, owner-only; raises ChannelError naming the endpoint."""
        self.endpoint = endpoint
        self.socket = _socket(zmq.ROUTER)
        self.socket.router_mandatory = 1
        _listen(self.socket, endpoint)

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        """Return the next message as (peer id, body), or None when none came in time; an id may be any bytes.

        A message of several frames is returned with an empty body, which decodes as no message.
        """
        if not self.socket.poll(timeout_ms, zmq.POLLIN):
            return None
        frames = self.socket.recv_multipart()
        return frames[0].decode("utf-8", "surrogateescape"), frames[1] if len(frames) == _FRAMES else b""

    def send(self, peer: str, body: bytes) -> bool:
        """Send without blocking; False when the peer is gone or its queue is full."""
        try:
            self.socket.send_multipart([peer.encode("utf-8", "surrogateescape"), body], zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    @property
    def fd(self) -> int:
        """Descriptor that becomes readable on activity (edge-triggered: always recv until None)."""
        return int(self.socket.fd)

    def close(self) -> None:
        """Close and remove the socket file."""
        _forsake(self.socket, self.endpoint)


class Dealer:
    """The dialling side, with an id of its own; reconnects by itself."""

    def __init__(self, endpoint: str, identity: str) -> None:
        """Connect; the listener may start later. Raises ChannelError for an invalid endpoint."""
        self.endpoint = endpoint
        self.socket = _socket(zmq.DEALER)
        self.socket.identity = identity.encode()
        self.socket.reconnect_ivl = RECONNECT_MS
        self.socket.reconnect_ivl_max = RECONNECT_MOST_MS
        _dial(self.socket, endpoint)

    def send(self, body: bytes) -> bool:
        """Send without blocking; False when the queue is full or there is no listener yet."""
        try:
            self.socket.send(body, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        """Return the next body, or None when none came in time."""
        if timeout_ms and not self.socket.poll(timeout_ms, zmq.POLLIN):
            return None
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        return frames[0] if len(frames) == 1 else None

    def close(self) -> None:
        """Close; unsent messages are dropped."""
        self.socket.close()


class Push:
    """The sending end of a line to one puller: a new message replaces one that is not sent yet, so nothing queues."""

    def __init__(self, endpoint: str) -> None:
        """Connect; the puller may start later and restart. Raises ChannelError for an invalid endpoint."""
        self.socket = _socket(zmq.PUSH)
        self.socket.conflate = True  # before connect: zmq ignores options set afterwards
        self.socket.reconnect_ivl = RECONNECT_MS
        self.socket.reconnect_ivl_max = RECONNECT_MOST_MS
        _dial(self.socket, endpoint)

    def send(self, body: bytes) -> bool:
        """Send without blocking and without a copy; False when it cannot be taken."""
        try:
            self.socket.send(body, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """Close; an unsent message is dropped."""
        self.socket.close()


class Pull:
    """The listening end for any number of pushers; it cannot reply."""

    def __init__(self, endpoint: str, limit_bytes: int) -> None:
        """Bind, an ipc endpoint owner-only; zmq disconnects a sender of more than ``limit_bytes``, before reading it.

        Not conflating: libzmq 4.3.5 aborts the process when a message of several frames meets a conflating PULL.
        """
        self.endpoint = endpoint
        self.socket = _socket(zmq.PULL)
        self.socket.rcvhwm = 1
        self.socket.maxmsgsize = limit_bytes
        _listen(self.socket, endpoint)

    def recv(self, timeout_ms: int = 0) -> list[bytes] | None:
        """Return the frames of the next message, or None when none came in time; a valid one has a single frame."""
        if not self.socket.poll(timeout_ms, zmq.POLLIN):
            return None
        return self.socket.recv_multipart()

    def close(self) -> None:
        """Close and remove the socket file."""
        _forsake(self.socket, self.endpoint)


class Waiter:
    """Sleeps until the wakeup is signalled, the channel has a message, or the deadline passes."""

    def __init__(self, wakeup: Wakeup | None, channel: Router | Dealer | None) -> None:
        """Watch a wakeup and a channel; None for one that this process does not have."""
        self._wakeup = wakeup
        self._poller = zmq.Poller()
        if wakeup is not None:
            self._poller.register(wakeup.fd, zmq.POLLIN)
        if channel is not None:
            self._poller.register(channel.socket, zmq.POLLIN)

    def wait(self, timeout_ms: int) -> bool:
        """Sleep, and clear the wakeup; returns False when the deadline passed without an event."""
        woken = bool(self._poller.poll(timeout_ms))
        if woken and self._wakeup is not None:
            self._wakeup.clear()
        return woken
