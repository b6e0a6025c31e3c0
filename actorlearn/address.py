"""Addresses: where something is found that processes share. A file in shared memory, or a socket; of this machine.

Pure. Whoever opens something by its address looks at what kind it is, so another kind is one more case there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec


class _Place(msgspec.Struct, frozen=True, tag_field="by", forbid_unknown_fields=True):
    path: str
    """With ``{}`` where each learner has one: its number."""

    def of(self, learner: int) -> Self:
        """One learner's own."""
        return msgspec.structs.replace(self, path=self.path.replace("{}", str(learner)))


class Shm(_Place, tag="shm", frozen=True):
    """A segment of shared memory."""

    @property
    def file(self) -> Path:
        """The segment's file."""
        return Path(self.path)


class Ipc(_Place, tag="ipc", frozen=True):
    """A socket that only its owner's processes reach."""

    @property
    def endpoint(self) -> str:
        """The socket, as ZeroMQ names it."""
        return f"ipc://{self.path}"


Address = Shm | Ipc
