"""One row per process in which it shows that it is alive and where its time goes.

Each process writes only its own row; the supervisor reads all of them. A process that waits still beats: a row whose
beat stands still means that something takes long, or a hang, not idleness.
"""

from __future__ import annotations

import signal
import time
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Shm
from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

ROWS = 256
"""Most processes a run can ever have had; each incarnation reuses the row of its name."""

STACK_SIGNAL = signal.SIGUSR1
"""The signal that has a process write the stacks of its threads to its log. Before its first beat it would kill it."""


def progress_fields(sections: int) -> list[Field]:
    """Fields of the progress segment, for loops that divide their time into that many sections."""
    return [
        Field("beat_ns", "int64", (ROWS, 8), -1),  # 8 words = one cache line: writers do not disturb one another
        Field("section_ns", "int64", (ROWS, max(8, sections)), 0),
    ]


class Heartbeat(Protocol):
    """Signs of life of a process for the supervisor, and where its time goes."""

    section_ns: NDArray[np.int64]
    """Nanoseconds spent in each section since the process started; written by its Timings."""

    def beat(self) -> None:
        """Say "alive" once more. Called by every loop at least every 100 ms while it is healthy."""


def open_heartbeat(address: Shm, index: int) -> Heartbeat:
    """Open the heartbeat of the process that has row ``index`` of the run's progress."""
    return Progress(Segment.open(address.file), index)


class Progress:
    """One process's row in shared memory."""

    def __init__(self, segment: Segment, index: int) -> None:
        """Bind to row ``index`` of the progress segment."""
        self._beat_ns = segment["beat_ns"][index]
        self.section_ns: NDArray[np.int64] = segment["section_ns"][index]
        """Nanoseconds spent in each section since the process started; written by its Timings."""

    def beat(self) -> None:
        """Say "alive" once more. Called by every loop at least every 100 ms while it is healthy.

        Also between the parts of what takes longer: minibatches, environments, parts of a file.
        """
        self._beat_ns[0] = time.monotonic_ns()
