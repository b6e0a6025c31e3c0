"""Measures processor time and memory of a run's processes, and of this whole machine; keeps the last ten minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import psutil

from launch.desk.cast import Process

KEPT_S = 600.0
MOST_SAMPLES = 300
"""Most samples kept of each process: one every two seconds."""
Sample = tuple[float, float | None, int | None]
"""Seconds since 1970, cores in use since the sample before, and bytes of memory; both are None in a gap."""


class Load:
    """Keeps samples of the processor time and the memory of the processes of one run."""

    def __init__(self) -> None:
        self._measured: dict[str, psutil.Process] = {}
        self._samples: dict[str, deque[Sample]] = {}

    def sample(self, processes: Sequence[Process]) -> None:
        """Measure the running processes of this machine now, and forget samples that are too old."""
        for name, samples in list(self._samples.items()):  # also those of processes that were detached or have ended
            _forget(samples)
            if not samples:
                del self._samples[name]
        for process in processes:
            if process.pid is None or process.node or process.state in ("died", "exited", "fatal"):
                self._measured.pop(process.name, None)
                continue
            measured = self._measured.get(process.name)
            try:
                if measured is None or measured.pid != process.pid:
                    measured = self._measured[process.name] = psutil.Process(process.pid)
                    measured.cpu_percent()  # begins the interval that the next sample covers
                    if process.name in self._samples:  # from before its restart: mark the gap
                        self._samples[process.name].append((time.time(), None, None))
                    continue
                with measured.oneshot():
                    numbers = measured.cpu_percent() / 100.0, measured.memory_info().rss
            except psutil.Error:
                self._measured.pop(process.name, None)
                continue
            kept = self._samples.setdefault(process.name, deque(maxlen=MOST_SAMPLES))
            kept.append((time.time(), *numbers))

    def newest(self, name: str) -> tuple[float, int] | None:
        """Return the cores in use and the bytes of resident memory of a process; None if it is not measured now."""
        rows = self._samples.get(name) if name in self._measured else None
        _, cores, memory = rows[-1] if rows else (0.0, None, None)
        return None if cores is None or memory is None else (cores, memory)

    def of(self, name: str) -> dict[str, list[Any]]:
        """Return the samples of a process as lists: seconds since 1970, cores in use, bytes.

        Where it was restarted, there is a sample of None. The last sample has numbers.
        """
        rows = list(self._samples.get(name, ()))
        while rows and rows[-1][1] is None:  # restarted, and not measured since
            del rows[-1]
        return _columns(rows)


class MachineLoad:
    """Keeps samples of the processor time and the memory that all programs on this machine use together."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._has_begun = False
        self._cores = psutil.cpu_count() or 1
        self._bytes = psutil.virtual_memory().total

    def sample(self) -> None:
        """Measure the machine now; raises OSError. Always call it from the same thread."""
        _forget(self._samples)
        cores = psutil.cpu_percent() / 100.0 * self._cores  # since the last call from this thread
        if self._has_begun:
            self._samples.append((time.time(), cores, self._bytes - psutil.virtual_memory().available))
        self._has_begun = True

    def samples(self) -> dict[str, Any]:
        """Return the samples as ``Load.of``, and the cores and the bytes of memory that the machine has."""
        return {**_columns(list(self._samples)), "all_cores": self._cores, "all_bytes": self._bytes}


def _forget(samples: deque[Sample]) -> None:
    """Remove the samples that are older than ``KEPT_S``."""
    until_s = time.time() - KEPT_S
    while samples and samples[0][0] < until_s:
        samples.popleft()


def _columns(rows: Sequence[Sample]) -> dict[str, list[Any]]:
    return {
        "seconds": [round(row[0], 1) for row in rows],
        "cores": [None if row[1] is None else round(row[1], 3) for row in rows],
        "bytes": [row[2] for row in rows],
    }
