"""Who a process of a run is: one value, from which its name and its id on sockets follow. Nobody reads them back.

It travels in settings, in messages and in the plan; names are for people, for files and as keys.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=255)]
"""Of a process, role, run, command, version or column."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Of what there has been so far: steps, orders, incarnations. JSON, and TensorBoard's axis, have room for it."""


class ProcessId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One incarnation of a process of a run."""

    role: Name
    """As the table of roles has it (``worker/roles.py``)."""
    number: Count = 0
    """Among those of its role. A simulator's tells its random numbers from those of others: it is used only once."""
    learner: Count = 0
    """The learner it works for."""
    incarnation: Count = 0
    """How often it has been started before."""
    sole: bool = False
    """Whether the run never has another of its role: then it needs no number to be told apart."""

    @property
    def name(self) -> str:
        """What all its incarnations are called."""
        return self.role if self.sole else f"{self.role}-{self.number}"

    @property
    def peer(self) -> str:
        """Its id on every socket."""
        return f"{self.name}.{self.incarnation}"

    @property
    def last_words(self) -> str:
        """Its second id on the control socket, by which it says what it ends of."""
        return f"{self.peer}.failed"

    def again(self, incarnation: int) -> ProcessId:
        """Another incarnation of the same process."""
        return msgspec.structs.replace(self, incarnation=incarnation)
