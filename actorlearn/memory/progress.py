"""Progress segment: one row per process with its heartbeat and its time per section.

Each process writes only its own row; the supervisor reads all of them. A waiting process keeps beating, so a beat that
stands still means a long operation or a hang, never idleness.
"""

from __future__ import annotations

import signal
import time

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

ROWS = 256
"""Most processes a run can ever have had; each incarnation reuses the row of its name."""

STACK_SIGNAL = signal.SIGUSR1
"""Signal at which a process writes the stacks of its threads to its log. Sent before the first beat, it kills it."""


def progress_fields(sections: int) -> list[Field]:
    """Fields of the progress segment, for loops that divide their time into that many sections."""
    return [
        Field("beat_ns", "int64", (ROWS, 8), -1),  # 8 words = one cache line: writers do not disturb one another
        Field("section_ns", "int64", (ROWS, max(8, sections)), 0),
    ]


class Progress:
    """Heartbeat and section times of one process, in its row of shared memory; read by the supervisor."""

    def __init__(self, segment: Segment, index: int) -> None:
        """Bind to row ``index`` of the progress segment."""
        self._beat_ns = segment["beat_ns"][index]
        self.section_ns: NDArray[np.int64] = segment["section_ns"][index]
        """Nanoseconds spent in each section since the process started [sections]; written by its Timings."""

    def beat(self) -> None:
        """Record a sign of life. A healthy loop calls it at least every 100 ms.

        Long operations call it between their parts: minibatches, environments, parts of a file.
        """
        self._beat_ns[0] = time.monotonic_ns()
