"""Addresses: the locations of shared memory, sockets and pipes by which the processes of a run communicate.

An address is a segment of shared memory, a socket or a named pipe of this machine, or a port of any machine. This
module only describes addresses; other modules open them. In a settings file an address is written
``{"by": "shm", "path": "/dev/shm/…"}``.

To add a transport for messages of mode gossip, add a class here and a branch in ``parameters/gossip.py``, which chooses
the mailbox by the class of its address.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, Self, TypeVar

import msgspec
from msgspec import Meta

PATH_BYTES = 107
"""Longest path of a Unix socket, in bytes: Linux allows 108 (``unix(7)``), including the final zero byte."""
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[^]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


class AddressError(ValueError):
    """A text is not an address; the message has the value, the rule and a remedy."""


class _InFolder(msgspec.Struct, frozen=True, tag_field="by", forbid_unknown_fields=True):
    path: str
    """Path of the file."""

    @property
    def file(self) -> Path:
        """The path as a Path."""
        return Path(self.path)

    def numbered(self, number: int) -> Self:
        """Return this address with a number added to the file's name: ``weights`` becomes ``weights-2``."""
        file = self.file
        return msgspec.structs.replace(self, path=str(file.with_name(f"{file.stem}-{number}{file.suffix}")))


class Shm(_InFolder, tag="shm", frozen=True):
    """A segment of shared memory."""


class Pipe(_InFolder, tag="pipe", frozen=True):
    """A named pipe that wakes its reader."""


class Ipc(_InFolder, tag="ipc", frozen=True):
    """A Unix socket, which only processes of the same user can open."""

    @property
    def endpoint(self) -> str:
        """The socket's address in ZeroMQ's notation."""
        return f"ipc://{self.path}"


class Tcp(msgspec.Struct, tag_field="by", tag="tcp", frozen=True, forbid_unknown_fields=True):
    """A port of a machine. Its traffic is always encrypted, and both ends have keys (``wire/door.py``)."""

    host: str
    """IPv4 or IPv6 address. For outgoing connections also a host name."""
    port: Annotated[int, Meta(ge=0, le=65535)]
    """Port; for a listener 0 means any free port."""

    def __post_init__(self) -> None:
        """Raise AddressError if ``host`` is neither an IP address nor a valid host name."""
        if self.ip is None and not _HOST_NAME.fullmatch(self.host):
            raise AddressError(f"{self.host!a:.100}: a host is an IP address or the name of a machine; write 10.0.0.1")

    @classmethod
    def read(cls, text: str) -> Tcp:
        """Read ``HOST:PORT``, where an IPv6 address is in brackets; raises AddressError."""
        found = _HOST_AND_PORT.fullmatch(text)
        if found is None or int(found["port"]) > 65535:
            raise AddressError(f"{text!a:.100}: an address is HOST:PORT; write 10.0.0.1:5555, head:5555 or [::1]:5555")
        return cls(found["six"] if found["host"] is None else found["host"], int(found["port"]))

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as an IP address; None if it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def endpoint(self) -> str:
        """The port's address in ZeroMQ's notation."""
        return f"tcp://{self}"

    def __str__(self) -> str:
        """Return HOST:PORT, the form that ``read`` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


AddressT_co = TypeVar("AddressT_co", bound=_InFolder, covariant=True)


class ByLearner(msgspec.Struct, Generic[AddressT_co], frozen=True, tag_field="by", tag="learner"):
    """Addresses of a resource that each learner has, such as its weights, also of learners that join later."""

    each: AddressT_co
    """Address to whose file name the learner's number is added."""

    def of(self, learner: int) -> AddressT_co:
        """Return the address for one learner."""
        return self.each.numbered(learner)


@dataclass(frozen=True)
class Folders:
    """The folders that contain a run's shared memory, sockets and files."""

    shm: Path
    """Folder of the segments of shared memory, in /dev/shm."""
    sockets: Path
    """Folder of the sockets and named pipes."""
    run_dir: Path
    """The run folder, with logs and checkpoints."""
    host: str = ""
    """Address at which the run's other machines reach this one; empty if there are none."""

    def segment(self, name: str) -> Shm:
        """Return the address of a segment of the run."""
        return Shm(str(self.shm / name))

    def socket(self, name: str) -> Ipc:
        """Return the address of a socket of the run."""
        return Ipc(str(self.sockets / f"{name}.sock"))
