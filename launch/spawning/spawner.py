"""Processes of this machine: started, signalled and reaped, each by a pidfd, so that a reused pid is never signalled.

They are children of a guardian (``launch/spawning/guardian.py``), which ends their descendants. Knows names and
incarnations; the supervisor decides which process should run.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from actorlearn.memory.progress import STACK_SIGNAL
from launch.spawning.guardian import ROLE_MARK, RUN_MARK, Guardian, GuardianLostError, end_marked

INTERPRETER = sys.executable


Key = tuple[str, int]
"""Name and incarnation."""


class SpawnerLostError(OSError):
    """A process was not started because the spawner's guardian was lost, with all processes that it had started.

    Nothing is wrong with the process itself: the spawner has recovered, and ``spawn`` can be called again.
    """


@dataclass(frozen=True)
class SpawnedProcess:
    """One living, or not yet reaped, process."""

    key: Key
    pid: int
    pidfd: int
    guardian: Guardian
    """Guardian whose child it is."""


class Spawner:
    """Starts, signals and reaps processes, which are children of a guardian and write to ``logs/<name>.log``."""

    def __init__(self, logs: Path, run_id: str) -> None:
        """Start none yet."""
        self._selector = selectors.EpollSelector()
        self._logs = logs
        self._run_id = run_id
        self._guardian: Guardian | None = None
        self._until_s: float | None = None
        self._processes: dict[Key, SpawnedProcess] = {}

    @property
    def fd(self) -> int:
        """Descriptor that is ready for as long as a pidfd is."""
        return self._selector.fileno()

    def ended(self) -> list[Key]:
        """Return those whose pidfds are ready."""
        return [key.data for key, _ in self._selector.select(0)]

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start ``python -m actorlearn.processes``; returns its pid. Raises SpawnerLostError, or another OSError."""
        guardian = self._guardian = self._guardian or Guardian(str(self._logs))
        log = self._log(name, incarnation)
        try:
            if self._until_s is not None:
                guardian.lease(self._until_s)
            command = [INTERPRETER, "-m", "actorlearn.processes", role, str(settings)]
            own = {RUN_MARK: self._run_id, ROLE_MARK: f"{name}.{incarnation}", "PYTHONUNBUFFERED": "1"}
            pid, pidfd = guardian.start(command, {**fast(threads), **own}, log, log)
        except GuardianLostError as error:
            self._lose(guardian)
            raise SpawnerLostError(str(error)) from error
        finally:
            os.close(log)
        process = SpawnedProcess((name, incarnation), pid, pidfd, guardian)
        try:
            self._selector.register(pidfd, selectors.EVENT_READ, process.key)
        except BaseException:  # otherwise its end would go unnoticed
            self._end(process, signal.SIGKILL)
            self._wait(process)
            raise
        self._processes[process.key] = process
        return pid

    def _log(self, name: str, incarnation: int, about: str = "") -> int:
        """Open a process's log and write a heading, if the disk has room for it; raises OSError."""
        log = os.open(self._logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):
            os.write(log, f"--- {name}.{incarnation} {now}{about and f' {about}'}\n".encode())
        return log

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        """Signal a process that has beaten to write its stack to its log; failures are ignored."""
        with suppress(OSError):
            os.close(self._log(name, incarnation, about))
        self.kill(name, incarnation, STACK_SIGNAL)

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        """Signal a process, with SIGKILL its whole group; nothing happens if it is gone already."""
        if process := self._processes.get((name, incarnation)):
            self._end(process, sent)

    def lease(self, until_s: float) -> None:
        """Have all processes end at this time of CLOCK_BOOTTIME unless it is put off; this process may be stopped."""
        self._until_s = until_s
        if self._guardian is not None:
            try:
                self._guardian.lease(until_s)
            except GuardianLostError:
                self._lose(self._guardian)

    def reap(self, key: Key) -> int:
        """Return code of a process that has ended; what it may have started itself is ended too."""
        process = self._processes.pop(key)
        self._selector.unregister(process.pidfd)
        return self._wait(process)

    def reap_orphans(self) -> None:
        """Reap inherited orphans if this is the first process (pid 1) of a container, where no other process would.

        The guardian inherits the run's own orphans; these may come from a shell opened in the container.
        """
        if os.getpid() != 1:
            return
        with suppress(ChildProcessError):
            while gone := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if self._guardian is not None and gone.si_pid == self._guardian.pid:
                    self._lose(self._guardian)
                else:
                    os.waitpid(gone.si_pid, 0)

    def close(self) -> None:
        """End all remaining processes and the guardian."""
        if self._guardian is not None:
            self._guardian.close()
        for process in self._processes.values():
            self._selector.unregister(process.pidfd)
            os.close(process.pidfd)
        self._processes, self._guardian = {}, None
        self._selector.close()

    def _end(self, process: SpawnedProcess, sent: int) -> None:
        try:
            if sent == signal.SIGKILL:
                process.guardian.kill(process.pid)
            else:
                signal.pidfd_send_signal(process.pidfd, sent)
        except ProcessLookupError:
            pass
        except GuardianLostError:
            self._lose(process.guardian)

    def _wait(self, process: SpawnedProcess) -> int:
        os.close(process.pidfd)
        try:
            return process.guardian.returncode(process.pid)
        except GuardianLostError:
            self._lose(process.guardian)
            return -signal.SIGKILL

    def _lose(self, guardian: Guardian) -> None:
        """Give a guardian up: the kernel ends its children, this process the rest; the next start makes another."""
        guardian.close()
        if guardian is self._guardian:
            self._guardian = None
            end_marked(self._run_id)
            with suppress(OSError):
                os.close(self._log("guardian", guardian.pid, "was lost, and all processes with it"))


def environment(threads: int) -> dict[str, str]:
    """Return this process's environment variables with those of ``fast``."""
    return {**os.environ, **fast(threads)}


def fast(threads: int) -> dict[str, str]:
    """Return environment variables that make torch's processes faster.

    Measured on two cores of an AMD EPYC with the NIPS network. Idle OpenMP threads spin for some ten microseconds, to
    bridge the gaps within an update (192 rows in bf16: 14 ms instead of 17), and then sleep, because simulators need
    the cores. Freed memory is kept, in huge pages, because returning it means a page fault per 4 KiB in the next pass:
    an update of 192 rows in fp32 took 25 ms instead of 46 to 58; acting for 8 environments 0.8 ms instead of 1.7.
    """
    threads_of = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    asleep = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}
    kept = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
    tunables = ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1")))
    return {**threads_of, **asleep, **kept, "GLIBC_TUNABLES": tunables}
