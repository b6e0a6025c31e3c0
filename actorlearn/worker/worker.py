"""The part that all processes of a run have: connection to the supervisor, signs of life, timings, and SIGTERM."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from actorlearn.memory.progress import Progress
from actorlearn.memory.rollout import Blocks
from actorlearn.memory.shared import Segment
from actorlearn.metrics.timings import Timings
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Member
from actorlearn.worker.settings import ProcessSettings

LOOK_S = 0.005
"""Shortest time, in seconds, between two checks for messages; a check takes longer than a fast environment's step."""

POLL_MS = 50
"""Longest sleep of a loop, in milliseconds, before it reads the counters in shared memory again.

It is also the longest delay if a wakeup is lost."""


class Worker:
    """Connects a process of a run to the supervisor, shows that the process is alive, and receives SIGTERM."""

    def __init__(self, settings: ProcessSettings) -> None:
        """Connect to the supervisor, and open this process's heartbeat in shared memory."""
        self.settings = settings
        self.control = Control(settings.control, settings.id, settings.run_id)
        self.progress = Progress(Segment.open(settings.progress.file), settings.index)
        self.progress.beat()
        self.timings = Timings(self.progress.section_ns)
        self._told_to_stop = False
        self._look_s = 0.0
        signal.signal(signal.SIGTERM, self._stop)

    def hello(self, shape: dict[str, str] | None = None) -> None:
        """Report to the supervisor that this process is ready. A simulator passes ``shape`` (``worker/handshake.py``).

        From now on the process must call `poll` within ``hang_s``, instead of the longer limit for a start.
        """
        self.progress.beat()
        self.control.hello(os.getpid(), shape)

    def poll(self) -> bool:
        """Show that this process is alive, and read the supervisor's messages; returns False after SIGTERM.

        Every loop calls it at least once in POLL_MS. If less than LOOK_S seconds have passed since the last call,
        nothing is read.
        """
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            self.progress.beat()
            self.control.poll()
        return not self._told_to_stop

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._told_to_stop = True


def open_members(members: Sequence[Member], known: Mapping[str, Blocks]) -> dict[str, Blocks]:
    """Return the shared memory of these simulators by socket id, in the order of ``members``.

    Memory that is not in ``known`` is opened. A simulator is left out if its memory no longer exists: it has died, and
    the supervisor's next message will not list it.
    """
    blocks_of = {}
    for member in members:
        blocks = known.get(member.id.socket_id)
        if blocks is None:
            try:
                blocks = Blocks(Segment.open(member.segment.file))
            except FileNotFoundError:
                continue
        blocks_of[member.id.socket_id] = blocks
    return blocks_of
