"""The control socket of a node, which receives messages of its processes and requests of command lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

from actorlearn.address import Ipc
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Message, MessageError, Reply, Request, ToSupervisor, brief, decode, encode
from launch.nodes.node import ProtocolWarning
from launch.spawning.spawner import Key
from launch.supervision import events as ev

MOST_MESSAGES = 1000
"""Maximum number of messages read in one turn, so that a flood of messages does not stop the loop."""


class ControlSocket:
    """The socket of a node on which it receives messages of its processes and commands, and answers them."""

    def __init__(self, address: Ipc) -> None:
        """Bind the socket, accessible to its owner only; raises ChannelError."""
        self._router = Router(address)
        self._peers: dict[str, Key] = {}
        """Socket id -> name and incarnation of a living process. All other ids belong to command lines."""

    @property
    def fd(self) -> int:
        """Descriptor that becomes readable when messages arrive."""
        return self._router.fd

    def admit(self, process: ProcessId) -> None:
        """Accept messages of a process that was just started."""
        self._peers |= dict.fromkeys((process.socket_id, process.last_words_id), (process.name, process.incarnation))

    def forget(self, key: Key) -> None:
        """Ignore further messages of a process that has ended; ``key``: its name and number of restarts."""
        self._peers = {peer: own for peer, own in self._peers.items() if own != key}

    def read(self, patience_s: float = 0.0) -> Iterator[ev.Received | ev.ClientRequest | ProtocolWarning]:
        """Yield the messages that have arrived or arrive within ``patience_s`` seconds."""
        deadline_s = time.monotonic() + patience_s
        for _ in range(MOST_MESSAGES):
            received = self._router.recv(max(0, round(1000 * (deadline_s - time.monotonic()))))
            if received is None:
                return
            peer, body = received
            try:
                message = decode(body, "supervisor")
            except MessageError as error:
                text = brief(f"a message from {peer!a} was not understood: {type(error).__name__}: {error}")
                if peer not in self._peers:
                    self.send(peer, Reply(ok=False, text=text))  # a command line waits for it
                yield ProtocolWarning(text)
                continue
            if key := self._peers.get(peer):
                yield ev.Received(*key, cast("ToSupervisor", message))
            elif isinstance(message, Request):
                yield ev.ClientRequest(peer, message)

    def send(self, peer: str, message: Message) -> None:
        """Send a message. It may be lost, but the supervisor repeats orders, and a lost Reply has no reader."""
        self._router.send(peer, encode(message))

    def close(self) -> None:
        """Close and remove the socket."""
        self._router.close()
