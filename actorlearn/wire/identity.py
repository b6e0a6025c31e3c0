"""The identity of a process of a run, from which its name and its ids on sockets are made.

Settings and messages contain the identity itself, so names are never parsed. Names are for people, files and keys.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=255)]
"""Name of a process, role, run, command, version or column."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Count of steps, orders or restarts so far. JSON and TensorBoard's axis represent numbers up to 2**53 exactly."""


class ProcessId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Identity of a process of a run, from one start of it to its end (one *incarnation*)."""

    role: Name
    """Name of the role, such as trainer or simulator."""
    number: Count = 0
    """Number among the processes of its role. No two simulators have the same, because it determines random seeds."""
    learner: Count = 0
    """Number of the learner to which the process belongs."""
    incarnation: Count = 0
    """How often the process was started before."""
    sole: bool = False
    """Whether the run can only have one process of this role, whose name then has no number."""

    @property
    def name(self) -> str:
        """Name of the process, which stays the same when it is restarted."""
        return self.role if self.sole else f"{self.role}-{self.number}"

    @property
    def socket_id(self) -> str:
        """Id of the process on every socket; it changes with each restart."""
        return f"{self.name}.{self.incarnation}"

    @property
    def last_words_id(self) -> str:
        """Second id on the control socket, by which the process reports the error with which it exits."""
        return f"{self.socket_id}.failed"

    def again(self, incarnation: int) -> ProcessId:
        """Return the identity of the same process after ``incarnation`` restarts."""
        return msgspec.structs.replace(self, incarnation=incarnation)


def trainer_id(learner: int, sole: bool = False) -> ProcessId:
    """Return the identity of a learner's trainer at its first start; ``sole``: the run never has another learner."""
    return ProcessId("trainer", learner, learner, sole=sole)
