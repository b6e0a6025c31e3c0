"""Addresses: where something that processes share is found. Shared memory, a socket or a named pipe of this machine.

Pure; opens nothing. Mailboxes are opened by the kind of their address (``open_mailbox``), so another kind is one more
class here and one more line there; everything else is a segment or a pipe, as the type of its address says. In settings
an address reads ``{"by": "shm", "path": "/dev/shm/…"}``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

PATH_BYTES = 107
"""Longest path of a socket, in bytes: Linux has room for 108 (``unix(7)``), the last of which is a zero."""


class _InFolder(msgspec.Struct, frozen=True, tag_field="by", forbid_unknown_fields=True):
    path: str
    """Path of the file."""

    @property
    def file(self) -> Path:
        """The path as a Path."""
        return Path(self.path)

    def numbered(self, number: int) -> Self:
        """Return the address beside this one that ends in a number: ``weights-2`` of ``weights``."""
        own = self.file
        return msgspec.structs.replace(self, path=str(own.with_name(f"{own.stem}-{number}{own.suffix}")))


class Shm(_InFolder, tag="shm", frozen=True):
    """A segment of shared memory."""


class Pipe(_InFolder, tag="pipe", frozen=True):
    """A named pipe that wakes its listener."""


class Ipc(_InFolder, tag="ipc", frozen=True):
    """A socket that only its owner's processes reach."""

    @property
    def endpoint(self) -> str:
        """The socket, as ZeroMQ names it."""
        return f"ipc://{self.path}"


AddressT_co = TypeVar("AddressT_co", bound=_InFolder, covariant=True)


class ByLearner(msgspec.Struct, Generic[AddressT_co], frozen=True, tag_field="by", tag="learner"):
    """Addresses of one thing per learner, such as its weights, including learners attached later."""

    each: AddressT_co
    """The address to which a learner's number is added."""

    def of(self, learner: int) -> AddressT_co:
        """Return the address of one learner's."""
        return self.each.numbered(learner)


class Folders(NamedTuple):
    """The folders of a run in which processes find what they share."""

    shm: Path
    sockets: Path
    run_dir: Path

    def segment(self, name: str) -> Shm:
        """Return the address of a segment of the run."""
        return Shm(str(self.shm / name))

    def socket(self, name: str) -> Ipc:
        """Return the address of a socket of the run."""
        return Ipc(str(self.sockets / f"{name}.sock"))

    def wakeup(self, process: str) -> Pipe:
        """Return the address of the wakeup of a process, the same for all its incarnations."""
        return Pipe(str(self.sockets / f"{process}.wakeup"))
