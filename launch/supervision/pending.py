"""Requests that take seconds: attach and detach (add or remove processes of a running run), and save.

``reply`` returns None until the request is done, has failed or has reached its time limit. ``give_up`` is called once,
after a negative reply.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from actorlearn.wire.messages import Reply, Saved
from launch.supervision.child import ChildState
from launch.supervision.children import Children

LIMIT_S = 60.0
"""Time limit of attach, detach and save, in seconds."""
SAVING = (ChildState.STARTING, ChildState.RUNNING)
"""States of the trainers that a request to save waits for, besides those that will be restarted."""


@dataclass
class _PendingUnits:
    """A request to attach or detach *units*: single simulators, or trainers with their servers and simulators."""

    client: str
    since_s: float
    """Time of the request, in seconds."""
    units: dict[str, tuple[str, ...]]
    """Name of each unit's trainer or simulator -> names of its other processes: trainer-2 -> (simulator-4,)."""

    @property
    def _names(self) -> list[str]:
        return [name for head, others in self.units.items() for name in (head, *others)]


class PendingAttach(_PendingUnits):
    """A request to attach, which is done when all new processes run.

    If a new process ends before that, the processes that were attached with it are detached.
    """

    def reply(self, children: Children) -> Reply | None:
        """Return success when all processes run, failure when one has ended or time is up, else None."""
        there = [name for name in self._names if name in children.named and children.named[name].ever_said_hello]
        seconds = round(children.now_s - self.since_s, 3)
        data = {"names": self._names, "running": there, "seconds": seconds}
        lost = [name for name in self._names if name not in children.named]
        if lost:
            broken = {head: others for head, others in self.units.items() if {head, *others} & {*lost}}
            why = [children.failures[name] for name in lost if name in children.failures]
            why = why or [f"{', '.join(lost)} was detached"]
            why += [f"{describe_unit(*unit)} is not attached" for unit in broken.items() if unit[1]]
            whole = ", ".join(describe_unit(*unit) for unit in self.units.items() if unit[0] not in broken)
            return Reply(ok=False, text="; ".join(why) + (f" ({whole} continues)" if whole else ""), data=data)
        if len(there) == len(self._names):
            said = ", ".join(describe_unit(*unit) for unit in self.units.items())
            return Reply(ok=True, text=f"{said} running after {seconds:.1f} s", data=data)
        if children.now_s - self.since_s < LIMIT_S:
            return None
        late = ", ".join(name for name in self._names if name not in there)
        text = f"{late} was not ready within {LIMIT_S:g} s and will be ended; see the log in logs/"
        return Reply(ok=False, text=text, data=data)

    def give_up(self, children: Children) -> None:
        """Detach the units that have lost a process and, after the time limit, those of which not all processes run."""
        late = children.now_s - self.since_s >= LIMIT_S
        for head, others in self.units.items():
            unit = [children.named.get(name) for name in (head, *others)]
            incomplete = None in unit or (late and not all(child.ever_said_hello for child in unit if child))
            if (child := children.named.get(head)) is None or not incomplete:
                continue
            if child.ever_said_hello or not late:
                children.detach(child)
            else:
                children.detach_now(child, "the time limit of the request is over")


class PendingDetach(_PendingUnits):
    """A request to detach, which is done when all its processes have ended."""

    def reply(self, children: Children) -> Reply | None:
        """Return success when no process is left, failure when time is up, else None."""
        left = [name for name in self._names if name in children.named]
        seconds = round(children.now_s - self.since_s, 3)
        data = {"names": self._names, "seconds": seconds}
        if not left:
            said = ", ".join(describe_unit(*unit) for unit in self.units.items())
            bad_ends = [children.failures[name] for name in self._names if name in children.failures]
            text = "; ".join([f"{said} detached after {seconds:.1f} s", *bad_ends])
            return Reply(ok=True, text=text, data=data)
        if children.now_s - self.since_s < LIMIT_S:
            return None
        text = f"{', '.join(left)} did not end within {LIMIT_S:g} s and will be killed; unfinished rollouts are lost"
        return Reply(ok=False, text=text, data=data)

    def give_up(self, children: Children) -> None:
        """Kill the remaining processes."""
        for name in self._names:
            if name in children.named:
                children.detach_now(children.named[name], "the time limit of the request is over")


@dataclass
class PendingSave:
    """A request to save, which is done when every trainer has a checkpoint made after it on disk."""

    client: str
    since_s: float
    """Time of the request, in seconds."""
    number: int
    """Number of this request among those to save, from 1."""
    in_step: bool
    """Whether learners are in mode sync, so that they save at their next update."""
    saved: dict[str, Saved] = field(default_factory=dict)
    """Trainer -> report of its first checkpoint that was made after the request."""

    def reply(self, children: Children) -> Reply | None:
        """Return success when the checkpoints are on disk, failure when time is up, else None.

        Trainers that have died and will be restarted are awaited too; those that are given up or leave are not.
        """
        awaited = (*SAVING, ChildState.BACKOFF) if children.restarting else SAVING
        trainers = [child for child in children.trainers() if child.state in awaited and not child.attaching]
        lacking = [child.name for child in trainers if child.name not in self.saved]
        if self.saved and not lacking:
            # In the order of learners; a trainer may have been removed since it saved.
            name, *others = [name for name in {**children.named, **self.saved} if name in self.saved]
            steps, path = self.saved[name].env_steps, self.saved[name].path
            data = {"path": path, "env_steps": steps, "seconds": round(children.now_s - self.since_s, 3)}
            also = "".join(f"; {other} at {self.saved[other].env_steps:,} steps" for other in others)
            return Reply(ok=True, text=f"checkpoint at {steps:,} steps: {path}{also}", data=data)
        if children.now_s - self.since_s < LIMIT_S:
            return None
        who = ", ".join(lacking) or "the run"
        hint = "learners in mode sync save at their next update" if self.in_step else "see the log in logs/"
        return Reply(ok=False, text=f"{who} saved no checkpoint within {LIMIT_S:g} s; {hint}")

    def give_up(self, _children: Children) -> None:
        """Do nothing: a missing checkpoint ends no process."""


def describe_unit(head: str, others: tuple[str, ...]) -> str:
    """Return a unit in words, for example "trainer-2 with simulator-4"."""
    return f"{head} with {', '.join(others)}" if others else head
