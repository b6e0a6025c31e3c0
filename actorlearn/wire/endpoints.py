"""A process's part of a run's network: its own pair of keys, and how it reaches the processes of other machines.

A process makes its keys when it begins, and tells the supervisor the public one over a line that is private already;
the supervisor lists it in its orders. So each process of a run knows the keys of all others, as of the newest order,
and no secret key ever leaves its process. A process that has died is no longer listed: whatever still speaks with its
key, such as a process of a node that was given up, is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from actorlearn.address import Ipc, Tcp
from actorlearn.wire.channel import Dealer, Pull, Push, Router, new_pair
from actorlearn.wire.door import ClientKeys, ServerKeys
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint, Order

RUN_BYTES = 16
"""Bytes by which a message names its run."""


class Endpoints:
    """One process on the network of a run."""

    def __init__(
        self, own: ProcessId, run_id: str, order: Callable[[], Order], tell: Callable[[bytes, Tcp | None], None]
    ) -> None:
        """Make keys, and ``tell`` the public one; ``order`` returns the newest order."""
        self.own = own
        self.run = hashlib.blake2b(run_id.encode(), digest_size=RUN_BYTES).digest()
        """The run, as messages name it."""
        self._order, self._tell = order, tell
        self._pair = new_pair()
        self._read, self._names = -1, dict[bytes, str]()
        self._tell(self._pair.public, None)

    def find(self, role: str) -> dict[int, Endpoint]:
        """Return the processes of a role that are on the network now, by number."""
        return {each.id.number: each for each in self._listed() if each.id.role == role}

    def lists(self, id: ProcessId) -> bool:
        """Whether this incarnation of a process is on the network now."""
        return any(each.id == id for each in self._listed())

    def pull(self, host: str, limit_bytes: int) -> Pull:
        """Listen for messages of all others, at a free port; raises ChannelError."""
        opened = Pull(Tcp(host, 0), limit_bytes, self._keys)
        self._listens(opened.address)
        return opened

    def router(self, host: str, limit_bytes: int) -> Router:
        """Listen for requests of all others, at a free port; raises ChannelError."""
        opened = Router(Tcp(host, 0), self._keys, limit_bytes)
        self._listens(opened.address)
        return opened

    def push(self, to: Endpoint) -> Push:
        """Dial a process that has an address."""
        assert to.address is not None
        return Push(to.address, self._keys_for(to))

    def dealer(self, to: Endpoint, limit_bytes: int) -> Dealer:
        """Dial a process that has an address, and whose answers have at most so many bytes."""
        assert to.address is not None
        return Dealer(to.address, self.own.socket_id, self._keys_for(to), limit_bytes)

    def _listed(self) -> Sequence[Endpoint]:
        return self._order().endpoints

    @property
    def _keys(self) -> ServerKeys:
        return ServerKeys(self._pair, self._name_of, "the run lists no process with it")

    def _keys_for(self, to: Endpoint) -> ClientKeys:
        return ClientKeys(self._pair, bytes.fromhex(to.key))

    def _listens(self, address: Ipc | Tcp) -> None:
        assert isinstance(address, Tcp)
        self._tell(self._pair.public, address)

    def _name_of(self, public: bytes) -> str | None:
        """Return the id of the process that has a key; None for a key that is not, or no longer, of this run."""
        order = self._order()
        if order.version != self._read:
            self._names = names_of(order.endpoints)
            self._read = order.version
        return self._names.get(public)


def names_of(endpoints: Iterable[Endpoint]) -> dict[bytes, str]:
    """Return the ids of processes by their public keys."""
    return {bytes.fromhex(each.key): each.id.socket_id for each in endpoints}
