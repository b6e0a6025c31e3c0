"""The operating system's side of children: start, signal, notice the end, leave none behind.

Reads settings files; writes logs. Refuses to know what a run is: names, commands and signals only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    pidfd: int


class Spawner:
    """Living children by (name, incarnation); each leads a process group of its own."""

    def __init__(self, logs: Path) -> None:
        """Output of each process is appended to ``logs/<name>.log``."""
        self._logs = logs
        self._running: dict[tuple[str, int], _Running] = {}

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start a process and return its pid; raises OSError. Call from the main thread only.

        (The kernel ends the child with the thread that started it.)
        """
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "actorlearn.processes", role, str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(threads),
                process_group=0,  # Ctrl-C reaches the supervisor alone; what a child starts can be ended with it
            )
        self._running[name, incarnation] = _Running(process, os.pidfd_open(process.pid))
        return process.pid

    def descriptors(self) -> list[int]:
        """Descriptors that become readable when a child ends."""
        return [running.pidfd for running in self._running.values()]

    def ended(self) -> list[tuple[str, int, int]]:
        """Reap whoever has ended: (name, incarnation, return code), and end what they have left in their groups."""
        ended = []
        for key, running in list(self._running.items()):
            returncode = running.process.poll()
            if returncode is not None:
                _signal_group(running.process.pid, signal.SIGKILL)
                os.close(running.pidfd)
                del self._running[key]
                ended.append((*key, returncode))
        return ended

    def kill(self, name: str, incarnation: int, number: int) -> None:
        """Send a signal to a child; SIGKILL to its whole group. Nothing happens when it has ended."""
        running = self._running.get((name, incarnation))
        if running is None:
            return
        if number == signal.SIGKILL:
            _signal_group(running.process.pid, number)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(running.pidfd, number)

    def close(self) -> None:
        """End and reap everybody."""
        for (name, incarnation), running in list(self._running.items()):
            self.kill(name, incarnation, signal.SIGKILL)
            running.process.wait()
        self.ended()


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _environment(threads: int) -> dict[str, str]:
    """Thread counts, and worker threads that sleep while they wait: spinning would eat the simulators' cores."""
    return {
        **os.environ,
        "ACTORLEARN_SUPERVISOR_PID": str(os.getpid()),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "KMP_BLOCKTIME": "0",
        "PYTHONUNBUFFERED": "1",
    }
