"""The processes themselves: started, signalled and reaped, each known by a pidfd so that no other can be hit.

Knows names and incarnations; refuses to know why a process should live or die.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from actorlearn.memory.progress import STACK_SIGNAL

Key = tuple[str, int]
"""Name and incarnation."""

_REAP_LIMIT_S = 5.0


@dataclass(frozen=True)
class Process:
    """One living, or not yet reaped, child process."""

    key: Key
    popen: subprocess.Popen[bytes]
    pidfd: int


class Spawner:
    """All processes of a run. Their exits make the selector say ``(name, incarnation)``."""

    def __init__(self, selector: selectors.BaseSelector, logs: Path, run_id: str) -> None:
        """Processes write to ``logs/<name>.log``."""
        self._selector = selector
        self._logs = logs
        self._run_id = run_id
        self._processes: dict[Key, Process] = {}

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start ``python -m actorlearn.processes``; returns its pid, raises OSError."""
        log = self._log(name, incarnation)
        try:
            popen = subprocess.Popen(
                [sys.executable, "-m", "actorlearn.processes", role, str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(threads),
                process_group=0,  # a Ctrl-C in the terminal is ours to understand, and its own children die with it
            )
        finally:
            os.close(log)
        try:
            self._watch((name, incarnation), popen)
        except BaseException:  # nobody would ever know of it
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()
            raise
        return popen.pid

    def _log(self, name: str, incarnation: int, about: str = "") -> int:
        """Open a process's log, with a heading for what comes now; raises OSError."""
        log = os.open(self._logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            os.write(log, f"--- {name}.{incarnation} {now}{about and f' {about}'}\n".encode())
        except BaseException:
            os.close(log)
            raise
        return log

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        """Have a process that has come to life write its stack to its log. What cannot be done is left."""
        with suppress(OSError):
            os.close(self._log(name, incarnation, about))
        self.kill(name, incarnation, STACK_SIGNAL)

    def _watch(self, key: Key, popen: subprocess.Popen[bytes]) -> None:
        pidfd = os.pidfd_open(popen.pid)
        try:
            self._selector.register(pidfd, selectors.EVENT_READ, key)
        except BaseException:
            os.close(pidfd)
            raise
        self._processes[key] = Process(key, popen, pidfd)

    def _environment(self, threads: int) -> dict[str, str]:
        own = {
            "ACTORLEARN_RUN_ID": self._run_id,
            "ACTORLEARN_SUPERVISOR_PID": str(os.getpid()),
            "PYTHONUNBUFFERED": "1",
        }
        return {**environment(threads), **own}

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        """Signal a process, with SIGKILL its whole group. One that is gone already is none of our business."""
        process = self._processes.get((name, incarnation))
        if process is None:
            return
        with suppress(ProcessLookupError):
            if sent == signal.SIGKILL:
                os.killpg(process.popen.pid, sent)  # not reaped yet, so the number is still its own
            else:
                signal.pidfd_send_signal(process.pidfd, sent)

    def reap(self, key: Key) -> int:
        """Return code of a process that has ended; what it may have started itself is ended too."""
        process = self._processes.pop(key)
        self._selector.unregister(process.pidfd)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.popen.pid, signal.SIGKILL)
        returncode = process.popen.wait()
        os.close(process.pidfd)
        return returncode

    def close(self) -> None:
        """Kill and reap all that are left."""
        for name, incarnation in self._processes:
            self.kill(name, incarnation, signal.SIGKILL)
        deadline_s = time.monotonic() + _REAP_LIMIT_S
        for key, process in list(self._processes.items()):
            with suppress(subprocess.TimeoutExpired):  # the kernel holds on to it: init will reap it after us
                process.popen.wait(max(0.0, deadline_s - time.monotonic()))
                self.reap(key)


def environment(threads: int) -> dict[str, str]:
    """This process's environment variables, with those that a process of ours is fast with.

    Measured on two cores of an AMD EPYC with the NIPS network: idle OpenMP threads spin for some ten microseconds, to
    bridge the gaps within an update (192 rows in bf16: 17 ms without, so 14), and then sleep, because simulators need
    the cores. Freed memory is kept, and in huge pages, because giving it back means a page fault for every 4 KiB of
    the next pass: an update of 192 rows in fp32 took 46 to 58 ms, so 25; acting for 8 environments 1.7 ms, so 0.8.
    """
    threads_of = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    asleep = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}
    kept = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
    tunables = ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1")))
    return {**os.environ, **threads_of, **asleep, **kept, "GLIBC_TUNABLES": tunables}
