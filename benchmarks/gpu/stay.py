"""The time that one part of a visit has: measures cases in turn until it is over, and keeps each result at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.kept import keep_result, read_results
from benchmarks.request import BenchmarkRequest
from launch.bench.gpu import GpuHost
from launch.bench.interleaved import Spread

KEPT = "gpu-measured"
"""Name of the file of results, without its ending."""
START_S = 25.0
"""Time that a first measurement is thought to need besides its own seconds: children import torch and compile."""


@dataclass(frozen=True)
class PartMeasurement:
    """One measurement that was made, or failed."""

    part: str
    case: str
    device: str
    quick: bool
    took_s: float
    """Its time, with that of starting and ending processes."""
    value: float | None
    error: str = ""


class Stay:
    """One part at work: what it may use, and until when."""

    def __init__(self, request: BenchmarkRequest, host: GpuHost, part: str, minutes: float) -> None:
        """Begin its time now."""
        self.request, self.host, self.part = request, host, part
        self.seconds = 60.0 * minutes
        self._until_s = time.monotonic() + self.seconds
        self.shortfalls: list[str] = []
        """Cases that failed or were not begun, each with the reason."""

    @property
    def left_s(self) -> float:
        """Seconds that are left of its time."""
        return self._until_s - time.monotonic()

    def measure(
        self, cases: Mapping[str, Callable[[], float]], repetitions: int, start_s: float = START_S
    ) -> dict[str, Spread]:
        """Measure every case once, then again, …, while there is time; returns those that have values.

        Values of an earlier call that was broken off count. What fails is not repeated, and is told in ``shortfalls``
        as what is not begun for want of time; ``start_s`` is thought to be needed besides the seconds of a first one.
        """
        values, took_s = self._kept(cases)
        failed: set[str] = set()
        for repetition in range(repetitions):
            for case, measure in cases.items():
                if len(values[case]) > repetition or case in failed:
                    continue
                needed_s = took_s.get(case) or max(took_s.values(), default=start_s + self.request.seconds)
                if needed_s > self.left_s:
                    if repetition == 0:
                        self.shortfalls.append(
                            f"{case}: not begun, as {self.left_s:.0f} s were left of the part's time"
                        )
                    continue
                found = self._measure(case, measure)
                took_s[case] = found.took_s
                if found.value is None:
                    failed.add(case)
                    self.shortfalls.append(f"{case}: {found.error}")
                else:
                    values[case].append(found.value)
        return {case: Spread(tuple(found)) for case, found in values.items() if found}

    def _kept(self, cases: Mapping[str, object]) -> tuple[dict[str, list[float]], dict[str, float]]:
        """Return values of each case from the folder, and the longest that one took."""
        values: dict[str, list[float]] = {case: [] for case in cases}
        took_s: dict[str, float] = {}
        for line in read_results(self.request, KEPT, PartMeasurement):
            asked = (line.part, line.device, line.quick) == (self.part, self.host.device, self.request.quick)
            if asked and line.case in values and line.value is not None:
                values[line.case].append(line.value)
                took_s[line.case] = max(line.took_s, took_s.get(line.case, 0.0))
        return values, took_s

    def _measure(self, case: str, measure: Callable[[], float]) -> PartMeasurement:
        began_s, value, error = time.monotonic(), None, ""
        try:
            value = measure()
        except Exception as why:  # whatever it is, the machine is here for minutes and other cases are waiting
            error = f"{why}" if isinstance(why, RuntimeError | ValueError) else f"{type(why).__name__}: {why}"
        found = PartMeasurement(
            *(self.part, case, self.host.device, self.request.quick), time.monotonic() - began_s, value, error
        )
        keep_result(self.request, KEPT, found)
        said = error if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
        print(f"  {self.part}: {case}: {said} ({found.took_s:.0f} s)", file=sys.stderr, flush=True)
        return found
