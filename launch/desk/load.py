"""Processor time and memory of a run's processes on this machine, over the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import psutil

from launch.desk.cast import Process

MOST_SAMPLES = 300
"""Samples kept of each process: those of ten minutes, one every two seconds."""


class Load:
    """Samples of each process by its name."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._measured: dict[str, psutil.Process] = {}
        self._samples: dict[str, deque[tuple[float, float, int]]] = {}

    def sample(self, processes: Sequence[Process]) -> None:
        """Measure the running processes of this machine; a process on another node has no samples."""
        for process in processes:
            if process.pid is None or process.node or process.state in ("exited", "fatal"):
                self._measured.pop(process.name, None)
                continue
            measured = self._measured.get(process.name)
            try:
                if measured is None or measured.pid != process.pid:
                    measured = self._measured[process.name] = psutil.Process(process.pid)
                    measured.cpu_percent()  # from now on
                    continue
                with measured.oneshot():
                    numbers = measured.cpu_percent() / 100.0, measured.memory_info().rss
            except psutil.Error:
                self._measured.pop(process.name, None)
                continue
            kept = self._samples.setdefault(process.name, deque(maxlen=MOST_SAMPLES))
            kept.append((time.monotonic() - self._begin_s, *numbers))

    def newest(self, name: str) -> tuple[float, int] | None:
        """Return the cores in use and the bytes of a process; None if it is not measured now."""
        rows = self._samples.get(name) if name in self._measured else None
        return rows[-1][1:] if rows else None

    def of(self, name: str) -> dict[str, list[Any]]:
        """Return the samples of a process: seconds since the first look, cores in use, bytes of resident memory."""
        rows = list(self._samples.get(name, ()))
        return {
            "seconds": [round(row[0], 1) for row in rows],
            "cores": [round(row[1], 3) for row in rows],
            "bytes": [row[2] for row in rows],
        }
