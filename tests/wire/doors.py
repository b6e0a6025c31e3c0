"""Keys, listeners and nodes for tests of the wire between machines."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

from actorlearn.address import Tcp
from actorlearn.wire.channel import Dealer, Router, new_pair
from actorlearn.wire.door import ClientKeys, Pair, ServerKeys

HERE = Tcp("127.0.0.1", 0)
PATIENCE_S = 30.0


@dataclass
class Keys:
    """A head's keys and its list."""

    pair: Pair = field(default_factory=new_pair)
    names: dict[bytes, str] = field(default_factory=dict)

    @property
    def server(self) -> ServerKeys:
        """The keys to listen with."""
        return ServerKeys(self.pair, self.names.get)

    def node(self, name: str) -> ClientKeys:
        """Keys of a new node that is on the list."""
        pair = new_pair()
        self.names[pair.public] = name
        return ClientKeys(pair, self.pair.public)

    def stranger(self) -> ClientKeys:
        """Keys of somebody who is not."""
        return ClientKeys(new_pair(), self.pair.public)


def heard(router: Router, dealer: Dealer, body: bytes) -> tuple[str, bytes] | None:
    """Send until it is heard, which takes a handshake, and read what was sent again; None when it never is."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        dealer.send(body)
        if (received := router.recv(20)) is not None:
            while router.recv(50) is not None:
                pass
            return received
    return None


def until(holds: Callable[[], object], turn: Callable[[], object] = lambda: time.sleep(0.002)) -> None:
    """Turn a loop until something holds."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, "it never came"
        turn()


class Relay:
    """Passes the bytes of connections on to an address, or holds them back while ``passes`` is clear."""

    def __init__(self, to: Tcp) -> None:
        """Listen at a port of its own."""
        self._to = to
        self._listening = socket.create_server((HERE.host, 0))
        self.address = Tcp(HERE.host, self._listening.getsockname()[1])
        self.passes = threading.Event()
        self.passes.set()
        self.recorded = bytearray()
        """Bytes of those who dial, before they are passed on."""
        self._sockets = [self._listening]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Relay:
        """Begin."""
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all connections."""
        self.passes.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """End all connections that there are now; what they carried is lost."""
        for each in self._sockets[1:]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                self._sockets.append(one)
                other = socket.create_connection((self._to.host, self._to.port))
                self._sockets.append(other)
                self._start(lambda one=one, other=other: self._pass(one, other, self.recorded))
                self._start(lambda one=one, other=other: self._pass(other, one))

    def _pass(self, one: socket.socket, other: socket.socket, record: bytearray | None = None) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if record is not None:
                    record += data
                self.passes.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
