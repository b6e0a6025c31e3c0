"""Finds out from /proc whether a process runs, waits for a disk, waits for something else, or is stopped.

The activity of its descendants counts too, because an environment may run another program. A process that is ready but
waits for a processor counts as running.
"""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from os import sysconf
from pathlib import Path

SHARE = 0.1
"""Share of a core's time from which a process counts as running, even if no thread runs when it is observed.

A thread that only polls uses less.
"""

_CLOCK_TICKS_PER_S = sysconf("SC_CLK_TCK")


class Activity(StrEnum):
    """Kind of activity, as shown to users."""

    RUNNING = "the process computes"
    DISK = "the process waits for a disk or another device"
    WAITING = "the process waits"
    STOPPED = "the process was stopped by a signal or a debugger"
    GONE = "the process has ended"


class Watch:
    """Observes the activity of one process."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        """``proc``: the folder of the proc file system."""
        self._pid = pid
        self._proc = proc
        self._before: tuple[float, float] | None = None

    def look(self, now_s: float) -> Activity:
        """Return the activity since the last call, or now at the first; ``now_s``: seconds of any steady clock."""
        own = self._states(self._pid)
        if not own:
            return Activity.GONE
        if set(own) <= {"T", "t"}:
            return Activity.STOPPED
        family = [self._pid, *self._descendants(self._pid)]
        states = {state for pid in family for state in self._states(pid)}
        spent_s = sum(self._spent_s(pid) for pid in family)
        (then_s, before_s), self._before = self._before or (now_s, spent_s), (now_s, spent_s)
        if "R" in states or spent_s - before_s > SHARE * (now_s - then_s):
            return Activity.RUNNING
        return Activity.DISK if "D" in states else Activity.WAITING

    def _states(self, pid: int) -> list[str]:
        """Return the state letter (proc(5)) of each thread."""
        return [fields[0] for task in self._threads(pid) if (fields := _fields(task / "stat"))]

    def _spent_s(self, pid: int) -> float:
        """Return the processor time in seconds of all its threads, including ended ones, and of its ended children."""
        fields = _fields(self._proc / str(pid) / "stat")
        return sum(int(ticks) for ticks in fields[11:15]) / _CLOCK_TICKS_PER_S

    def _descendants(self, pid: int) -> list[int]:
        """Return the pids of all descendants; empty on a kernel that does not list children."""
        found: list[int] = []
        for task in self._threads(pid):
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    found += [int(child), *self._descendants(int(child))]
        return found

    def _threads(self, pid: int) -> list[Path]:
        try:
            return list((self._proc / str(pid) / "task").iterdir())
        except OSError:
            return []


def _fields(stat: Path) -> list[str]:
    """Return the fields of a stat file (proc(5)) after the name of the program; [] if the process is gone."""
    try:
        return stat.read_bytes().decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
