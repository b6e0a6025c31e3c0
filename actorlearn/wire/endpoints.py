"""A process's keys, and its connections to processes of the run on other nodes.

A process makes its keys when it starts and sends the public key to the supervisor over the control socket, which is
already private. The supervisor lists the key in its orders. Each process thus knows the keys of all others, as of the
newest order, and no secret key leaves its process. A process that has died is no longer listed: messages that still
come with its key, for example from a node that the run has given up, are refused.

Nodes of one machine that see the same network connect through local sockets, which only their user can open and which
are not encrypted: when 2.7 MB were sent in each direction, encryption and decryption took 7 of 9 ms (Xeon, libzmq
4.3.5). As in a run without nodes, a message on a local socket is accepted by the id that its sender claims.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from actorlearn.address import PATH_BYTES, Ipc, Tcp
from actorlearn.wire.channel import Dealer, Pull, Pulls, Push, Router, Routers, new_pair
from actorlearn.wire.door import ClientKeys, ServerKeys
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint, Listens, LocalSocket, Order

RUN_BYTES = 16
"""Bytes of the hash of the run's id that messages carry."""


class Endpoints:
    """One process on the network of a run."""

    def __init__(
        self,
        own: ProcessId,
        run_id: str,
        order: Callable[[], Order],
        tell: Callable[[Listens], None],
        folder: Path | None = None,
    ) -> None:
        """Make keys and pass the public key to ``tell``; ``order`` returns the newest order.

        ``folder``: a folder that only this user can open, for the local socket; None: there is no local socket.
        """
        self.own = own
        self.run = hashlib.blake2b(run_id.encode(), digest_size=RUN_BYTES).digest()
        """Hash of the run's id, as messages carry it."""
        self._order, self._tell = order, tell
        self._pair = new_pair()
        self._folder, self._machine = folder, machine()
        self._names = -1, dict[bytes, str]()
        """Version of the order that was read last, and the ids in it by public key."""
        self._said = Listens(key=self._pair.public.hex())
        self._tell(self._said)

    def find(self, role: str) -> dict[int, Endpoint]:
        """Return the processes of a role that the newest order lists, by number."""
        return {each.id.number: each for each in self._listed() if each.id.role == role}

    def endpoint(self, id: ProcessId) -> Endpoint | None:
        """Return this incarnation of a process; None if the newest order does not list it."""
        return next((each for each in self._listed() if each.id == id), None)

    def pull(self, host: str, limit_bytes: int) -> Pulls:
        """Listen for messages of the other processes, at a free port; raises ChannelError."""
        remote, local = Pull(Tcp(host, 0), limit_bytes, self._keys), self._local()
        opened = Pulls(remote, Pull(local.address, limit_bytes) if local else None)
        self._listens(remote.address, local)
        return opened

    def router(self, host: str, limit_bytes: int, generation: int = 0) -> Routers:
        """Listen for requests of the other processes, at a free port; raises ChannelError.

        ``generation``: the generation of learners whose hub this is.
        """
        remote, local = Router(Tcp(host, 0), self._keys, limit_bytes), self._local()
        opened = Routers(remote, Router(local.address, limit_bytes=limit_bytes) if local else None)
        self._listens(remote.address, local, generation)
        return opened

    def begin(self, generation: int) -> None:
        """Tell the others that this process takes part in a generation of learners, and in no earlier one."""
        self._listens(None, None, generation)

    def closed_hub(self, generation: int) -> None:
        """Tell the others that the hub of a generation is closed, unless this process has begun a newer one."""
        if self._said.generation == generation:
            self._listens(None, None, generation)

    def push(self, to: Endpoint) -> Push:
        """Connect to a process that has an address."""
        return Push(self._address(to), self._keys_for(to))

    def dealer(self, to: Endpoint, limit_bytes: int) -> Dealer:
        """Connect to a process that has an address and whose answers have at most ``limit_bytes``."""
        return Dealer(self._address(to), self.own.socket_id, self._keys_for(to), limit_bytes)

    def _local(self) -> LocalSocket | None:
        """Return a local socket for this process to listen on, with a name of its own; None without a folder."""
        if self._folder is None:
            return None
        socket = Ipc(str(self._folder / f"{secrets.token_hex(8)}.sock"))
        return LocalSocket(self._machine, socket) if len(os.fsencode(socket.path)) <= PATH_BYTES else None

    def _address(self, to: Endpoint) -> Ipc | Tcp:
        """Return the local socket if this user can open it here; else the address on the network."""
        local = to.local
        if local and local.machine == self._machine and os.access(local.address.file, os.W_OK, effective_ids=True):
            return local.address
        assert to.address is not None
        return to.address

    def _listed(self) -> Sequence[Endpoint]:
        return self._order().endpoints

    @property
    def _keys(self) -> ServerKeys:
        return ServerKeys(self._pair, self._name_of, "no process of the run has this key")

    def _keys_for(self, to: Endpoint) -> ClientKeys:
        return ClientKeys(self._pair, bytes.fromhex(to.key))

    def _listens(self, address: Ipc | Tcp | None, local: LocalSocket | None, generation: int = 0) -> None:
        assert not isinstance(address, Ipc)
        self._said = Listens(key=self._said.key, address=address, local=local, generation=generation)
        self._tell(self._said)

    def _name_of(self, public: bytes) -> str | None:
        """Return the id of the process that has a key; None if the newest order does not list the key."""
        order, (version, names) = self._order(), self._names
        if order.version != version:
            names = {bytes.fromhex(each.key): each.id.socket_id for each in order.endpoints}
            self._names = order.version, names  # at once, as the hubs of two generations may run in two threads
        return names.get(public)


def machine() -> str:
    """Return a mark of this boot of this machine and of the network that this process sees."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    network = os.stat("/proc/self/ns/net").st_ino
    return hashlib.blake2b(f"{boot} {network}".encode(), digest_size=16).hexdigest()
