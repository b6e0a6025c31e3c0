"""The curve of one metric of a run, thinned to a bounded number of points while the run adds reports.

So memory does not depend on the length of the run. Reads ``metrics.jsonl``: at first a sample of its lines, or all of
them, then the lines that are added.
"""

from __future__ import annotations

import math
import threading
from array import array
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from launch.runs.jsonl import Decoded, numbers_of

MOST_POINTS = 300
"""Points of a curve after thinning; a picture is about as many pixels wide. A curve with twice as many is thinned."""
MOST_POINTS_WHOLE = 4 * MOST_POINTS
"""The same for a curve of all reports, so that one can zoom in."""
_COLUMNS = ("time_s", "env_steps")
_Floats = npt.NDArray[np.float64]


class CurvePoints(NamedTuple):
    """Points of the curve of one metric, in the order of the reports; four arrays [points]."""

    steps: _Floats
    """Environment steps."""
    minutes: _Floats
    """Minutes since the start of the run; NaN if unknown."""
    numbers: _Floats
    """Values of the metric."""
    undone: npt.NDArray[np.bool_]
    """Whether a restore from a checkpoint has undone the point."""

    def that_count(self) -> CurvePoints:
        """Return the points that were not undone; of several at equal steps, only the newest. Their steps increase."""
        counting = self._where(~self.undone)
        return counting._where(np.diff(counting.steps, append=np.inf) > 0)

    def steps_at(self, time_s: float) -> float | None:
        """Return the environment steps, interpolated, ``time_s`` after the start; None if no times are known."""
        timed = self.with_times()
        return float(np.interp(time_s / 60.0, timed.minutes, timed.steps)) if len(timed.minutes) else None

    def with_times(self) -> CurvePoints:
        """Return the points whose times are known."""
        return self._where(np.isfinite(self.minutes))

    def _where(self, kept: npt.NDArray[np.bool_]) -> CurvePoints:
        return CurvePoints(self.steps[kept], self.minutes[kept], self.numbers[kept], self.undone[kept])


class GrowingCurve:
    """Reads and keeps the curve of one metric; several threads may use it.

    Reports without steps or without the metric are left out.
    """

    def __init__(self, path: Path, metric: str, whole: bool = False) -> None:
        """Read the reports that are in the file now; ``path``: path of metrics.jsonl.

        ``whole``: read all of them; otherwise a sample, in time that does not depend on their number.
        """
        self.whole = whole
        self._most = MOST_POINTS_WHOLE if whole else MOST_POINTS
        self._lines = Decoded(path, numbers_of((*_COLUMNS, metric)))
        self._columns = tuple(array("d") for _ in range(4))
        """Times in seconds, steps, numbers, and 1 for points that were undone."""
        self._newest_steps = 0.0
        """Steps of the newest report, with or without the metric."""
        self._lock = threading.Lock()
        for point in self._lines.new() if whole else self._lines.sample(MOST_POINTS):
            self._add(point)

    def look(self) -> None:
        """Read the reports that were added since the last call."""
        with self._lock:
            for point in self._lines.new():
                self._add(point)

    @property
    def points(self) -> CurvePoints:
        """The current points."""
        with self._lock:
            time_s, steps, numbers, undone = (np.array(column) for column in self._columns)
        return CurvePoints(steps, time_s / 60.0, numbers, undone > 0)

    def _add(self, point: tuple[float, ...]) -> None:
        _, steps, number = point
        if math.isnan(steps):
            return
        if steps < self._newest_steps:  # the trainer was restored from a checkpoint
            _, all_steps, _, undone = (np.array(column) for column in self._columns)
            self._columns[3][:] = array("d", np.maximum(undone, all_steps > steps))
        self._newest_steps = steps
        if math.isnan(number):
            return
        for column, number in zip(self._columns, (*point, 0.0), strict=True):
            column.append(number)
        if len(self._columns[0]) >= 2 * self._most:
            self._thin()

    def _thin(self) -> None:
        """Keep the lowest and the highest point in each of equal intervals of time, and both ends of the curve."""
        time_s, steps, numbers, _ = (np.array(column) for column in self._columns)
        times, intervals = time_s if np.isfinite(time_s).all() else steps, self._most // 2
        length_s = times[-1] - times[0]
        stretch = np.floor((times - times[0]) / length_s * intervals) if length_s > 0 else np.arange(len(times))
        begins = np.flatnonzero(np.diff(stretch)) + 1
        begins = begins[:: 1 + len(begins) // (intervals + 1)]  # times that decrease make too many intervals
        kept = {0, len(times) - 1}
        for part in np.split(np.arange(len(times)), begins):
            kept |= {int(part[numbers[part].argmin()]), int(part[numbers[part].argmax()])}
        for column in self._columns:
            column[:] = array("d", np.array(column)[sorted(kept)])
