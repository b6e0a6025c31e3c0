"""Keys, listeners and nodes for tests of the wire between machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from actorlearn.address import Tcp
from actorlearn.wire.channel import Dealer, Router, new_pair
from actorlearn.wire.door import ClientKeys, Pair, ServerKeys

HERE = Tcp("127.0.0.1", 0)
PATIENCE_S = 15.0


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
    """Send until it is heard, which takes a handshake; None when it never is."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        dealer.send(body)
        if (received := router.recv(20)) is not None:
            return received
    return None


def until(holds: Callable[[], object], turn: Callable[[], object]) -> None:
    """Turn a loop until something holds."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < deadline_s:
        turn()
    assert holds()
