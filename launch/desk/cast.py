"""Reconstructs the processes of a run from its events.

So the desk can also show the processes of ended runs and of other machines. While the run is alive, what its supervisor
reports takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_STATES = {
    "ready": "running",
    "restarted": "running",
    "attached": "running",
    "died": "died",
    "gave up": "fatal",
    "refused": "fatal",
    "ended": "exited",
}
"""Kind of an event -> state of the process after this event."""


@dataclass
class Process:
    """A process that was started since the start, or the last resume, of the run."""

    name: str
    role: str
    learner: int
    state: str = "starting"
    incarnation: int = 0
    pid: int | None = None
    node: str = ""
    deaths: int = 0
    cause: str = ""
    """Cause of its last death."""
    since: str = ""
    """Wall time at which the present incarnation was spawned, as text from its event."""
    busy: float | None = None
    """Share of its time in which it did not wait, 0 to 1; None: unknown."""


class Cast:
    """Reads events and keeps the present state of each process."""

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        """Update the processes by an event."""
        kind, name = event.get("kind"), str(event.get("process") or "")
        if kind == "resumed":  # a new life of the run, whose processes are spawned anew
            self._processes.clear()
        elif kind == "spawned" and name and isinstance(role := event.get("role"), str):
            learner = event.get("learner")
            own = self._processes.setdefault(name, Process(name, role, learner if isinstance(learner, int) else 0))
            own.state, own.pid, own.node = "starting", _pid(event), str(event.get("node") or "")
            own.incarnation, own.since = int(event.get("incarnation") or 0), str(event.get("time") or "")
        elif kind == "detached":
            self._processes.pop(name, None)
        elif (own_now := self._processes.get(name)) and kind in _STATES:
            own_now.state = _STATES[str(kind)]
            if kind == "died":
                own_now.deaths += 1
                own_now.cause = str(event.get("cause") or "")

    def processes(self, told: Sequence[Mapping[str, Any]] | None, alive: bool) -> list[Process]:
        """Return all processes, in the order of their first start.

        ``told``: the processes as the supervisor reports them now; None: it did not answer. ``alive``: whether the run
        is alive; if not, its processes have ended.
        """
        if not alive:
            for own in self._processes.values():
                own.state = own.state if own.state in ("fatal", "exited") else "exited"
        for one in told or ():
            if found := self._processes.get(str(one.get("name"))):
                found.state = str(one.get("state") or found.state)
                found.busy = one.get("busy")
                found.pid = _pid(one)
        return list(self._processes.values())


def _pid(found: Mapping[str, Any]) -> int | None:
    pid = found.get("pid")
    return pid if isinstance(pid, int) and pid > 0 else None
