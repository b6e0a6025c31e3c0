"""Events of a run, the actions that follow from them, and the console on which a person sees both.

The supervisor takes events and returns actions; the runner produces the events and carries out the actions. Both are
plain data, so a whole run can be written down as a list and replayed in a test. What passes between the head of a run
and its nodes is a `NodeMessage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from actorlearn.wire.identity import Count, Name
from actorlearn.wire.messages import Member, Reply, Request, Text, ToChild, ToSupervisor
from launch.plan.plan import NodeMessage, PlannedProcess, Start

# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """Begin of a run: its memory and sockets are there. Sent once, before any other event."""


@dataclass(frozen=True)
class CannotRun:
    """The run has not the nodes that it needs to begin, or to go on."""

    reason: str


class Spawned(NodeMessage, frozen=True):
    """A process exists; a simulator's with the member that was made for it."""

    name: Name
    incarnation: Count
    pid: int
    member: Member | None = None
    node: Name = ""
    """Its node, where a run has several."""


class NotSpawned(NodeMessage, frozen=True):
    """A process could not be started."""

    name: Name
    incarnation: Count
    reason: Text
    passing: bool = False
    """Whether the cause may pass: a full disk or full shared memory, and no error of the process."""


class Exited(NodeMessage, frozen=True):
    """A process has ended; a negative return code is the signal that ended it."""

    name: Name
    incarnation: Count
    returncode: int


@dataclass(frozen=True)
class Lost:
    """A node has not been heard of for its lease, and its processes are over."""

    node: str
    processes: tuple[tuple[str, int], ...]
    """Name and incarnation of each."""
    elsewhere: bool
    """Whether they are started again, on another node; else their learners are left out."""


class Received(NodeMessage, frozen=True):
    """A message from a child; name and incarnation are those of its socket."""

    name: Name
    incarnation: Count
    message: ToSupervisor


@dataclass(frozen=True)
class ClientRequest:
    """A request from a command line."""

    client: str
    request: Request


@dataclass(frozen=True)
class Enlarged:
    """The plan has new processes, as ``Enlarge`` requested."""

    client: str
    processes: tuple[PlannedProcess, ...]


@dataclass(frozen=True)
class NotEnlarged:
    """The processes that ``Enlarge`` requested cannot be added."""

    client: str
    reason: str


class Silent(NodeMessage, frozen=True):
    """A process has shown no sign of life for a while; ``why``: its activity, and the limit of its silence."""

    name: Name
    incarnation: Count
    seconds: float
    why: Text
    hangs: bool
    """Whether it will be Stalled in a moment; else it is only slow."""
    stack: bool
    """Whether it can write its stack."""


class Stalled(NodeMessage, frozen=True):
    """A process has shown no progress for longer than its limit."""

    name: Name
    incarnation: Count
    seconds: float


@dataclass(frozen=True)
class Tick:
    """Time has passed; several times a second."""


@dataclass(frozen=True)
class Interrupted:
    """Ctrl-C, SIGTERM or SIGHUP. A second one stops the run at once; hang-ups, which accompany others, do not count."""

    hangup: bool = False


@dataclass(frozen=True)
class Reported:
    """A row of the learners has been written to metrics.jsonl."""

    row: Mapping[str, Any]


Event = (
    Begin
    | CannotRun
    | Spawned
    | NotSpawned
    | Exited
    | Lost
    | Received
    | ClientRequest
    | Enlarged
    | NotEnlarged
    | Silent
    | Stalled
    | Tick
    | Interrupted
    | Reported
)

# Actions --------------------------------------------------------------------------------------------------------------


class Kill(NodeMessage, frozen=True):
    """Send a signal; SIGKILL goes to the whole process group."""

    name: Name
    incarnation: Count
    signal: int


class ShowStack(NodeMessage, frozen=True):
    """Have a process write its stack to its log, under this heading."""

    name: Name
    incarnation: Count
    heading: Text


class Send(NodeMessage, frozen=True):
    """Send a message to a child. It may be lost: important ones are sent again until acknowledged."""

    name: Name
    incarnation: Count
    message: ToChild


@dataclass(frozen=True)
class Enlarge:
    """Plan more simulators, or whole learners; answered by Enlarged or NotEnlarged."""

    client: str
    simulators: int
    overrides: tuple[str, ...] = ()
    learners: int = 0


@dataclass(frozen=True)
class Answer:
    """Reply to a command line."""

    client: str
    reply: Reply


@dataclass(frozen=True)
class Note:
    """An event to write to events.jsonl, and mostly to show; an empty ``process`` means the run itself."""

    kind: str
    process: str = ""
    incarnation: int = 0
    cause: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsRow:
    """Part of a row for metrics.jsonl."""

    name: str
    values: Mapping[str, Any]
    learner: bool = True
    """Whether it comes from a trainer; metrics of other processes are added to the rows that follow."""


@dataclass(frozen=True)
class Done:
    """The run is over: finished, stopped or failed. Always the last action."""

    status: str
    exit_code: int
    error: str = ""
    cause: str = ""
    """The score for which it finished before total_steps; empty where none did."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    lacks_nodes: bool = False
    """Whether it has failed for want of nodes alone, so that it goes on with others."""


Action = Start | Kill | ShowStack | Send | Enlarge | Answer | Note | MetricsRow | Done

# Display --------------------------------------------------------------------------------------------------------------


class Console(Protocol):
    """Display of the run for a person. Every method returns at once."""

    def event(self, note: Note) -> None:
        """Called when something happened that a person should know."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Called with every row of metrics.jsonl."""

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Called about twice a second; each has name, role, state, incarnation, pid and busy (0 to 1, or None)."""

    def close(self) -> None:
        """Called once at the end, also after a failure, by the code that made the console."""
