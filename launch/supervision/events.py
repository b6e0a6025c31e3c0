"""Events of a run, the actions that follow from them, and the console that shows a run to a person.

The supervisor takes events and returns actions. The loop around it (``launch/runtime/loop.py``) collects the events and
carries out the actions. Both are plain data, so a test can replay a whole run from a list. Subclasses of `NodeMessage`
are also sent between the machines of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from msgspec import Meta

from actorlearn.parameters.chosen_checkpoints import Best
from actorlearn.wire.identity import Count, Name
from actorlearn.wire.messages import MOST_NAMES, Member, Reply, Request, Text, ToChild, ToSupervisor
from launch.plan.plan import NodeMessage, PlannedProcess, Start


class OfProcess(NodeMessage, frozen=True):
    """An event or an action of one start (``incarnation``, counted from 0) of a process."""

    name: Name
    incarnation: Count


# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """The run can begin: its memory, sockets and nodes exist. Sent once, before any event of a process."""


@dataclass(frozen=True)
class CannotRun:
    """The run lacks nodes that it needs to begin or to continue."""

    reason: str


class Spawned(OfProcess, frozen=True):
    """A process has been started."""

    pid: int
    member: Member | None = None
    """Of a simulator: the addresses of its shared memory and its wakeup pipe, for its trainer; else None."""
    node: Name = ""
    """Its node; empty in a run on one machine."""


class NotSpawned(OfProcess, frozen=True):
    """A process could not be started."""

    reason: Text
    passing: bool = False
    """Whether a later start may succeed, because a disk or shared memory is full or the spawner was lost."""


class Exited(OfProcess, frozen=True):
    """A process has ended; a negative return code is the signal that ended it."""

    returncode: int


@dataclass(frozen=True)
class Lost:
    """Processes have ended, because their node was lost or their learner moves to another node."""

    node: str
    processes: tuple[tuple[str, int], ...]
    """Name and incarnation of each process that has ended."""
    elsewhere: bool
    """Whether the processes are restarted on another node; otherwise the run continues without their learners."""
    moved_to: str = ""
    """Node on which the learner restarts, which is ``node`` again if the other node has no room any more; empty if
    ``node`` was lost."""


@dataclass(frozen=True)
class Uneven:
    """A learner could move to the node ``to``, which has fewer learners; the supervisor may answer with `Move`."""

    learner: int
    to: str
    why: str
    """Numbers of learners on both nodes, in words."""


class Received(OfProcess, frozen=True):
    """A message from a process."""

    message: ToSupervisor


@dataclass(frozen=True)
class ClientRequest:
    """A request from a command line."""

    client: str
    request: Request


@dataclass(frozen=True)
class Enlarged:
    """The processes that `Enlarge` asked for have been planned, and can be started."""

    client: str
    processes: tuple[PlannedProcess, ...]


@dataclass(frozen=True)
class NotEnlarged:
    """The processes that `Enlarge` asked for cannot be added."""

    client: str
    reason: str


class Silent(OfProcess, frozen=True):
    """A process has shown no sign of life for ``seconds``; ``why``: its activity and its limit, in words."""

    seconds: float
    why: Text
    hangs: bool
    """Whether the process hangs; Stalled follows unless it recovers. Otherwise it is slow."""
    stack: bool
    """Whether the process can write its stack."""


class Stalled(OfProcess, frozen=True):
    """A process hangs: it has shown no sign of life for longer than its limit."""

    seconds: float


@dataclass(frozen=True)
class Tick:
    """Time has passed; sent several times a second."""


@dataclass(frozen=True)
class Interrupted:
    """A signal to stop: SIGINT (Ctrl-C), SIGTERM or SIGHUP. The second SIGINT or SIGTERM ends the run at once."""

    hangup: bool = False


@dataclass(frozen=True)
class Reported:
    """Metrics of the trainers have been written to metrics.jsonl, as the line ``row``."""

    row: Mapping[str, Any]


Event = (
    Begin
    | CannotRun
    | Spawned
    | NotSpawned
    | Exited
    | Lost
    | Uneven
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


class Kill(OfProcess, frozen=True):
    """Send a signal; SIGKILL goes to the whole process group."""

    signal: int


@dataclass(frozen=True)
class Move:
    """Let a learner save and end, and restart it on the node ``to``; the event `Lost` tells that it has ended."""

    learner: int
    to: str


class ShowStack(OfProcess, frozen=True):
    """Let a process write the stack of its threads to its log, below ``heading``."""

    heading: Text


class DropMembers(NodeMessage, frozen=True):
    """Remove the shared memory of these ended simulators, which trainers no longer read."""

    ids: Annotated[list[Name], Meta(max_length=MOST_NAMES)]
    """Socket ids, one for each incarnation."""


class Send(OfProcess, frozen=True):
    """Send a message to a process. It may be lost."""

    message: ToChild


@dataclass(frozen=True)
class Enlarge:
    """Plan more simulators, or whole learners; the event Enlarged or NotEnlarged follows."""

    client: str
    simulators: int
    overrides: tuple[str, ...] = ()
    learners: int = 0
    without: tuple[int, ...] = ()
    """Learners that get no simulators, because they are attached or detached now, or have failed."""


@dataclass(frozen=True)
class Answer:
    """Reply to a command line."""

    client: str
    reply: Reply


@dataclass(frozen=True)
class Note:
    """A line for events.jsonl; most kinds are also shown to a person. An empty ``process`` means the run itself."""

    kind: str
    process: str = ""
    incarnation: int = 0
    cause: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsRow:
    """Metrics that a process has reported, for metrics.jsonl."""

    name: str
    values: Mapping[str, Any]
    learner: bool = True
    """Whether a trainer sent them. The newest metrics of other processes are added to each later row of trainers."""
    incarnation: int = 0


@dataclass(frozen=True)
class NewBest:
    """The run has a new best score, which is to be recorded."""

    best: Best


@dataclass(frozen=True)
class Done:
    """The run is over: finished, stopped or failed. Always the last action."""

    status: str
    exit_code: int
    error: str = ""
    cause: str = ""
    """If a score ended the run before total_steps: this score, in words; else empty."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    lacks_nodes: bool = False
    """Whether it failed only because nodes were missing, so that it can be resumed with others."""
    unscored: bool = False
    """Whether a user's stop ended the run before its evaluators had played the final weights."""


Action = Start | Kill | Move | ShowStack | DropMembers | Send | Enlarge | Answer | Note | MetricsRow | NewBest | Done

# Display --------------------------------------------------------------------------------------------------------------


class Console(Protocol):
    """Display of the run for a person. Every method returns at once."""

    def event(self, note: Note) -> None:
        """Show an event of the run."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Show the metrics of one line of metrics.jsonl."""

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Show the processes: name, role, state, incarnation (restarts), pid, busy (share of time, 0 to 1, or None)."""

    def close(self) -> None:
        """End the display, and release the terminal."""
