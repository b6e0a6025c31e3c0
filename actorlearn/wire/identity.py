"""Identity of a process of a run: one value, from which its name and its id on sockets follow. Nobody parses those.

It travels in settings, in messages and in the plan; names are for people, for files and as keys.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=255)]
"""Name of a process, role, run, command, version or column."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Count of steps, orders or incarnations so far. JSON, and TensorBoard's axis, have room for it."""


class ProcessId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One incarnation of a process of a run."""

    role: Name
    """Name of its role in the table of roles (``worker/roles.py``)."""
    number: Count = 0
    """Number among those of its role. A simulator's tells its random numbers from those of others: it is used once."""
    learner: Count = 0
    """The learner it works for."""
    incarnation: Count = 0
    """Number of times it has been started before."""
    sole: bool = False
    """Whether the run never has another of its role: then it needs no number to be told apart."""

    @property
    def name(self) -> str:
        """Name of all its incarnations."""
        return self.role if self.sole else f"{self.role}-{self.number}"

    @property
    def peer(self) -> str:
        """Its id on every socket."""
        return f"{self.name}.{self.incarnation}"

    @property
    def last_words(self) -> str:
        """Its second id on the control socket, by which it says the error it ends of."""
        return f"{self.peer}.failed"

    def again(self, incarnation: int) -> ProcessId:
        """Another incarnation of the same process."""
        return msgspec.structs.replace(self, incarnation=incarnation)
