"""A *child*: one process of the run as the supervisor sees it, with its state and its limits on restarts.

The process may be started several times; each start is a new *incarnation*, numbered from 0. A child is *admitted* when
the supervisor has accepted its first message, Hello. It is *given up*, and not started again, in state FATAL. The
module uses no clock, processes, sockets or files; callers pass the time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Endpoint, Listens, Member
from actorlearn.worker.roles import RoleSpec
from launch.plan.plan import PlannedProcess
from launch.topology.schema import BUDGET, Budget

Jitter = Callable[[str, int], float]
"""(name, incarnation) -> factor by which the delay before the next incarnation is multiplied."""


class ChildState(StrEnum):
    """State of a child, from its first start to its end."""

    BACKOFF = "backoff"
    """The child has no process, and is started when its delay is over. Also the state before the first start."""
    STARTING = "starting"
    """The start of the process was requested; its Hello has not arrived yet."""
    RUNNING = "running"
    """The Hello of the process was accepted."""
    DRAINING = "draining"
    """The process is expected to exit: it has sent Finished, or was told to end."""
    EXITED = "exited"
    """The process has ended, and is not restarted."""
    FATAL = "fatal"
    """The child was given up after an error: it is not started again."""


_BACKOFF, _STARTING, _RUNNING, _DRAINING, _EXITED, _FATAL = ChildState
TRANSITIONS: dict[ChildState, frozenset[ChildState]] = {
    # The comment above an entry names the events that lead to the entry's states, in their order.
    # its delay is over | the run ends | its node is lost and nodes.lost: leave out forbids another one
    _BACKOFF: frozenset({_STARTING, _EXITED, _FATAL}),
    # its Hello is accepted | it dies | it is refused or told to end | it cannot be started | it dies while the run ends
    _STARTING: frozenset({_RUNNING, _BACKOFF, _DRAINING, _FATAL, _EXITED}),
    # it dies | it finishes or is told to end | it dies too often | it dies while the run drains
    _RUNNING: frozenset({_BACKOFF, _DRAINING, _FATAL, _EXITED}),
    # it ends | it was refused and ends | it ends, but the run still needs it, as after a move to another node
    _DRAINING: frozenset({_EXITED, _FATAL, _BACKOFF}),
    _EXITED: frozenset(),
    _FATAL: frozenset(),
}

ALIVE = frozenset({_STARTING, _RUNNING, _DRAINING})
"""States in which a child has a process, or its start was requested."""


class TransitionError(RuntimeError):
    """A change of state that is not in ``TRANSITIONS``; this is an error in the supervisor, never in a child."""


def spread(name: str, incarnation: int) -> float:
    """Return a deterministic factor from 0.8 to 1.2, so that children that died together restart at different times."""
    return 0.8 + 0.4 * (zlib.crc32(f"{name}.{incarnation}".encode()) / 0xFFFFFFFF)


def cause_of(returncode: int) -> str:
    """Return a return code as a cause of death: "signal 9" or "exit 1"."""
    return f"signal {-returncode}" if returncode < 0 else f"exit {returncode}"


@dataclass
class Child:
    """One process of the run: its present state, and what is known of its starts so far."""

    planned: PlannedProcess
    attaching: bool = False
    """Whether it was started by an attach request and is not yet admitted."""
    with_trainer: str = ""
    """Name of its learner's trainer, if both were attached together, or the trainer was detached and has ended."""
    budget: Budget = BUDGET
    """Limits on the number of restarts, and the delays before them."""
    state: ChildState = ChildState.BACKOFF
    incarnation: int = -1
    since_s: float = 0.0
    """Time of its last change of state, in seconds; in BACKOFF, the time of its next start."""
    pid: int | None = None
    member: Member | None = None
    node: str = ""
    """Node on which the child was last started; empty in a run on one machine."""
    ever_said_hello: bool = False
    """Whether the Hello of any incarnation was accepted."""
    admitted: bool = False
    """Whether its process was admitted and has not ended."""
    listens: Listens | None = None
    """Its public key and address on the network, once received; None on one machine."""
    applied: int = 0
    """Version of the newest `Order`, the wanted state of the run, that its process has applied."""
    sent_s: float = 0.0
    """Time at which the `Order` was last sent to it, in seconds."""
    silence: str = ""
    """Newest report of its silence, which explains a hang."""
    killed_for: str = ""
    """Reason why it is being killed, which becomes the cause of its death."""
    leaving: bool = False
    """Whether it is being detached."""
    left: bool = False
    """Whether this trainer has left the other trainers, so that they do not wait for it any more."""
    finished: bool = False
    """Whether its process has sent Finished."""
    refusal: str = ""
    """Why its Hello was refused; empty if it was not."""
    error: str = ""
    """First error of the current series of deaths."""
    cause: str = ""
    """Cause of its last death."""
    went_with_node: bool = False
    """Whether its newest process ended because its node was lost."""
    moved: bool = False
    """Whether it starts next on another node, because it moves there; this does not count as a restart."""
    saved_steps: int = -1
    """Environment steps of its newest checkpoint (trainers only)."""
    postponed: int = 0
    """Number of consecutive starts that failed for a cause that may pass, such as a full disk."""
    _counted: bool = False
    """Whether its newest start counts as a restart."""
    _unsaved_restarts: int = 0
    """Number of restarts since its newest checkpoint (trainers only)."""
    _restarts_s: list[float] = field(default_factory=list)
    """Times of its restarts, in seconds."""
    _failed_starts: int = 0
    """Number of consecutive starts that ended before Hello."""

    def to(self, state: ChildState, now_s: float) -> None:
        """Change to another state; raises TransitionError if ``TRANSITIONS`` does not allow it."""
        if state not in TRANSITIONS[self.state]:
            raise TransitionError(f"{self.id.socket_id}: {self.state} -> {state} is not in TRANSITIONS")
        self.state, self.since_s = state, now_s
        if state not in ALIVE:
            self.pid = self.member = None
            self.admitted = False

    def begin(self, now_s: float) -> None:
        """Count a new start of the process, and reset what was recorded about the last one."""
        self.to(ChildState.STARTING, now_s)
        self.incarnation += 1
        self.pid, self.member, self.listens, self.applied = None, None, None, 0
        self.killed_for, self.went_with_node = "", False
        self.left = self.finished = self.admitted = False
        self._counted = self.incarnation > 0 and not self.moved
        if self._counted:
            self._restarts_s = [*self._recent(now_s), now_s]
            self._unsaved_restarts += 1
        self.moved = False

    def postpone(self, now_s: float, jitter: Jitter) -> None:
        """Undo ``begin`` because the process could not be started; the retry does not count as a restart."""
        self.to(ChildState.BACKOFF, now_s)
        self.since_s += self._delay_s(self.postponed, jitter)
        self.postponed += 1
        if self._counted:
            self._restarts_s.pop()
            self._unsaved_restarts -= 1
        self.moved = self.incarnation > 0 and not self._counted
        self.incarnation -= 1

    def admit(self, now_s: float) -> None:
        """Record that its first message, Hello, was accepted."""
        self.to(ChildState.RUNNING, now_s)
        self.ever_said_hello = self.admitted = True
        self.attaching = False
        self._failed_starts = 0

    @property
    def id(self) -> ProcessId:
        """Name, role and start number of its newest process; the number is -1 before the first start."""
        return self.planned.id.again(self.incarnation)

    @property
    def name(self) -> str:
        """Its name, for example "simulator-1"; a restart does not change it."""
        return self.planned.name

    @property
    def endpoint(self) -> Endpoint | None:
        """Its network address and public key, for other processes; None on one machine, or if it is not admitted."""
        if self.listens is None or not self.admitted:
            return None
        return Endpoint(id=self.id, **msgspec.structs.asdict(self.listens))

    @property
    def role(self) -> RoleSpec:
        """Spec of its role."""
        return self.planned.role

    @property
    def learner(self) -> int:
        """Number of its learner."""
        return self.planned.id.learner

    @property
    def alive(self) -> bool:
        """Whether it has a process, or its start was requested."""
        return self.state in ALIVE

    def failed(self, error: str, now_s: float) -> None:
        """Record an error; of errors in quick succession (``restarts_within_s``), keep the first."""
        if not self.error or not self._recent(now_s):
            self.error = error

    def saved(self, env_steps: int) -> None:
        """Record the steps of a checkpoint; a newer one than before resets the count of restarts without progress."""
        if env_steps > self.saved_steps:
            self.saved_steps, self._unsaved_restarts = env_steps, 0

    @property
    def without_progress(self) -> bool:
        """Whether a trainer was restarted ``unsaved_restarts`` times without saving a newer checkpoint."""
        return self.role.learns and self._unsaved_restarts >= self.budget.unsaved_restarts

    def restart_delay_s(self, now_s: float, jitter: Jitter) -> float | None:
        """Return the seconds to wait before the process is restarted; None if it has died too often."""
        if self.state is ChildState.STARTING:
            self._failed_starts += 1
        restarts = len(self._recent(now_s))
        if restarts >= self.budget.restarts or self._failed_starts > self.budget.restarts or self.without_progress:
            return None
        return self._delay_s(max(restarts, self._failed_starts - 1), jitter)

    def _recent(self, now_s: float) -> list[float]:
        return [then_s for then_s in self._restarts_s if now_s - then_s < self.budget.restarts_within_s]

    def _delay_s(self, tries: int, jitter: Jitter) -> float:
        """Return a delay in seconds that doubles with each try, up to a limit."""
        delay_s = self.budget.restart_delay_s * 2.0 ** min(tries, 32) * jitter(self.name, self.incarnation)
        return min(self.budget.longest_restart_delay_s, delay_s)
