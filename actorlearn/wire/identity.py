"""Identity of a process of a run. Its name and its ids on sockets are derived from it and are never parsed.

Settings, messages and the plan contain the identity; names are for people, for files and for use as keys.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=255)]
"""Name of a process, role, run, command, version or column."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""Count of steps, orders or incarnations so far. JSON and TensorBoard's axis represent numbers up to 2**53 exactly."""


class ProcessId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One incarnation (start) of a process of a run."""

    role: Name
    """Name of the role, such as trainer or simulator."""
    number: Count = 0
    """Number among the processes of its role. Simulators never reuse one, because it determines the random seed."""
    learner: Count = 0
    """Number of the learner that the process belongs to."""
    incarnation: Count = 0
    """How often the process was started before."""
    sole: bool = False
    """Whether the run can only have one process of this role. Its name then has no number."""

    @property
    def name(self) -> str:
        """Name of the process, the same for all its incarnations."""
        return self.role if self.sole else f"{self.role}-{self.number}"

    @property
    def socket_id(self) -> str:
        """Id of this incarnation on every socket."""
        return f"{self.name}.{self.incarnation}"

    @property
    def last_words_id(self) -> str:
        """Second id on the control socket, by which this incarnation reports the error it exits with."""
        return f"{self.socket_id}.failed"

    def again(self, incarnation: int) -> ProcessId:
        """Return another incarnation of the same process."""
        return msgspec.structs.replace(self, incarnation=incarnation)


def trainer_id(learner: int, sole: bool = False) -> ProcessId:
    """Return the first incarnation of a learner's trainer; ``sole``: the run never has another learner."""
    return ProcessId("trainer", learner, learner, sole=sole)
