"""A process's keys, and its connections to processes of the run on other machines.

A process makes its keys when it starts and sends the public key to the supervisor over the control socket, which is
already private. The supervisor lists the key in its orders. Each process thus knows the keys of all others, as of the
newest order, and no secret key leaves its process. A process that has died is no longer listed: messages that still
come with its key, for example from a node that the run has given up, are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from actorlearn.address import Ipc, Tcp
from actorlearn.wire.channel import Dealer, Pull, Push, Router, new_pair
from actorlearn.wire.door import ClientKeys, ServerKeys
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint, Order

RUN_BYTES = 16
"""Bytes of the hash of the run's id that messages carry."""


class Endpoints:
    """One process on the network of a run."""

    def __init__(
        self, own: ProcessId, run_id: str, order: Callable[[], Order], tell: Callable[[bytes, Tcp | None], None]
    ) -> None:
        """Make keys and pass the public key to ``tell``; ``order`` returns the newest order."""
        self.own = own
        self.run = hashlib.blake2b(run_id.encode(), digest_size=RUN_BYTES).digest()
        """Hash of the run's id, as messages carry it."""
        self._order, self._tell = order, tell
        self._pair = new_pair()
        self._read, self._names = -1, dict[bytes, str]()
        self._tell(self._pair.public, None)

    def find(self, role: str) -> dict[int, Endpoint]:
        """Return the processes of a role that the newest order lists, by number."""
        return {each.id.number: each for each in self._listed() if each.id.role == role}

    def lists(self, id: ProcessId) -> bool:
        """Whether the newest order lists this incarnation of a process."""
        return any(each.id == id for each in self._listed())

    def pull(self, host: str, limit_bytes: int) -> Pull:
        """Listen for messages of the other processes, at a free port; raises ChannelError."""
        opened = Pull(Tcp(host, 0), limit_bytes, self._keys)
        self._listens(opened.address)
        return opened

    def router(self, host: str, limit_bytes: int) -> Router:
        """Listen for requests of the other processes, at a free port; raises ChannelError."""
        opened = Router(Tcp(host, 0), self._keys, limit_bytes)
        self._listens(opened.address)
        return opened

    def push(self, to: Endpoint) -> Push:
        """Connect to a process that has an address."""
        assert to.address is not None
        return Push(to.address, self._keys_for(to))

    def dealer(self, to: Endpoint, limit_bytes: int) -> Dealer:
        """Connect to a process that has an address and whose answers have at most ``limit_bytes``."""
        assert to.address is not None
        return Dealer(to.address, self.own.socket_id, self._keys_for(to), limit_bytes)

    def _listed(self) -> Sequence[Endpoint]:
        return self._order().endpoints

    @property
    def _keys(self) -> ServerKeys:
        return ServerKeys(self._pair, self._name_of, "no process of the run has this key")

    def _keys_for(self, to: Endpoint) -> ClientKeys:
        return ClientKeys(self._pair, bytes.fromhex(to.key))

    def _listens(self, address: Ipc | Tcp) -> None:
        assert isinstance(address, Tcp)
        self._tell(self._pair.public, address)

    def _name_of(self, public: bytes) -> str | None:
        """Return the id of the process that has a key; None if the newest order does not list the key."""
        order = self._order()
        if order.version != self._read:
            self._names = {bytes.fromhex(each.key): each.id.socket_id for each in order.endpoints}
            self._read = order.version
        return self._names.get(public)
