"""A child's line to the supervisor: hello, orders in, reports out.

The supervisor's Order is the whole wanted state, repeated until it is Applied; reports wait here until the supervisor
reads them. A child that has lost its supervisor is killed by the kernel (``processes/__main__.py``), not from here.
"""

from __future__ import annotations

from collections.abc import Mapping

from actorlearn import __version__
from actorlearn.address import Ipc, Tcp
from actorlearn.wire.channel import Dealer
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    PROTOCOL_VERSION,
    Applied,
    Failed,
    Finished,
    Hello,
    Listens,
    Message,
    Order,
    Refused,
    Warned,
    brief,
    decode,
    encode,
)


class TurnedAwayError(RuntimeError):
    """The supervisor refused this process; the text says why, with both values."""


class Control:
    """The child side of the control socket. Without an address (started by hand) it sends and receives nothing."""

    def __init__(self, address: Ipc | None, own: ProcessId, run_id: str, *, last_words: bool = False) -> None:
        """Connect as this process; ``last_words``: with its second id, as its first socket may still be open."""
        self.id = own
        self.run_id = run_id
        self.order = Order(version=0)
        """The newest order received; a child acts on it and then calls ``applied``."""
        self.dealer = Dealer(address, own.last_words_id if last_words else own.socket_id) if address else None
        self.applied_version = 0

    def hello(self, pid: int, shape: dict[str, str] | None = None) -> None:
        """Announce this process to the supervisor as ready to work."""
        self.send(
            Hello(
                id=self.id,
                pid=pid,
                run_id=self.run_id,
                protocol=PROTOCOL_VERSION,
                version=__version__,
                shape=shape or {},
            )
        )

    def listens(self, key: bytes, address: Tcp | None) -> None:
        """Tell the supervisor this process's public key, and where other machines reach it."""
        self.send(Listens(key=key.hex(), address=address))

    def send(self, message: Message) -> None:
        """Send a message to the supervisor."""
        if self.dealer is not None:
            self.dealer.send(encode(message))

    def poll(self) -> None:
        """Read all messages that have arrived; ``order`` is then the newest. Raises TurnedAwayError."""
        while self.dealer is not None and (data := self.dealer.recv()) is not None:
            message = decode(data, "child")
            if isinstance(message, Refused):
                raise TurnedAwayError(message.reason)
            if isinstance(message, Order) and message.version >= self.order.version:
                self.order = message
                if message.version == self.applied_version:
                    self._acknowledge()  # the acknowledgement was lost; once more

    @property
    def ordered(self) -> bool:
        """Whether there is an order that has not been put into effect."""
        return self.order.version > self.applied_version

    def applied(self, order: Order | None = None) -> None:
        """Report ``order`` (default: the newest) as put into effect; a newer one may have arrived meanwhile."""
        self.applied_version = (order or self.order).version
        self._acknowledge()

    def _acknowledge(self) -> None:
        self.send(Applied(order=self.applied_version))

    def failed(self, error: str) -> None:
        """Report the error that this process is about to exit with."""
        self.send(Failed(error=brief(error)))

    def warned(self, text: str) -> None:
        """Report a problem to the user that does not stop this process."""
        self.send(Warned(text=brief(text)))

    def finished(self, reason: str, summary: Mapping[str, float | int | str | None] | None = None) -> None:
        """Report that this process has completed its work and is about to exit 0."""
        self.send(Finished(reason=reason, summary=dict(summary or {})))

    def close(self, linger_ms: int = 2000) -> None:
        """Close, waiting at most ``linger_ms`` for unsent messages."""
        if self.dealer is not None:
            self.dealer.close(linger_ms)
