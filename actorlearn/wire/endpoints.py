"""A process's keys, and its connections to processes of the run on other nodes.

A process makes a pair of keys when it starts, and sends the public key to the supervisor over the control socket, which
is private already. The supervisor sends the public keys of all processes to each process, in messages of the type
`Order`. No secret key leaves its process. A process that has died is no longer listed. Messages that still arrive with
its key, for example from a node that the run has given up, are refused.

Processes on one machine that see the same network connect through local sockets, which only their user can open, and
which are not encrypted. The reason is speed: for 2.7 MB in each direction, encryption and decryption took 7 of 9 ms
(Xeon, libzmq 4.3.5). On a local socket, as in a run without nodes, a sender is known only by the id that it claims.
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
    """The keys of this process, and its sockets to other processes of the run."""

    def __init__(
        self,
        own: ProcessId,
        run_id: str,
        order: Callable[[], Order],
        tell: Callable[[Listens], None],
        folder: Path | None = None,
    ) -> None:
        """Make a pair of keys, and report the public key by ``tell``, which sends a message to the supervisor.

        ``order`` returns the newest `Order` of the supervisor. ``folder``: a folder that only this user can open, for
        local sockets; None: there are no local sockets.
        """
        self.own = own
        self.run = hashlib.blake2b(run_id.encode(), digest_size=RUN_BYTES).digest()
        """Hash of the run's id, which messages contain."""
        self._order, self._tell = order, tell
        self._pair = new_pair()
        self._folder, self._machine = folder, machine()
        self._names = -1, dict[bytes, str]()
        """Version of the newest `Order` that was read, and the ids of its processes by public key."""
        self._said = Listens(key=self._pair.public.hex())
        self._tell(self._said)

    def find(self, role: str) -> dict[int, Endpoint]:
        """Return the keys and addresses of the processes of a role, by their numbers, from the newest `Order`."""
        return {each.id.number: each for each in self._listed() if each.id.role == role}

    def endpoint(self, id: ProcessId) -> Endpoint | None:
        """Return key and addresses of a process; None if the newest `Order` does not list it, or after a restart."""
        return next((each for each in self._listed() if each.id == id), None)

    def pull(self, host: str, limit_bytes: int) -> Pulls:
        """Open a socket for messages that need no answer, on a free port of ``host``, and report its address.

        Raises ChannelError if that fails.
        """
        remote, local = Pull(Tcp(host, 0), limit_bytes, self._keys), self._local()
        opened = Pulls(remote, Pull(local.address, limit_bytes) if local else None)
        self._listens(remote.address, local)
        return opened

    def router(self, host: str, limit_bytes: int, generation: int = 0) -> Routers:
        """Open a socket for requests of other processes, on a free port of ``host``, and report its address.

        ``generation``: number of the group of learners (`Order.generation`) that exchange through this socket in mode
        sync. Raises ChannelError if the socket cannot be opened.
        """
        remote, local = Router(Tcp(host, 0), self._keys, limit_bytes), self._local()
        opened = Routers(remote, Router(local.address, limit_bytes=limit_bytes) if local else None)
        self._listens(remote.address, local, generation)
        return opened

    def begin(self, generation: int) -> None:
        """Report that this learner, in mode sync, now exchanges only with the learners of this `Order.generation`."""
        self._listens(None, None, generation)

    def closed_hub(self, generation: int) -> None:
        """Report that the socket that `router` opened for this generation is closed, unless a newer one is open."""
        if self._said.generation == generation:
            self._listens(None, None, generation)

    def push(self, to: Endpoint) -> Push:
        """Connect to a process that has an address, to send messages without answers."""
        return Push(self._address(to), self._keys_for(to))

    def dealer(self, to: Endpoint, limit_bytes: int) -> Dealer:
        """Connect to a process that has an address, to send requests; its answers have at most ``limit_bytes``."""
        return Dealer(self._address(to), self.own.socket_id, self._keys_for(to), limit_bytes)

    def _local(self) -> LocalSocket | None:
        """Return a new address for a local socket; None if there is no folder, or if the path would be too long."""
        if self._folder is None:
            return None
        socket = Ipc(str(self._folder / f"{secrets.token_hex(8)}.sock"))
        return LocalSocket(self._machine, socket) if len(os.fsencode(socket.path)) <= PATH_BYTES else None

    def _address(self, to: Endpoint) -> Ipc | Tcp:
        """Return the local address of a process if this process can open it, else its address on the network."""
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
        """Return the id of the process with a public key; None if the newest `Order` does not list the key."""
        order, (version, names) = self._order(), self._names
        if order.version != version:
            names = {bytes.fromhex(each.key): each.id.socket_id for each in order.endpoints}
            self._names = order.version, names  # one assignment, because two threads may read it
        return names.get(public)


def machine() -> str:
    """Return an identifier of this machine, of its present boot, and of the network namespace of this process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    network = os.stat("/proc/self/ns/net").st_ino
    return hashlib.blake2b(f"{boot} {network}".encode(), digest_size=16).hexdigest()
