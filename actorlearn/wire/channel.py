"""ZeroMQ sockets with bounded queues and no lingering. The only file that imports zmq.

ROUTER and DEALER with explicit ids carry the messages that must arrive. PUSH and PULL carry weights: a killed puller
loses messages, and only the newest weights matter. PUB/SUB is not used, because a late subscriber loses messages too.
High-water marks, LINGER and mandatory routing are set before bind or connect: zmq ignores them afterwards.

A socket has an ``Ipc`` address, which only processes of its owner can reach, or a ``Tcp`` address. On TCP all traffic
is encrypted (CurveZMQ) and both ends have keys; ``wire/door.py`` decides which keys are admitted. There is no thread
for this: a listening socket answers requests for admission only inside its receiving methods, so these must be called
regularly. Heartbeats close connections whose other end has disappeared without closing them.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import math
import os
import select
import socket as sockets
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from actorlearn.address import Ipc, Tcp
from actorlearn.wire import MINIMUM_LIBZMQ
from actorlearn.wire.door import ClientKeys, Door, Pair, RefusedError, ServerKeys, new_session
from actorlearn.wire.wakeup import Wakeup

HIGH_WATER_MARK = 1000
LIMIT_BYTES = 1 << 20
RECONNECT_MS = 20
RECONNECT_MOST_MS = 200
TCP_RECONNECT_MS = 100
TCP_RECONNECT_MOST_MS = 1000
REDIAL_S = 0.5
"""Shortest time between two attempts to connect to a listener that refused this end. libzmq does not retry then."""
TCP_CONNECT_MS = 3000
"""Time limit of a connection attempt, after which a new one begins; the kernel's limit can be two minutes."""
HANDSHAKE_MS = 10_000
"""Time limit of a handshake. A connection that has not proved its key by then is closed."""
HEARTBEAT_MS = 2000
HEARTBEAT_LOST_MS = 6000
"""A connection that receives nothing for this time is closed. Heartbeats are sent by libzmq's thread, not by ours."""
MOST_CONNECTIONS = 512
"""Limit on the connections of a listening socket. While there are more, no new ones are accepted."""
_FRAMES = 2
"""Frames of a message that a Router receives on ipc: the peer's id and the body."""
_MOST_REFUSED = 100
"""Number of consecutive refused messages after which ``recv`` returns, so that no peer can keep it busy."""
_MOST_MONITORED = 100_000
"""Length of a monitor's queue of events. With a full queue libzmq's thread would block (its default is 2000)."""
_BACKLOG = 128
_HANDSHAKE_BYTES = 4096
"""Least limit on the size of a message on TCP: messages of the handshake are limited like all others."""
_SEALED_BYTES = 64
"""Bytes added to the limit for the overhead of encryption (33 bytes a frame, CurveZMQ)."""
_IPV6 = 6
_BPF_RETURN = 0x06  # linux/bpf_common.h
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
_OPENED_AND_CLOSED = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
_DIALLED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL

_numbers = itertools.count()


class ChannelError(RuntimeError):
    """The socket cannot be made."""


def new_pair() -> Pair:
    """Make a pair of keys from the system's randomness; raises ChannelError where libzmq was built without CURVE."""
    if not zmq.has("curve"):
        raise ChannelError(
            "this libzmq was built without CURVE, which network connections need; run pip install -U pyzmq"
        )
    public, secret = zmq.curve_keypair()
    return Pair(z85.decode(public), z85.decode(secret))


def _socket(kind: int, context: zmq.Context[zmq.Socket[bytes]] | None = None) -> zmq.Socket[bytes]:
    if zmq.zmq_version_info() < MINIMUM_LIBZMQ:
        least = ".".join(map(str, MINIMUM_LIBZMQ))
        raise ChannelError(
            f"libzmq {zmq.zmq_version()} is too old: {least} or newer is needed; run pip install -U pyzmq"
        )
    socket: zmq.Socket[bytes] = (context or zmq.Context.instance()).socket(kind)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = HIGH_WATER_MARK
    socket.maxmsgsize = LIMIT_BYTES
    return socket


def _on_network(socket: zmq.Socket[bytes], pair: Pair) -> None:
    """Set the options that both ends of a TCP connection have in common."""
    socket.curve_publickey = pair.public
    socket.curve_secretkey = pair.secret
    socket.handshake_ivl = HANDSHAKE_MS
    socket.heartbeat_ivl = HEARTBEAT_MS
    socket.heartbeat_timeout = socket.heartbeat_ttl = HEARTBEAT_LOST_MS
    socket.tcp_keepalive = 1  # for when the kernel's buffer is full, so that no heartbeat can be sent
    socket.tcp_maxrt = HEARTBEAT_LOST_MS


def _bind(socket: zmq.Socket[bytes], address: Ipc | Tcp) -> None:
    """Bind a socket to an ipc address that only its owner can open; raises ChannelError naming the endpoint."""
    before = os.umask(0o177)  # the socket file must be 0600 from its first moment
    try:
        socket.bind(address.endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise ChannelError(f"{address.endpoint}: cannot listen: {error}; is another process using it?") from None
    finally:
        os.umask(before)


class _Monitor:
    """Reads the events of a socket's connections that libzmq's thread reports."""

    def __init__(self, watched: zmq.Socket[bytes], context: zmq.Context[zmq.Socket[bytes]], events: int) -> None:
        """Watch a socket that is not bound or connected yet."""
        endpoint = f"inproc://monitor-{next(_numbers)}"
        self._watched = watched
        watched.monitor(endpoint, events)
        self.socket: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self.socket.linger = 0
        self.socket.rcvhwm = _MOST_MONITORED
        self.socket.connect(endpoint)

    def read(self) -> list[tuple[int, int]]:
        """Return the (event, value) pairs since the last call."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                event = parse_monitor_message(self.socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return found
            found.append((int(event["event"]), int(event["value"])))

    def close(self) -> None:
        self._watched.disable_monitor()
        self.socket.close()


class _Guard:
    """Two sockets beside a listening TCP socket: libzmq requests admission (ZAP) on one and reports events on another.

    libzmq has one ZAP endpoint per context, so each listening TCP socket has its own context.
    """

    def __init__(self, door: Door, address: Tcp) -> None:
        """Open the port and bind the ZAP endpoint first: without this endpoint libzmq would admit every key."""
        self.door = door
        self._port = _open_port(address)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.address = Tcp(address.host, self._port.getsockname()[1])
        self._asked: zmq.Socket[bytes] = self.context.socket(zmq.REP)
        self._asked.linger = 0
        self._asked.bind("inproc://zeromq.zap.01")
        self._epoll = select.epoll()
        self._open: set[int] = set()
        """Descriptors of the connections."""
        self._full = False

    def bind(self, socket: zmq.Socket[bytes]) -> None:
        """Bind a socket to the port."""
        socket.curve_server = True
        socket.zap_domain = b"actorlearn"
        socket.ipv6 = self._port.family == sockets.AF_INET6
        socket.setsockopt(zmq.USE_FD, os.dup(self._port.fileno()))  # libzmq closes its own
        self._monitor = _Monitor(socket, self.context, _FAILED | _OPENED_AND_CLOSED)
        socket.bind(self.address.endpoint)
        self.sockets = [self._asked, self._monitor.socket]
        for watched in (socket, *self.sockets):
            self._epoll.register(int(watched.fd), select.EPOLLIN)

    @property
    def fd(self) -> int:
        """Descriptor that becomes readable when the listening socket, or one of these, does."""
        return self._epoll.fileno()

    def attend(self) -> None:
        """Answer libzmq's requests for admission, and count the open connections."""
        while True:
            try:
                request = self._asked.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._asked.send_multipart(self.door.answer(request))
        for event, value in self._monitor.read():
            if event == zmq.EVENT_ACCEPTED:
                self._open.add(value)
            elif event == zmq.EVENT_DISCONNECTED:
                self._open.discard(value)
            elif event == zmq.EVENT_ACCEPT_FAILED:
                self.door.refusals.note(f"a connection could not be accepted: {os.strerror(value)}")
            elif event != zmq.EVENT_HANDSHAKE_FAILED_AUTH:  # `answer` has noted this refusal
                self.door.refusals.note(_refused(value))
        self._bound_connections()

    def _bound_connections(self) -> None:
        """Let the kernel drop new connections while too many are open; the open ones are not affected."""
        full = len(self._open) > (MOST_CONNECTIONS // 2 if self._full else MOST_CONNECTIONS)
        if full == self._full:
            return
        self._full = full
        if full:
            said = (
                f"more than {MOST_CONNECTIONS} connections are open: new ones are dropped until half of them are closed"
            )
            self.door.refusals.note(said)
            keep_nothing = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 0))
            program = struct.pack("HP", 1, ctypes.addressof(keep_nothing))
            with suppress(OSError):  # without socket filters only the limit on file descriptors applies
                self._port.setsockopt(sockets.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        else:
            with suppress(OSError):
                self._port.setsockopt(sockets.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def close(self, socket: zmq.Socket[bytes]) -> None:
        """Close the listening socket and the two sockets beside it, and free the port."""
        self._epoll.close()
        self._monitor.close()
        socket.close()
        self._asked.close()
        self._port.close()
        self.context.term()


def _open_port(address: Tcp) -> sockets.socket:
    """Return a listening socket; port 0 means any free port. Raises ChannelError naming the address."""
    ip = address.ip
    if ip is None:
        raise ChannelError(
            f"{address}: a listener needs an IP address, not a host name; write for example 10.0.0.1:{address.port}"
        )
    port = sockets.socket(sockets.AF_INET6 if ip.version == _IPV6 else sockets.AF_INET, sockets.SOCK_STREAM)
    try:
        port.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        port.setblocking(False)
        port.bind((address.host, address.port))
        port.listen(_BACKLOG)
    except OSError as error:
        port.close()
        way_out = (
            "use port 0 to get a free one" if error.errno == errno.EADDRINUSE else "use an address of this machine"
        )
        raise ChannelError(f"{address}: cannot listen: {error.strerror}; {way_out}") from None
    return port


def _refused(value: int) -> str:
    """Return the reason why a handshake failed, from the error number of libzmq's monitor."""
    if value == zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC:
        return "a connection was refused: it used the public key of another head"
    if value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
        return "a connection was refused: it used no CURVE keys"
    return "a connection was refused: it ended before it sent a key"


class _Listening:
    """A listening socket; on TCP with a door."""

    def __init__(self, kind: int, address: Ipc | Tcp, keys: ServerKeys | None, limit_bytes: int, queue: int) -> None:
        """Bind; raises ChannelError naming the address."""
        self.address = address
        """The address; port 0 is replaced by the port that was chosen."""
        self._guard: _Guard | None = None
        if isinstance(address, Tcp):
            if keys is None:
                raise ChannelError(
                    f"{address}: a listener on a network needs keys, because any machine may connect to it; "
                    "make them with `actorlearn keys new`"
                )
            self._guard = _Guard(Door(keys, limit_bytes), address)
            self.address = self._guard.address
        self.socket = _socket(kind, self._guard.context if self._guard else None)
        self.socket.maxmsgsize = max(limit_bytes, _HANDSHAKE_BYTES) + _SEALED_BYTES if self._guard else limit_bytes
        # On TCP libzmq first puts the user id into the queue. A queue of 1 would then be full and never read (4.3.5).
        self.socket.rcvhwm = queue + 1 if self._guard else queue
        if kind == zmq.ROUTER:
            self.socket.router_mandatory = 1
        if self._guard is None or keys is None:
            _bind(self.socket, address)
        else:
            _on_network(self.socket, keys.pair)
            self._guard.bind(self.socket)
        self._poller = zmq.Poller()
        for source in self.sources:
            self._poller.register(source, zmq.POLLIN)

    @property
    def sources(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll: one of them is readable when a message or an event has arrived."""
        return [self.socket, *(self._guard.sockets if self._guard else ())]

    @property
    def fd(self) -> int:
        """Descriptor that becomes readable on activity (edge-triggered: always recv until None)."""
        return self._guard.fd if self._guard else int(self.socket.fd)

    def refusals(self) -> list[str]:
        """Return the refusals since the last call, one line each; the same line at most once a minute."""
        return self._guard.door.refusals.read() if self._guard else []

    def _receive(self, deadline_s: float) -> tuple[list[bytes], str] | None:
        """Return the frames of the next message and, on TCP, its ZAP user id; None at the deadline.

        On TCP it also answers requests for admission while it waits.
        """
        while True:
            if self._guard:
                self._guard.attend()
            try:
                if self._guard is None:
                    return self.socket.recv_multipart(zmq.NOBLOCK), ""
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
                return [frame.bytes for frame in frames], str(frames[0].get("User-Id"))
            except zmq.Again:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return None
                self._poller.poll(math.ceil(1000 * left_s))

    def close(self) -> None:
        """Close, and remove the socket file."""
        if self._guard:
            self._guard.close(self.socket)
            return
        self.socket.close()
        if isinstance(self.address, Ipc):
            self.address.file.unlink(missing_ok=True)


ListeningT = TypeVar("ListeningT", bound=_Listening)
Received = TypeVar("Received")


class Router(_Listening):
    """The listening side; identifies peers by the ids they choose.

    An id belongs to the first peer that uses it. Messages of a second peer with the same id are dropped, so a process
    started by hand cannot take the place of a process of the run. On TCP a peer's id is the name of its key, or begins
    with that name and a slash; messages with another id are dropped.
    """

    def __init__(self, address: Ipc | Tcp, keys: ServerKeys | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        """Bind; raises ChannelError naming the address. Only the owner can open an ipc address; TCP needs keys.

        A message of more than ``limit_bytes`` is refused; zmq disconnects the sender of such a frame before reading it.
        """
        super().__init__(zmq.ROUTER, address, keys, limit_bytes, HIGH_WATER_MARK)

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        """Return the next message as (peer id, body), or None if none came in time; on ipc an id may be any bytes.

        On ipc a message of several frames is returned with an empty body, which ``decode`` rejects. On TCP a refused
        message is dropped, and the reason is sent to its sender.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        for _ in range(_MOST_REFUSED):
            received = self._receive(deadline_s)
            if received is None:
                return None
            (route, *frames), user_id = received
            if self._guard is None:
                return route.decode("utf-8", "surrogateescape"), frames[0] if len(frames) == 1 else b""
            try:
                return self._guard.door.enter(route, user_id, frames, self._connected)
            except RefusedError as error:
                self._guard.door.refusals.note(str(error))
                self._send(route, b"", str(error).encode())
        return None

    def send(self, peer: str, body: bytes) -> bool:
        """Send without blocking; False when the peer is gone or its queue is full."""
        route = self._guard.door.route(peer) if self._guard else peer.encode("utf-8", "surrogateescape")
        return route is not None and self._send(route, body) == 0

    def _connected(self, route: bytes) -> bool:
        """Whether a connection is still open: sends an empty message, which the peer ignores."""
        return self._send(route, b"") != zmq.EHOSTUNREACH

    def _send(self, *frames: bytes) -> int:
        """Send, and return zmq's error number, or 0."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno or -1
        return 0


class Pull(_Listening):
    """The listening end for any number of pushers; it cannot reply."""

    def __init__(self, address: Ipc | Tcp, limit_bytes: int, keys: ServerKeys | None = None) -> None:
        """Bind; only the owner can open an ipc address. zmq disconnects the sender of more than ``limit_bytes``.

        The socket does not conflate: libzmq 4.3.5 aborts the process if a conflating PULL receives several frames.
        """
        super().__init__(zmq.PULL, address, keys, limit_bytes, queue=1)

    def recv(self, timeout_ms: int = 0) -> tuple[str, list[bytes]] | None:
        """Return the next message as (name of its sender's key, frames), or None if none came in time.

        A valid message has a single frame. On ipc the name is empty.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        for _ in range(_MOST_REFUSED):
            received = self._receive(deadline_s)
            if received is None:
                return None
            frames, user_id = received
            if self._guard is None:
                return "", frames
            try:
                return self._guard.door.sender(user_id, frames), frames
            except RefusedError as error:
                self._guard.door.refusals.note(str(error))
        return None


class _TwoSockets(Generic[ListeningT]):
    """A socket for processes of other machines and, if there is one, a local socket, read as one."""

    def __init__(self, remote: ListeningT, local: ListeningT | None) -> None:
        """Read both from now on."""
        self._remote = remote
        self._both = (remote,) if local is None else (local, remote)
        self._turns = list(self._both)
        """The sockets in the order in which they are read next."""
        self._poller = zmq.Poller()
        for source in self.sources:
            self._poller.register(source, zmq.POLLIN)

    @property
    def sources(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll: one of them is readable when a message or an event has arrived."""
        return [source for each in self._both for source in each.sources]

    def _first(self, recv: Callable[[ListeningT], Received | None], timeout_ms: int) -> Received | None:
        """Return the next message that ``recv`` finds without waiting, or None if none came in time.

        The sockets take turns: a socket that is never read admits nobody, and nobody on it is answered.
        """
        deadline_s = time.monotonic() + timeout_ms / 1000
        while True:
            for each in self._turns:
                if (received := recv(each)) is not None:
                    self._turns = sorted(self._turns, key=lambda other: other is each)
                    return received
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            self._poller.poll(math.ceil(1000 * left_s))

    def refusals(self) -> list[str]:
        """Return the refusals since the last call, one line each; the same line at most once a minute."""
        return self._remote.refusals()

    def close(self) -> None:
        """Close both, and remove the socket file."""
        for each in self._both:
            each.close()


class Routers(_TwoSockets[Router]):
    """The listening side of requests from processes of other machines and of this one."""

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        """Return the next message as (peer id, body), or None if none came in time (``Router.recv``)."""
        return self._first(Router.recv, timeout_ms)

    def send(self, peer: str, body: bytes) -> bool:
        """Send without blocking; False when the peer is gone or its queue is full."""
        return any(each.send(peer, body) for each in self._both)  # a router refuses a peer that it does not have


class Pulls(_TwoSockets[Pull]):
    """The listening end for pushers of other machines and of this one."""

    def recv(self, timeout_ms: int = 0) -> tuple[str, list[bytes]] | None:
        """Return the next message as (name of its sender's key, frames), or None if none came in time."""
        return self._first(Pull.recv, timeout_ms)


class Dealer:
    """The side that connects, with its own id; tries again after a lost link, and until the listener admits its key."""

    def __init__(
        self, address: Ipc | Tcp, identity: str, keys: ClientKeys | None = None, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        """Connect; the listener may start later. Raises ChannelError for an invalid address.

        On TCP ``identity`` is the name of the key, or that name, a slash and a word. A listener that answers with more
        than ``limit_bytes`` is disconnected.
        """
        self.address = address
        self.socket = _dialling(zmq.DEALER, address, keys)
        self.socket.maxmsgsize = max(limit_bytes, _HANDSHAKE_BYTES) + _SEALED_BYTES
        self._before: list[bytes] = []
        """Frames that are sent before the body."""
        self._monitor: _Monitor | None = None
        self._trouble: str | None = None
        self.answered = False
        """True if `trouble` is a refusal by the listener; False if the listener was not reached."""
        self._refused, self._dialled_s = False, time.monotonic()
        if isinstance(address, Tcp):
            self._before = [identity.encode(), new_session()]
            self.socket.immediate = True  # without a connection, send fails instead of queueing the message
            self._trouble = "not connected yet"
            self._monitor = _Monitor(self.socket, zmq.Context.instance(), _FAILED | _DIALLED)
        else:
            self.socket.identity = identity.encode()
        _connect(self.socket, address)

    def send(self, body: bytes) -> bool:
        """Send without blocking; False when the queue is full, or there is no listener yet."""
        try:
            self.socket.send_multipart([*self._before, body], zmq.NOBLOCK)
        except zmq.ZMQError:
            self._look()
            return False
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        """Return the next body, or None if none came in time."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        for _ in range(_MOST_REFUSED):
            left_ms = math.ceil(1000 * (deadline_s - time.monotonic()))
            if left_ms > 0 and not self.socket.poll(left_ms, zmq.POLLIN):
                return None
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return None
            if self._monitor is None:
                return frames[0] if len(frames) == 1 else None
            if len(frames) == 1 and frames[0]:
                return frames[0]
            if len(frames) == _FRAMES and not frames[0]:  # a refusal; a single empty frame only tests the connection
                self._look()
                self._trouble, self.answered = frames[1].decode("utf-8", "replace"), True
        return None

    @property
    def trouble(self) -> str | None:
        """Why the listener cannot be reached or refuses this end, in words; None while connected."""
        self._look()
        return self._trouble

    def _look(self) -> None:
        """Read the connection's events, and connect again after a refusal."""
        for event, value in self._monitor.read() if self._monitor else ():
            self._trouble = self._told(event, value)
            if event != zmq.EVENT_DISCONNECTED:  # it follows a refusal
                self.answered = bool(event & _FAILED)
            self._refused = bool(event & _FAILED) or (self._refused and event != zmq.EVENT_HANDSHAKE_SUCCEEDED)
        if self._refused and time.monotonic() - self._dialled_s >= REDIAL_S:
            self._refused, self._dialled_s = False, time.monotonic()
            with suppress(zmq.ZMQError):  # libzmq may have dropped the endpoint already
                self.socket.disconnect(self.address.endpoint)
            self.socket.connect(self.address.endpoint)

    def _told(self, event: int, value: int) -> str | None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return None
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return f"{self.address} does not accept our key: the key is not on its list, or was revoked"
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return f"the listener at {self.address} is not a head with keys"
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            return f"{self.address} closed the connection: its key is not the one in our key file"
        if event == zmq.EVENT_CLOSED:
            return f"{self.address} cannot be reached: no process listens there, or a firewall blocks it"
        return self._trouble or f"the connection to {self.address} was lost"

    @property
    def sources(self) -> list[zmq.Socket[bytes]]:
        """Sockets to poll: one of them is readable when a message has arrived."""
        return [self.socket]

    def close(self, linger_ms: int = 0) -> None:
        """Close after waiting at most ``linger_ms`` for unsent messages; the rest is dropped."""
        if self._monitor is not None:
            self._monitor.close()
        self.socket.close(linger=linger_ms)


class Push:
    """The sending end of a connection to one puller; a new message replaces one that has not been sent yet."""

    def __init__(self, address: Ipc | Tcp, keys: ClientKeys | None = None) -> None:
        """Connect; the puller may start later and restart. Raises ChannelError for an invalid address."""
        self.socket = _dialling(zmq.PUSH, address, keys)
        self.socket.conflate = True  # before connect: zmq ignores options set afterwards
        _connect(self.socket, address)
        self.takes = True
        """Whether the last message was accepted. There is no reconnection after the puller has refused the key."""

    def send(self, body: bytes) -> bool:
        """Send without blocking and without a copy; False if the message cannot be queued."""
        try:
            self.socket.send(body, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:
            self.takes = False
        else:
            self.takes = True
        return self.takes

    def close(self) -> None:
        """Close; an unsent message is dropped."""
        self.socket.close()


def _dialling(kind: int, address: Ipc | Tcp, keys: ClientKeys | None) -> zmq.Socket[bytes]:
    """Return a socket, not connected yet, for an address; raises ChannelError for a TCP one without keys or port."""
    if not isinstance(address, Tcp):
        socket = _socket(kind)
        socket.reconnect_ivl, socket.reconnect_ivl_max = RECONNECT_MS, RECONNECT_MOST_MS
        return socket
    if keys is None or not address.port:
        lack = "a port from 1 to 65535" if keys else "keys; make them with `actorlearn keys new`"
        raise ChannelError(f"{address}: a connection needs {lack}")
    socket = _socket(kind)
    _on_network(socket, keys.pair)
    socket.curve_serverkey = keys.server
    socket.reconnect_ivl, socket.reconnect_ivl_max = TCP_RECONNECT_MS, TCP_RECONNECT_MOST_MS
    socket.connect_timeout = TCP_CONNECT_MS
    socket.ipv6 = _speaks_only_ipv6(address)
    return socket


def _connect(socket: zmq.Socket[bytes], address: Ipc | Tcp) -> None:
    """Connect, in the background if there is no listener yet; raises ChannelError for an invalid address."""
    try:
        socket.connect(address.endpoint)
    except (zmq.ZMQError, ValueError) as error:
        socket.close()
        said = f"{address.endpoint!r:.200}: cannot be reached: {error}"
        raise ChannelError(f"{said}; name a path of 1 to 107 bytes, or HOST:PORT") from None


def _speaks_only_ipv6(address: Tcp) -> bool:
    """Whether the host is an IPv6 address or a name with only such addresses; False if the name is unknown."""
    if address.ip is not None:
        return address.ip.version == _IPV6
    try:
        found = sockets.getaddrinfo(address.host, address.port, type=sockets.SOCK_STREAM)
    except OSError:
        return False
    return all(family == sockets.AF_INET6 for family, *_ in found)


class Waiter:
    """Sleeps until the wakeup is signalled, the channel has a message, or the deadline passes."""

    def __init__(self, wakeup: Wakeup | None, channel: Router | Dealer | None) -> None:
        """Watch a wakeup and a channel; None for one that this process does not have."""
        self._wakeup = wakeup
        self._poller = zmq.Poller()
        if wakeup is not None:
            self._poller.register(wakeup.fd, zmq.POLLIN)
        for source in channel.sources if channel is not None else ():
            self._poller.register(source, zmq.POLLIN)

    def wait(self, timeout_ms: int) -> bool:
        """Sleep, then clear the wakeup; returns False if ``timeout_ms`` passed without an event."""
        woken = bool(self._poller.poll(timeout_ms))
        if woken and self._wakeup is not None:
            self._wakeup.clear()
        return woken
