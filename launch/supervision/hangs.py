"""Detection of processes that hang or are slow, from their signs of life and the kernel's view of their activity.

The detector reads the progress segment, and the activity (``launch/machine/activity.py``) of processes that show no
sign of life. A process that computes without a sign of life is slow: it is reported with its stack, and again each time
its silence has doubled. A process hangs when it shows neither a sign of life nor activity for ``hang_s``, or when it
shows no sign of life for ``spin_s``. The detector only produces events; the supervisor decides what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from launch.machine.activity import Activity, Watch
from launch.plan.plan import Start
from launch.supervision import events as ev
from launch.topology.schema import Limits

GRACE_S = 1.0
"""Seconds of silence after which a process's activity is read; a healthy process shows a sign of life every 100 ms."""

LOOK_EVERY_S = 0.5
"""Seconds between two readings of the activity of a silent process."""
STACK_S = 0.5
"""Seconds from the request for a hanging process's stack to the Stalled event, after which it is killed."""

AT_WORK = (Activity.RUNNING, Activity.DISK)
"""Activities that reset the limit ``hang_s``, but not ``spin_s``."""


@dataclass
class LivingProcess:
    """A living process whose signs of life are checked."""

    start: Start
    """The action that started it."""
    pid: int
    starting: bool = True
    """Whether no Hello was received from it."""


@dataclass
class _Silence:
    """How long a process has shown no sign of life, and what it did in this time; times in seconds."""

    beat_ns: int
    """Value of its newest sign of life in the progress segment."""
    activity: Watch
    beat_s: float
    """Time at which its newest sign of life was found."""
    work_s: float
    """Time of its newest sign of life or newest observed activity."""
    begun: bool = False
    """Whether the process has ever shown a sign of life; before the first one it cannot write its stack."""
    looked_s: float = 0.0
    doing: Activity = Activity.WAITING
    tell_s: float = 0.0
    """Seconds of silence at which the process is next reported."""
    hung_s: float | None = None
    """Time at which the process was first found to hang; None if it does not hang."""

    def end(self, now_s: float) -> None:
        self.beat_s = self.work_s = now_s
        self.tell_s, self.hung_s = 0.0, None


class HangDetector:
    """Detector for all processes of a run on this machine."""

    def __init__(
        self,
        beat_ns: NDArray[np.int64],
        limits: Mapping[str, Limits],
        start_s: float,
        watch: Callable[[int], Watch] = Watch,
    ) -> None:
        """``beat_ns`` [rows, 8]: a row of shared memory for each process, with the time of its last sign of life.

        ``limits``: role -> limits; ``start_s``: limit in seconds that replaces ``hang_s`` until a process sends Hello.
        """
        self._beat_ns = beat_ns
        self._limits = limits
        self._start_s = start_s
        self._watch = watch
        self._silences: dict[tuple[str, int], _Silence] = {}

    def look(self, living: Iterable[LivingProcess], now_s: float) -> list[ev.Silent | ev.Stalled]:
        """Return the events to report now about slow or hanging processes; ``now_s``: time in seconds."""
        before, self._silences = self._silences, {}
        found: list[ev.Silent | ev.Stalled] = []
        for process in living:
            key = process.start.name, process.start.incarnation
            beat_ns = int(self._beat_ns[process.start.index, 0])
            silence = before.get(key) or _Silence(beat_ns, self._watch(process.pid), now_s, now_s)
            self._silences[key] = silence
            if beat_ns != silence.beat_ns:
                silence.beat_ns, silence.begun = beat_ns, True
                silence.end(now_s)
            elif now_s - silence.beat_s >= GRACE_S:
                found += self._check(process, silence, now_s)
        return found

    def _check(self, process: LivingProcess, silence: _Silence, now_s: float) -> Iterator[ev.Silent | ev.Stalled]:
        hang_s, spin_s, keys, note = self._limits[process.start.process.role]
        if process.starting:
            hang_s, spin_s = self._start_s, max(self._start_s, spin_s)
        if now_s - silence.looked_s >= LOOK_EVERY_S:
            silence.looked_s, silence.doing = now_s, silence.activity.look(now_s)
            silence.work_s = now_s if silence.doing in AT_WORK else silence.work_s
        silent_s = now_s - silence.beat_s
        idle = now_s - silence.work_s > hang_s
        hangs = idle or silent_s > spin_s
        if not hangs:
            silence.hung_s = None
        elif silence.hung_s is not None and now_s - silence.hung_s >= STACK_S:
            yield ev.Stalled(process.start.name, process.start.incarnation, silent_s)
            return
        if (hangs and silence.hung_s is None) or silent_s > max(hang_s, silence.tell_s):
            silence.hung_s = now_s if hangs else None
            silence.tell_s = 2 * silent_s
            key = "supervision.start_s" if process.starting and idle else f"{keys}{'hang' if idle else 'spin'}_s"
            why = f"{silence.doing}; the limit is {key}: {hang_s if idle else spin_s:g}"
            why += f"; {note}" if note else ""
            stack = silence.begun and silence.doing is not Activity.STOPPED
            yield ev.Silent(process.start.name, process.start.incarnation, silent_s, why, hangs, stack)

    def forgive(self, gap_s: float) -> None:
        """Do not count the last ``gap_s`` seconds, in which this process did not run, towards any limit.

        The others may not have run either, for example because the machine was suspended. Time before still counts.
        """
        for silence in self._silences.values():
            silence.beat_s += gap_s
            silence.work_s += gap_s
            silence.hung_s = None
