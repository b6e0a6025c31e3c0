"""Starts, signals and reaps processes on this machine. It uses pidfds, so that a reused pid is never signalled.

The processes are children of a guardian (``launch/spawning/guardian.py``), which ends their descendants. The supervisor
decides which processes run.
"""

from __future__ import annotations

import os
import selectors
import signal
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from actorlearn.processes.parent import PROCESS_COMMAND, STACK_SIGNAL
from launch.spawning import prepared
from launch.spawning.environment import fast
from launch.spawning.guardian import ROLE_MARK, RUN_MARK, Guardian, GuardianLostError, end_marked

Key = tuple[str, int]
"""Name and incarnation of a process."""


class SpawnerLostError(OSError):
    """A process was not started because the guardian has died, with all its processes; another try may succeed."""


@dataclass(frozen=True)
class SpawnedProcess:
    """A process that is alive, or has ended and is not reaped."""

    key: Key
    pid: int
    pidfd: int
    guardian: Guardian
    """Guardian that is its parent."""


class Spawner:
    """Starts, signals and reaps the processes of a run; their output goes to ``logs/<name>.log``."""

    def __init__(self, logs: Path, run_id: str) -> None:
        """``run_id``: value of the environment variable RUN_MARK in all processes."""
        self._selector = selectors.EpollSelector()
        self._logs = logs
        self._run_id = run_id
        self._guardian: Guardian | None = None
        self._until_s: float | None = None
        """Time at which guardians end all processes (`lease`); None: never."""
        self._processes: dict[Key, SpawnedProcess] = {}

    @property
    def fd(self) -> int:
        """Descriptor that becomes readable when a process ends, until it is reaped."""
        return self._selector.fileno()

    def ended(self) -> list[Key]:
        """Return the processes that have ended and are not reaped."""
        return [key.data for key, _ in self._selector.select(0)]

    def spawn(self, name: str, incarnation: int, role: str, settings: Path, threads: int) -> int:
        """Start ``python -m actorlearn.processes ROLE``; returns its pid. Raises SpawnerLostError or another OSError.

        ``settings``: its settings file; ``threads``: number of its OpenMP threads.
        """
        guardian = self._guardian = self._guardian or prepared.take() or Guardian(str(self._logs))
        log = self._log(name, incarnation)
        try:
            if self._until_s is not None:
                guardian.lease(self._until_s)
            command = [*PROCESS_COMMAND, role, str(settings)]
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
        except BaseException:  # otherwise its end would not be noticed
            self._end(process, signal.SIGKILL)
            self._wait(process)
            raise
        self._processes[process.key] = process
        return pid

    def _log(self, name: str, incarnation: int, about: str = "") -> int:
        """Open a process's log, write a heading with the text ``about``, and return the descriptor; raises OSError."""
        log = os.open(self._logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):
            os.write(log, f"--- {name}.{incarnation} {now}{about and f' {about}'}\n".encode())
        return log

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        """Let a process write its stack to its log, below the heading ``about``.

        Only for a process that has shown a sign of life: before that it may have no handler for the signal.
        """
        with suppress(OSError):
            os.close(self._log(name, incarnation, about))
        self.kill(name, incarnation, STACK_SIGNAL)

    def kill(self, name: str, incarnation: int, sent: int) -> None:
        """Send the signal ``sent`` to a process, SIGKILL to its process group; does nothing if it has ended."""
        if process := self._processes.get((name, incarnation)):
            self._end(process, sent)

    def lease(self, until_s: float) -> None:
        """Set the time (CLOCK_BOOTTIME) at which the guardian ends all processes, even if this one is suspended."""
        self._until_s = until_s
        if self._guardian is not None:
            try:
                self._guardian.lease(until_s)
            except GuardianLostError:
                self._lose(self._guardian)

    def reap(self, key: Key) -> int:
        """Reap an ended process and return its return code; the guardian ends its descendants."""
        process = self._processes.pop(key)
        self._selector.unregister(process.pidfd)
        return self._wait(process)

    def reap_orphans(self) -> None:
        """Reap ended orphans if this is the first process (pid 1) of a container, which inherits them."""
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
        """Close a dead guardian, and kill the descendants of its processes, which the kernel has ended."""
        guardian.close()
        if guardian is self._guardian:
            self._guardian = None
            end_marked(self._run_id)
            with suppress(OSError):
                os.close(self._log("guardian", guardian.pid, "was lost, with all its processes"))
