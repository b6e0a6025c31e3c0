"""The suite ``memory``: how much memory the processes of a run use, and how much it grows while they train."""

from __future__ import annotations

import time

from launch.bench import SuiteRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.bench.running import Running

READINGS = 10
"""Number of readings after the first one, at equal intervals."""


def memory(request: SuiteRequest) -> SuiteReport:
    """Measure the memory of all processes of a run, and how much it grows in --seconds of training."""
    rows, bytes_ = [], []
    with Running(request.topology, request.overrides) as run:
        began_s = time.monotonic()
        for number in range(READINGS + 1):
            time.sleep(max(0.0, began_s + number * request.seconds / READINGS - time.monotonic()))
            bytes_.append(run.pss_bytes())
            rows.append((f"{time.monotonic() - began_s:.0f}", f"{bytes_[-1] / 1e6:,.0f}"))
    grown = bytes_[-1] - bytes_[1]
    return SuiteReport(
        suite="memory",
        headings=("seconds", "resident, MB"),
        rows=rows,
        bars={request.topology: Spread(tuple(value / 1e6 for value in bytes_))},
        unit="MB",
        notes=(f"resident memory grew by {grown / 1e6:,.1f} MB from the second reading to the last",),
        figures={"bytes": bytes_},
    )
