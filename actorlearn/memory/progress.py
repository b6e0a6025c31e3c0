"""The progress segment: shared memory in which processes give signs of life, and record how they spend their time.

Each process writes only its own row; the supervisor reads all rows. A process also gives signs of life while it waits.
So if they stop, the process is in a long operation or hangs.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

ROWS = 256
"""Largest number of processes in the whole run; a restarted process uses the index of its predecessor."""


def progress_fields(sections: int) -> list[Field]:
    """Return the shared memory layout of heartbeats; ``sections``: number of activities into which time is divided."""
    return [
        Field("beat_ns", "int64", (ROWS, 8), -1),  # 8 words = one cache line: writers do not slow one another down
        Field("section_ns", "int64", (ROWS, max(8, sections)), 0),
    ]


class Progress:
    """Heartbeat of one process in shared memory, and how long it spent in each activity; read by the supervisor."""

    def __init__(self, segment: Segment, index: int) -> None:
        self._beat_ns = segment["beat_ns"][index]
        self.section_ns: NDArray[np.int64] = segment["section_ns"][index]
        """[sections] nanoseconds spent in each section since the process started; ``metrics/timings.py`` writes it."""

    def beat(self) -> None:
        """Show that this process does not hang; a loop calls this at least every 100 ms.

        Long operations call it between their parts, such as minibatches, environments or parts of a file.
        """
        self._beat_ns[0] = time.monotonic_ns()
