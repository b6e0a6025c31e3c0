"""ZeroMQ sockets between the processes of a run. The only file that imports zmq.

`Router` and `Dealer` carry messages that must arrive. `Pull` and `Push` carry weights, of which only the newest matter,
so messages may be lost. PUB/SUB is not used, because a late subscriber loses messages too. Queues are bounded.

A socket has an ``Ipc`` address, which only processes of its user can reach, or a ``Tcp`` address. On TCP all traffic is
encrypted (CurveZMQ) and both ends have keys; ``wire/door.py`` decides which keys are admitted. A listening socket
answers requests for admission only inside its receiving methods, not in a thread of its own, so these methods must be
called regularly. Heartbeats close connections whose other end has disappeared without closing them.
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
"""Least time in seconds between two attempts to connect to a listener that refused this end.

libzmq itself does not try again after a refusal."""
TCP_CONNECT_MS = 3000
"""Time limit of a connection attempt, after which a new one begins; the kernel's limit can be two minutes."""
HANDSHAKE_MS = 10_000
"""Time limit in milliseconds of a handshake, in which a connection must prove its key."""
HEARTBEAT_MS = 2000
HEARTBEAT_LOST_MS = 6000
"""A connection that receives nothing for this number of milliseconds is closed.

The thread of libzmq sends heartbeats, so a process that is busy also sends them."""
MOST_CONNECTIONS = 512
"""Limit on the connections of a listening socket. While there are more, no new ones are accepted."""
_FRAMES = 2
"""Frames of a message that a Router receives on ipc: the peer's id and the body."""
_MOST_REFUSED = 100
"""Number of consecutive refused messages after which ``recv`` returns, so that no sender can keep it busy."""
_MOST_MONITORED = 100_000
"""Length of a monitor's queue of events; the default is 2000. If it were full, libzmq's thread would block."""
_BACKLOG = 128
_HANDSHAKE_BYTES = 4096
"""Smallest limit on the size of messages on TCP, because the limit also applies to messages of the handshake."""
_SEALED_BYTES = 64
"""Bytes that are added to the limit for the overhead of encryption (CurveZMQ: 33 bytes per frame)."""
_IPV6 = 6
_BPF_RETURN = 0x06  # linux/bpf_common.h
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
_EVENT = struct.Struct("=Hi")
"""First frame of a monitor's message: number of the event, and its value (zmq_socket_monitor)."""
_OPENED_AND_CLOSED = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
_DIALLED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL

_numbers = itertools.count()


class ChannelError(RuntimeError):
    """A socket cannot be opened or connected; the text names the address and a remedy."""


def new_pair() -> Pair:
    """Make a new random pair of keys; raises ChannelError if libzmq was built without CURVE."""
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
    """Set the options of both ends of a TCP connection: keys, heartbeats and time limits."""
    socket.curve_publickey = pair.public
    socket.curve_secretkey = pair.secret
    socket.handshake_ivl = HANDSHAKE_MS
    socket.heartbeat_ivl = HEARTBEAT_MS
    socket.heartbeat_timeout = socket.heartbeat_ttl = HEARTBEAT_LOST_MS
    socket.tcp_keepalive = 1  # for when the kernel's buffer is full, so that no heartbeat can be sent
    socket.tcp_maxrt = HEARTBEAT_LOST_MS


def _bind(socket: zmq.Socket[bytes], address: Ipc | Tcp) -> None:
    """Bind a socket to an ipc address that only its user can open; raises ChannelError if that fails."""
    before = os.umask(0o177)  # the socket file must be 0600 from its first moment
    try:
        socket.bind(address.endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise ChannelError(f"{address.endpoint}: cannot listen: {error}; is another process using it?") from None
    finally:
        os.umask(before)


class _Monitor:
    """Reads the events that libzmq reports about a socket's connections."""

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
        """Return the events since the last call, as pairs of libzmq's event number and value."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                numbers, _endpoint = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return found
            found.append(_EVENT.unpack(numbers))

    def close(self) -> None:
        self._watched.disable_monitor()
        self.socket.close()


class _Guard:
    """Decides which connections a listening TCP socket accepts, and limits their number.

    It has two internal sockets. On one libzmq asks whether a key is admitted (ZAP), and on the other it reports events
    of connections. libzmq has one ZAP endpoint per context, so each listening TCP socket has its own context.
    """

    def __init__(self, door: Door, address: Tcp) -> None:
        """Open the port and then the ZAP endpoint, without which libzmq would admit all keys; `bind` must follow."""
        self.door = door
        self._port = _open_port(address)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.address = Tcp(address.host, self._port.getsockname()[1])
        self._asked: zmq.Socket[bytes] = self.context.socket(zmq.REP)
        self._asked.linger = 0
        self._asked.bind("inproc://zeromq.zap.01")
        self._epoll = select.epoll()
        self._open: set[int] = set()
        """File descriptors of the open connections."""
        self._full = False

    def bind(self, socket: zmq.Socket[bytes]) -> None:
        """Bind the listening socket to the port, with encryption."""
        socket.curve_server = True
        socket.zap_domain = b"actorlearn"
        socket.ipv6 = self._port.family == sockets.AF_INET6
        socket.setsockopt(zmq.USE_FD, os.dup(self._port.fileno()))  # libzmq closes this copy
        self._monitor = _Monitor(socket, self.context, _FAILED | _OPENED_AND_CLOSED)
        socket.bind(self.address.endpoint)
        self.sockets = [self._asked, self._monitor.socket]
        for watched in (socket, *self.sockets):
            self._epoll.register(int(watched.fd), select.EPOLLIN)

    @property
    def fd(self) -> int:
        """File descriptor that becomes readable when one of the three sockets does."""
        return self._epoll.fileno()

    def attend(self) -> None:
        """Answer libzmq's questions whether a key may connect, and count the open connections."""
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
        self._limit_connections()

    def _limit_connections(self) -> None:
        """Make the kernel drop new connections while too many are open; the open ones are not affected."""
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
        """Close the listening socket and the internal sockets, and free the port."""
        self._epoll.close()
        self._monitor.close()
        socket.close()
        self._asked.close()
        self._port.close()
        self.context.term()


def _open_port(address: Tcp) -> sockets.socket:
    """Return a listening TCP socket of the operating system; port 0 means any free port. Raises ChannelError."""
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
    """Return the reason why a handshake failed, for the error number ``value`` of libzmq's monitor."""
    if value == zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC:
        return "a connection was refused: it used the public key of another head"
    if value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
        return "a connection was refused: it used no CURVE keys"
    return "a connection was refused: it ended before it sent a key"


class _Listening:
    """Base of listening sockets. On TCP they check which keys may connect."""

    def __init__(self, kind: int, address: Ipc | Tcp, keys: ServerKeys | None, limit_bytes: int, queue: int) -> None:
        """Listen at an address; raises ChannelError if that fails."""
        self.address = address
        """The address; if its port was 0, with the port that was chosen."""
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
        """File descriptor that becomes readable when something arrives.

        It is edge-triggered: call ``recv`` until it returns None before you wait again.
        """
        return self._guard.fd if self._guard else int(self.socket.fd)

    def refusals(self) -> list[str]:
        """Return messages about refused connections since the last call; an equal message at most once a minute."""
        return self._guard.door.refusals.read() if self._guard else []

    def _receive(self, deadline_s: float) -> tuple[list[bytes], str] | None:
        """Return the frames of the next message and, on TCP, the sender's key in hex; None after the deadline.

        On TCP it also decides about new connections while it waits.
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
        """Close the socket, and remove the file of an ipc address."""
        if self._guard:
            self._guard.close(self.socket)
            return
        self.socket.close()
        if isinstance(self.address, Ipc):
            self.address.file.unlink(missing_ok=True)


ListeningT = TypeVar("ListeningT", bound=_Listening)
Received = TypeVar("Received")


class Router(_Listening):
    """The listening end of connections with messages in both directions; the other ends (peers) are `Dealer` objects.

    A peer chooses its id. The id belongs to the first peer that uses it, and messages of a second one are dropped: a
    process started by hand cannot replace one of the run. On TCP the id must be the name of the peer's key, or begin
    with this name and a slash; messages with another id are dropped.
    """

    def __init__(self, address: Ipc | Tcp, keys: ServerKeys | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        """Listen at an address; a TCP address needs ``keys``. Raises ChannelError if that fails.

        Messages of more than ``limit_bytes`` are refused. zmq disconnects the sender of such a frame.
        """
        super().__init__(zmq.ROUTER, address, keys, limit_bytes, HIGH_WATER_MARK)

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        """Return the peer's id and the body of the next message, or None if none arrives in ``timeout_ms``.

        On ipc an id may be any bytes, and a message of several frames is returned with an empty body, which
        ``messages.decode`` rejects. On TCP a refused message is dropped, and the reason is sent to its sender.
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
        """Send a message without waiting; return False if the peer is not connected or its queue is full."""
        route = self._guard.door.route(peer) if self._guard else peer.encode("utf-8", "surrogateescape")
        return route is not None and self._send(route, body) == 0

    def _connected(self, route: bytes) -> bool:
        """Whether the connection with this route is open; to find out, an empty message is sent, which peers ignore."""
        return self._send(route, b"") != zmq.EHOSTUNREACH

    def _send(self, *frames: bytes) -> int:
        """Send a message; return 0, or zmq's error number if it was not sent."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno or -1
        return 0


class Pull(_Listening):
    """The listening end of connections with messages in one direction; the other ends are `Push` objects."""

    def __init__(self, address: Ipc | Tcp, limit_bytes: int, keys: ServerKeys | None = None) -> None:
        """Listen at an address; a TCP address needs ``keys``. Raises ChannelError if that fails.

        zmq disconnects the sender of more than ``limit_bytes``. The option to keep only the newest message (CONFLATE)
        is not used, because with it libzmq 4.3.5 aborts the process when a message of several frames arrives.
        """
        super().__init__(zmq.PULL, address, keys, limit_bytes, queue=1)

    def recv(self, timeout_ms: int = 0) -> tuple[str, list[bytes]] | None:
        """Return the name of the sender's key and the frames of the next message, or None if none arrives in time.

        A valid message has a single frame. On ipc the name is "". ``timeout_ms``: time to wait.
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
    """A listening TCP socket for other machines, and perhaps a local one, which are used like one socket."""

    def __init__(self, remote: ListeningT, local: ListeningT | None) -> None:
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
        """Return the next message of either socket, or None if none arrives in ``timeout_ms``.

        ``recv`` reads one socket without waiting. The sockets take turns, because a socket admits connections only
        while it is read.
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
        """Return messages about refused connections since the last call; an equal message at most once a minute."""
        return self._remote.refusals()

    def close(self) -> None:
        """Close both sockets, and remove the file of the local one."""
        for each in self._both:
            each.close()


class Routers(_TwoSockets[Router]):
    """A `Router` for processes of other machines, and one for processes of this machine, used like one."""

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        """Return the peer's id and the body of the next message, or None, as ``Router.recv`` does."""
        return self._first(Router.recv, timeout_ms)

    def send(self, peer: str, body: bytes) -> bool:
        """Send a message without waiting; return False if the peer is not connected or its queue is full."""
        return any(each.send(peer, body) for each in self._both)  # a router refuses a peer that it does not have


class Pulls(_TwoSockets[Pull]):
    """A `Pull` for processes of other machines, and one for processes of this machine, used like one."""

    def recv(self, timeout_ms: int = 0) -> tuple[str, list[bytes]] | None:
        """Return the name of the sender's key and the frames of the next message, or None, as ``Pull.recv`` does."""
        return self._first(Pull.recv, timeout_ms)


class Dealer:
    """The connecting end of a connection to a `Router`; messages go in both directions.

    It connects again after a lost connection, and tries again until the listener admits its key.
    """

    def __init__(
        self, address: Ipc | Tcp, identity: str, keys: ClientKeys | None = None, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        """Begin to connect; the listener may start later. Raises ChannelError for an invalid address.

        ``identity`` is the id; on TCP it is the name of the key, or this name, a slash and a word. A listener that
        sends more than ``limit_bytes`` is disconnected.
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
        """Send a message without waiting; return False if the queue is full or, on TCP, there is no connection."""
        try:
            self.socket.send_multipart([*self._before, body], zmq.NOBLOCK)
        except zmq.ZMQError:
            self._look()
            return False
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        """Return the body of the next message, or None if none arrives in ``timeout_ms``."""
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
        """The reason why there is no connection, as a text for the user; None while connected."""
        self._look()
        return self._trouble

    def _look(self) -> None:
        """Read the events of the connection, update `trouble`, and connect again after a refusal."""
        for event, _ in self._monitor.read() if self._monitor else ():
            self._trouble = self._trouble_after(event)
            if event != zmq.EVENT_DISCONNECTED:  # after a refusal this event comes too
                self.answered = bool(event & _FAILED)
            self._refused = bool(event & _FAILED) or (self._refused and event != zmq.EVENT_HANDSHAKE_SUCCEEDED)
        if self._refused and time.monotonic() - self._dialled_s >= REDIAL_S:
            self._refused, self._dialled_s = False, time.monotonic()
            with suppress(zmq.ZMQError):  # libzmq may have dropped the endpoint already
                self.socket.disconnect(self.address.endpoint)
            self.socket.connect(self.address.endpoint)

    def _trouble_after(self, event: int) -> str | None:
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

    def close(self, linger_ms: int = 0) -> None:
        """Close after waiting at most ``linger_ms`` milliseconds for unsent messages; others are dropped."""
        if self._monitor is not None:
            self._monitor.close()
        self.socket.close(linger=linger_ms)


class Push:
    """The connecting end of a connection to a `Pull`; a new message replaces one that has not been sent yet."""

    def __init__(self, address: Ipc | Tcp, keys: ClientKeys | None = None) -> None:
        """Begin to connect; the listener may start later and restart. Raises ChannelError for an invalid address."""
        self.socket = _dialling(zmq.PUSH, address, keys)
        self.socket.conflate = True  # before connect: zmq ignores options set afterwards
        _connect(self.socket, address)
        self.takes = True
        """Whether the last message was queued. After the listener has refused the key, this stays False."""

    def send(self, body: bytes) -> bool:
        """Send a message without waiting and without a copy; return False if it cannot be queued."""
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
    """Return a socket that is ready to be connected; raises ChannelError for a TCP address without keys or port."""
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
    """Begin to connect in the background; raises ChannelError for an invalid address."""
    try:
        socket.connect(address.endpoint)
    except (zmq.ZMQError, ValueError) as error:
        socket.close()
        said = f"{address.endpoint!r:.200}: cannot be reached: {error}"
        raise ChannelError(f"{said}; name a path of 1 to 107 bytes, or HOST:PORT") from None


def _speaks_only_ipv6(address: Tcp) -> bool:
    """Whether the host is an IPv6 address, or a name that has only such addresses; False for an unknown name."""
    if address.ip is not None:
        return address.ip.version == _IPV6
    try:
        found = sockets.getaddrinfo(address.host, address.port, type=sockets.SOCK_STREAM)
    except OSError:
        return False
    return all(family == sockets.AF_INET6 for family, *_ in found)


class Waiter:
    """Sleeps until another process writes to the wakeup pipe, a message arrives, or a timeout has passed."""

    def __init__(self, wakeup: Wakeup | None, dealer: Dealer | None) -> None:
        """Watch a wakeup pipe and a connection; None if this process does not have one."""
        self._wakeup = wakeup
        self._poller = zmq.Poller()
        if wakeup is not None:
            self._poller.register(wakeup.fd, zmq.POLLIN)
        if dealer is not None:
            self._poller.register(dealer.socket, zmq.POLLIN)

    def wait(self, timeout_ms: int) -> bool:
        """Sleep for at most ``timeout_ms`` milliseconds, then empty the pipe; return False if nothing happened."""
        woken = bool(self._poller.poll(timeout_ms))
        if woken and self._wakeup is not None:
            self._wakeup.clear()
        return woken
