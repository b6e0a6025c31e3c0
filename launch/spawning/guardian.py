"""The guardian of a run: parent of all its processes, so that the programs they start end with them.

A separate process that outlives a supervisor killed by SIGKILL. As a subreaper (prctl(2)) it becomes the parent of
every orphan below it, even of one that has left its process group, session and environment, so no descendant of a run
escapes. When the supervisor is gone, or has not put off the end of its lease, it kills its children, then inherits and
kills theirs, until there are none. When a role's process has ended it kills the processes that carry its mark, an
environment variable; a process that has cleared the variable ends with the run.

If the guardian itself is killed, the kernel ends the roles' processes (``processes/__main__.py``); the supervisor kills
all processes that carry the run's mark, and starts another guardian.

Run as a script, ``guardian.py SOCKET ABOUT``, and imported for ``Guardian``, the supervisor's end of that socket. Each
request is one JSON object and has one answer; nothing but the standard library is loaded.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

RUN_MARK, ROLE_MARK = "ACTORLEARN_RUN_ID", "ACTORLEARN_PROCESS"
"""Environment variables inherited by a role's descendants: the run id; and the process's name and incarnation."""
PARENT = "ACTORLEARN_PARENT_PID"
"""Environment variable: pid of the parent; a role's process ends with it."""

_PR_SET_CHILD_SUBREAPER = 36
ANSWER_S = 10.0
"""Longest wait for an answer, in seconds, which takes a millisecond; a stopped guardian is taken for dead."""
START_S = 120.0
"""Longest wait for the start of a process, or of the guardian, in seconds: both read the interpreter from disk."""
_END_S = 10.0
"""Longest time for ending all processes, in seconds; some may hang in the kernel, and other users' are not killable."""
_TURN_S = 0.005
_REQUEST_BYTES = 1 << 16


class GuardianLostError(OSError):
    """The guardian has died, or does not answer; the roles die with it."""


class Guardian:
    """The supervisor's end: starts a guardian, and processes as its children. The caller closes the descriptors."""

    def __init__(self, about: str) -> None:
        """Start a guardian; ``about`` describes the run in the process list. Raises OSError."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(number), about],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in the terminal must reach the supervisor only
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """Process id of the guardian."""
        return self._process.pid

    def start(self, command: Sequence[str], environment: Mapping[str, str], out: int, err: int) -> tuple[int, int]:
        """Start a command in its own process group; returns pid and pidfd. ``environment`` adds to this process's.

        Raises OSError when the command cannot be started, GuardianLostError when the guardian is gone.
        """
        answer, descriptors = self._ask({"start": list(command), "environment": dict(environment)}, [out, err])
        if "error" in answer:
            raise OSError(answer["errno"], answer["error"])
        return int(answer["pid"]), descriptors[0]

    def kill(self, pid: int) -> None:
        """Kill a process that was started here, with its group; raises GuardianLostError."""
        self._ask({"kill": pid})

    def returncode(self, pid: int) -> int:
        """Wait for the end of a process, reap it, and return its exit code. Raises GuardianLostError."""
        return int(self._ask({"wait": pid})[0]["returncode"])

    def lease(self, until_s: float) -> None:
        """Have all processes end at this time of CLOCK_BOOTTIME unless it is put off; raises GuardianLostError."""
        self._ask({"lease": until_s})

    def close(self) -> None:
        """End all processes and the guardian, and wait for that."""
        self._socket.close()
        try:
            self._process.wait(2 * _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        try:
            self._socket.settimeout(START_S if "start" in request else ANSWER_S)
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer, received, *_ = socket.recv_fds(self._socket, _REQUEST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            self._process.kill()
            raise GuardianLostError(f"the guardian, process {self.pid}, does not answer: {error}") from None
        if not answer:
            raise GuardianLostError(f"the guardian, process {self.pid}, has died")
        return json.loads(answer), received


def end_marked(run_id: str, limit_s: float = _END_S) -> None:
    """Kill every process of this user that carries a run's mark, until none is left; used after a guardian's death."""
    mark, deadline_s = f"{RUN_MARK}={run_id}".encode(), time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        found = [pid for number in _numbers() if mark in _environment(number) and (pid := _pid_of(number))]
        for pid in found:
            _kill(pid)
        if not found:
            return
        time.sleep(_TURN_S)


def run(command: Sequence[str], limit_s: float | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as subprocess.run with captured output; its descendants end with it, and all with this process.

    Raises OSError, and TimeoutExpired after ``limit_s``.
    """
    guardian = Guardian(command[-1])
    try:
        with _output() as out, _output() as err:
            pid, pidfd = guardian.start(command, environment, out.fileno(), err.fileno())
            exits = select.poll()
            exits.register(pidfd, select.POLLIN)
            try:
                ended = exits.poll(None if limit_s is None else 1000 * limit_s)
            finally:
                os.close(pidfd)
            if not ended:
                raise subprocess.TimeoutExpired(list(command), limit_s or 0.0)
            returncode = guardian.returncode(pid)
            texts = [file.read() for file in (out, err) if file.seek(0) == 0]
        return subprocess.CompletedProcess(list(command), returncode, *texts)
    finally:
        guardian.close()


def _output() -> TextIO:
    """Open a file in memory for a command's output, as a disk may be full; it is read when the command has ended."""
    return open(os.memfd_create("output"), "w+", errors="replace")


# The process itself -----------------------------------------------------------------------------------------------


class _Server:
    """The guardian's children by pid: started ones, until their exit code is requested, and inherited orphans."""

    def __init__(self) -> None:
        self._roles: dict[int, bytes] = {}
        """Mark of each started process by pid. It is reaped only with its exit code, so the pid is not reused."""
        self._ended: set[bytes] = set()
        """Marks of ended processes."""
        self._until_s: float | None = None
        """Time of CLOCK_BOOTTIME, which goes on while the machine sleeps, at which all end; None: never."""

    @property
    def left_s(self) -> float | None:
        """Seconds until all are to end; None where that is never."""
        return None if self._until_s is None else self._until_s - time.clock_gettime(time.CLOCK_BOOTTIME)

    def answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
        """Carry out a request; returns the answer and descriptors to pass with it."""
        if "start" in request:
            return self._start(request["start"], request["environment"], *descriptors)
        if "kill" in request:
            if request["kill"] in self._roles:
                _kill_group(request["kill"])
            return {}, []
        if "lease" in request:
            self._until_s = float(request["lease"])
            return {}, []
        pid = int(request["wait"])
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.bury()
        del self._roles[pid]
        return {"returncode": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}, []

    def _start(
        self, command: Sequence[str], changes: Mapping[str, str], out: int, err: int
    ) -> tuple[dict[str, Any], list[int]]:
        environment = {**os.environ, **changes, PARENT: str(os.getpid())}
        streams = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        try:
            pid = os.posix_spawn(
                command[0],
                list(command),
                environment,
                file_actions=[*streams, (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)],
                setpgroup=0,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
        except OSError as error:
            return {"errno": error.errno, "error": error.strerror}, []
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:  # without a pidfd its end would go unnoticed
            _kill_group(pid)
            return {"errno": error.errno, "error": error.strerror}, []
        self._roles[pid] = f"{ROLE_MARK}={environment.get(ROLE_MARK, '')}".encode()
        return {"pid": pid}, [pidfd]

    def bury(self) -> None:
        """Reap ended children except started ones, and kill the processes that ended roles have left."""
        for role, mark in self._roles.items():
            if os.waitid(os.P_PID, role, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._ended.add(mark)
                _kill_group(role)
        for number, pid in _children():
            if pid not in self._roles and not _reaped(pid) and not self._ended.isdisjoint(_environment(number)):
                _kill(pid)

    def end_all(self) -> None:
        """Kill all children, and their children as these are inherited, until there are none."""
        deadline_s = time.monotonic() + _END_S
        with suppress(ChildProcessError):  # there are none
            while time.monotonic() < deadline_s:
                for _, pid in _children():
                    if not _reaped(pid):
                        _kill(pid)
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                time.sleep(_TURN_S)


def _reaped(pid: int) -> bool:
    """Reap a child if it has ended; returns whether it had."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _kill(pid: int) -> None:
    with suppress(OSError):  # another user's, as sudo makes them
        os.kill(pid, signal.SIGKILL)


def _children() -> Iterator[tuple[str, int]]:
    """Yield number in /proc and pid of each child of this process; they differ where /proc is another namespace's."""
    own = os.readlink("/proc/self")
    try:
        numbers = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        numbers = [number for number in _numbers() if _status(number, "PPid") == [own]]
    for number in numbers:
        if pid := _pid_of(number):
            yield number, pid


def _numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()]


def _pid_of(number: str) -> int | None:
    """Return the pid in this namespace of a process by its number in /proc; None if it has none, or is this process.

    The line NSpid lists the pids in /proc's namespace and the nested ones, down to the process's own.
    """
    depth, pids = len(_status("self", "NSpid")), _status(number, "NSpid")
    pid = int(pids[depth - 1]) if len(pids) >= depth else None
    return pid if pid != os.getpid() else None


def _status(number: str, key: str) -> list[str]:
    with suppress(OSError):
        for line in Path(f"/proc/{number}/status").read_bytes().decode(errors="replace").splitlines():
            if line.startswith(f"{key}:"):
                return line.split()[1:]
    return []


def _environment(number: str) -> frozenset[bytes]:
    """Return the environment that a process was started with; empty if it is gone or another user's."""
    try:
        return frozenset(Path(f"/proc/{number}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def _serve(ours: socket.socket) -> None:
    """Answer the supervisor's requests until it is gone."""
    guard = _Server()
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked = select.poll()  # and not select.select, which knows no descriptor from 1,024 on
    for descriptor in (ours.fileno(), woken):
        asked.register(descriptor, select.POLLIN)
    try:
        while True:
            left_s = guard.left_s
            ready = [descriptor for descriptor, _ in asked.poll(None if left_s is None else max(0, 1000 * left_s))]
            if (left_s := guard.left_s) is not None and left_s <= 0:
                return
            if woken in ready:
                os.read(woken, 4096)
                guard.bury()
            if ours.fileno() in ready and not _answered(ours, guard):
                return
    finally:
        guard.end_all()


def _answered(ours: socket.socket, guard: _Server) -> bool:
    """Answer one request; False when the supervisor is gone."""
    try:
        request, descriptors, *_ = socket.recv_fds(ours, _REQUEST_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        if not request:
            return False
        answer, handed = guard.answer(json.loads(request), descriptors)
        socket.send_fds(ours, [json.dumps(answer).encode()], handed)
    except ConnectionError:
        return False
    for descriptor in (*descriptors, *handed):
        os.close(descriptor)
    return True


def main(arguments: Sequence[str]) -> None:
    """Run a guardian until the other end of its socket (a descriptor given as argument) is closed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # children inherit ignored signals, but no handlers
            signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with socket.socket(fileno=int(arguments[0])) as ours:
        ours.set_inheritable(False)
        _serve(ours)


if __name__ == "__main__":
    main(sys.argv[1:])
