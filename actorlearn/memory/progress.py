"""Progress segment: one row per process with its sign of life and its time per section.

Each process writes only its own row; the supervisor reads all rows. A waiting process also gives signs of life, so
their absence means a long operation or a hang, never an idle process.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from actorlearn.memory.fields import Field
from actorlearn.memory.shared import Segment

ROWS = 256
"""Most processes that a run can have over its whole life; each incarnation reuses the row of its name."""


def progress_fields(sections: int) -> list[Field]:
    """Return the fields of the progress segment; ``sections``: parts into which loops divide their time."""
    return [
        Field("beat_ns", "int64", (ROWS, 8), -1),  # 8 words = one cache line: writers do not slow one another down
        Field("section_ns", "int64", (ROWS, max(8, sections)), 0),
    ]


class Progress:
    """Sign of life and section times of one process, in its row of shared memory; read by the supervisor."""

    def __init__(self, segment: Segment, index: int) -> None:
        self._beat_ns = segment["beat_ns"][index]
        self.section_ns: NDArray[np.int64] = segment["section_ns"][index]
        """Nanoseconds spent in each section since the process started [sections]; written by its Timings."""

    def beat(self) -> None:
        """Record a sign of life. A healthy loop calls it at least every 100 ms.

        Long operations call it between their parts, such as minibatches, environments or parts of a file.
        """
        self._beat_ns[0] = time.monotonic_ns()
