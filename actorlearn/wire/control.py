"""The child's side of the control socket, by which each process of a run communicates with the supervisor.

The child sends Hello and reports, which are queued until the supervisor reads them. It receives orders, which say what
it should do (``wire/messages.py``). If the supervisor dies, the run's guardian kills the child.
"""

from __future__ import annotations

from collections.abc import Mapping

from actorlearn import __version__
from actorlearn.address import Ipc
from actorlearn.wire.channel import Dealer
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import (
    PROTOCOL_VERSION,
    Applied,
    Failed,
    Finished,
    Hello,
    Message,
    Order,
    Refused,
    Warned,
    brief,
    decode,
    encode,
)


class TurnedAwayError(RuntimeError):
    """The supervisor refused this process; the text is the reason, with the values that differ."""


class Control:
    """A process's connection to the supervisor: sends reports, and receives what the process should do.

    A process that was started by hand has no address of a supervisor; it sends and receives nothing.
    """

    def __init__(self, address: Ipc | None, own: ProcessId, run_id: str, *, last_words: bool = False) -> None:
        """Connect to the supervisor as the process ``own``.

        With ``last_words`` the process uses its second id, by which it reports the error of which it dies, because its
        socket with the first id may still be open.
        """
        self.id = own
        self.run_id = run_id
        self.order = Order(version=0)
        """The newest order that has arrived."""
        self.dealer = Dealer(address, own.last_words_id if last_words else own.socket_id) if address else None
        self.applied_version = 0
        self.folder = address.file.parent if address else None
        """Folder of the run's sockets on this machine, which only its user can open."""

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

    def send(self, message: Message) -> None:
        """Send a message to the supervisor."""
        if self.dealer is not None:
            self.dealer.send(encode(message))

    def poll(self) -> None:
        """Read all messages that have arrived, and update ``order``, the newest `Order` of the supervisor.

        Raises TurnedAwayError if the supervisor has refused this process.
        """
        while self.dealer is not None and (data := self.dealer.recv()) is not None:
            message = decode(data, "child")
            if isinstance(message, Refused):
                raise TurnedAwayError(message.reason)
            if isinstance(message, Order) and message.version >= self.order.version:
                self.order = message
                if message.version == self.applied_version:
                    self._acknowledge()  # a repeated order: the acknowledgement was lost

    @property
    def ordered(self) -> bool:
        """Whether the supervisor's newest `Order` has not been carried out yet."""
        return self.order.version > self.applied_version

    def applied(self, order: Order | None = None) -> None:
        """Report that this process has done what ``order``, a message of the supervisor, says; None: the newest one."""
        self.applied_version = (order or self.order).version
        self._acknowledge()

    def _acknowledge(self) -> None:
        self.send(Applied(order=self.applied_version))

    def failed(self, error: str) -> None:
        """Report the error with which this process is about to exit."""
        self.send(Failed(error=brief(error)))

    def warned(self, text: str) -> None:
        """Report a problem that does not stop this process, for the user."""
        self.send(Warned(text=brief(text)))

    def finished(self, reason: str, summary: Mapping[str, float | int | str | None] | None = None) -> None:
        """Report that this process has completed its work and is about to exit 0."""
        self.send(Finished(reason=reason, summary=dict(summary or {})))

    def close(self, linger_ms: int = 2000) -> None:
        """Close the socket, after waiting at most ``linger_ms`` milliseconds for unsent messages."""
        if self.dealer is not None:
            self.dealer.close(linger_ms)
