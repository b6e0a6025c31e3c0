"""Measures the cases of one part of a visit in turn until the time of the part is over; writes each result at once."""

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
"""Estimated seconds that the first measurement of a case needs to start its processes, which import torch."""


@dataclass(frozen=True)
class PartMeasurement:
    """One measurement that has ended, or failed."""

    part: str
    case: str
    device: str
    quick: bool
    took_s: float
    """Seconds that it took, including the start and the end of processes."""
    value: float | None
    error: str = ""


class Stay:
    """One part while it is measured: its machine, its request and its time."""

    def __init__(self, request: BenchmarkRequest, host: GpuHost, part: str, minutes: float) -> None:
        """Start the time of the part."""
        self.request, self.host, self.part = request, host, part
        self.seconds = 60.0 * minutes
        self._until_s = time.monotonic() + self.seconds
        self.shortfalls: list[str] = []
        """Lines about the cases that failed or were not begun, each with the reason."""

    @property
    def left_s(self) -> float:
        """Seconds left for the part."""
        return self._until_s - time.monotonic()

    def measure(
        self, cases: Mapping[str, Callable[[], float]], repetitions: int, start_s: float = START_S
    ) -> dict[str, Spread]:
        """Measure all cases once, then again, and so on while there is time; return the values of the measured cases.

        Values of an earlier call that was interrupted count. Cases that fail are not repeated; ``shortfalls`` has them
        and the cases for which there was no time. ``start_s``: estimated seconds for the start of a case.
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

    def kept_cases(self) -> list[str]:
        """Return the case of each measurement of an earlier call of this part, whether it has failed or not."""
        return [line.case for line in self._lines()]

    def _lines(self) -> list[PartMeasurement]:
        """Return what earlier calls of this part have kept."""
        asked = (self.part, self.host.device, self.request.quick)
        kept = read_results(self.request, KEPT, PartMeasurement)
        return [line for line in kept if (line.part, line.device, line.quick) == asked]

    def _kept(self, cases: Mapping[str, object]) -> tuple[dict[str, list[float]], dict[str, float]]:
        """Return the kept values of each case, and the longest time in seconds that a measurement of it took."""
        values: dict[str, list[float]] = {case: [] for case in cases}
        took_s: dict[str, float] = {}
        for line in self._lines():
            if line.case in values and line.value is not None:
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
