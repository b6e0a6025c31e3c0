"""Measures processor time and memory of a run's processes on this machine, and keeps the last ten minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import psutil

from launch.desk.cast import Process

MOST_SAMPLES = 300
"""Samples kept of each process: one every two seconds for ten minutes."""


class Load:
    """Measures the processes of one run while a page of the desk shows them."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._measured: dict[str, psutil.Process] = {}
        self._samples: dict[str, deque[tuple[float, float, int]]] = {}

    def sample(self, processes: Sequence[Process]) -> None:
        """Measure the running processes now; processes on other machines are left out."""
        for process in processes:
            if process.pid is None or process.node or process.state in ("exited", "fatal"):
                self._measured.pop(process.name, None)
                continue
            measured = self._measured.get(process.name)
            try:
                if measured is None or measured.pid != process.pid:
                    measured = self._measured[process.name] = psutil.Process(process.pid)
                    measured.cpu_percent()  # begins the interval that the next sample covers
                    continue
                with measured.oneshot():
                    numbers = measured.cpu_percent() / 100.0, measured.memory_info().rss
            except psutil.Error:
                self._measured.pop(process.name, None)
                continue
            kept = self._samples.setdefault(process.name, deque(maxlen=MOST_SAMPLES))
            kept.append((time.monotonic() - self._begin_s, *numbers))

    def newest(self, name: str) -> tuple[float, int] | None:
        """Return the newest sample of a process: cores in use, and bytes of resident memory.

        None if the process is not measured now.
        """
        rows = self._samples.get(name) if name in self._measured else None
        return rows[-1][1:] if rows else None

    def of(self, name: str) -> dict[str, list[Any]]:
        """Return the samples of a process as lists: seconds since this object was made, cores in use, and bytes."""
        rows = list(self._samples.get(name, ()))
        return {
            "seconds": [round(row[0], 1) for row in rows],
            "cores": [round(row[1], 3) for row in rows],
            "bytes": [row[2] for row in rows],
        }
