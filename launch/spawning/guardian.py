"""The guardian of a run: the parent of all its processes, which ends them and the programs that they start.

It is a separate process, so that it survives when the supervisor is killed by SIGKILL. It is a subreaper (prctl(2)): it
becomes the parent of every orphan among its descendants.

* When the supervisor has ended, or has not renewed the lease in time, the guardian kills its children, then the orphans
  that it inherits from them, until none is left.
* When a process of a role (a simulator, a trainer ...) has ended, the guardian kills the programs that it has started.
  They have inherited its mark, an environment variable. Programs without the mark are killed when no role is left.
* If the guardian itself is killed, the kernel ends the processes of roles (``processes/__main__.py``). The supervisor
  then kills all processes with the run's mark, and starts another guardian.

This file is run as a script, ``guardian.py SOCKET ABOUT``. The supervisor imports ``Guardian`` from it. Each request on
the socket is one JSON object and has one answer. Only the standard library is imported.
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
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

RUN_MARK, ROLE_MARK = "ACTORLEARN_RUN_ID", "ACTORLEARN_PROCESS"
"""Environment variables that mark a role's process and its descendants: run id; name and incarnation."""
PARENT = "ACTORLEARN_PARENT_PID"
"""Environment variable with the pid of the parent; a role's process ends when this parent ends."""

_PR_SET_CHILD_SUBREAPER = 36
ANSWER_S = 10.0
"""Longest wait for an answer, in seconds. An answer takes a millisecond; without one the guardian counts as dead."""
START_S = 120.0
"""Longest wait for the start of a process or of the guardian, in seconds; both read the interpreter from disk."""
_END_S = 10.0
"""Longest time to end all processes, in seconds: some may hang in the kernel or belong to other users."""
_FORK_S = 5.0
"""Longest wait for a fork, in seconds. The fork server then counts as dead, and the process is started without it."""
_FORK_SERVER = "fork_server"
"""Value of ROLE_MARK for the fork server, and for its forks until they set their own."""
_TURN_S = 0.005
SEARCHES = 3
"""Searches in a row that must find no marked process; a process shows no environment while it replaces its program."""
STACK_S = 2.0
"""Time that a process has to write its stack, in seconds."""
_REQUEST_BYTES = 1 << 16


class GuardianLostError(OSError):
    """The guardian has died or does not answer; the processes that it has started end with it."""


class Guardian:
    """Starts a guardian, and lets it start, kill and reap processes."""

    def __init__(self, about: str) -> None:
        """Start a guardian; ``about``: describes the run in the system's process list. Raises OSError."""
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

    def prepare(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a fork server, which imports torch, so that later processes start faster; raises OSError.

        Once it is ready, ``start`` forks it for commands that begin like ``command`` without its last two arguments.
        """
        self._ask({"prepare": list(command), "environment": dict(environment)})

    def preparing(self) -> bool:
        """Whether the fork server still imports; raises GuardianLostError."""
        return bool(self._ask({"preparing": True})[0]["preparing"])

    def start(self, command: Sequence[str], environment: Mapping[str, str], out: int, err: int) -> tuple[int, int]:
        """Start a command in its own process group; returns pid and pidfd, which the caller closes.

        ``environment``: variables added to the guardian's; ``out``, ``err``: descriptors for its output. Raises OSError
        if the command cannot be started, and GuardianLostError.
        """
        answer, descriptors = self._ask({"start": list(command), "environment": dict(environment)}, [out, err])
        if "error" in answer:
            raise OSError(answer["errno"], answer["error"])
        return int(answer["pid"]), descriptors[0]

    def kill(self, pid: int) -> None:
        """Kill a process that was started here, and its process group; raises GuardianLostError."""
        self._ask({"kill": pid})

    def returncode(self, pid: int) -> int:
        """Wait for the end of a process, and return its exit code, negative for a signal; raises GuardianLostError."""
        return int(self._ask({"wait": pid})[0]["returncode"])

    def lease(self, until_s: float) -> None:
        """Set the time (CLOCK_BOOTTIME) at which the guardian ends all processes; raises GuardianLostError."""
        self._ask({"lease": until_s})

    def close(self) -> None:
        """End all processes and the guardian, and wait until they have ended."""
        self._socket.close()
        try:
            self._process.wait(2 * _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> tuple[dict[str, Any], list[int]]:
        try:
            self._socket.settimeout(START_S if request.keys() & {"start", "prepare"} else ANSWER_S)
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer, received = _receive(self._socket, 1)
        except OSError as error:
            self._process.kill()
            raise GuardianLostError(f"the guardian, process {self.pid}, does not answer: {error}") from None
        if not answer:
            raise GuardianLostError(f"the guardian, process {self.pid}, has died")
        return json.loads(answer), received


def _receive(sender: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """Receive a message and at most ``most`` descriptors, which child processes do not inherit."""
    message, descriptors, *_ = socket.recv_fds(sender, _REQUEST_BYTES, most)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # recv_fds of Python 3.11 ignores MSG_CMSG_CLOEXEC
    return message, descriptors


def end_marked(run_id: str) -> None:
    """Kill this user's processes whose environment has the mark of a run, until none is left."""
    mark, deadline_s = f"{RUN_MARK}={run_id}".encode(), time.monotonic() + _END_S
    searches_without = 0
    while searches_without < SEARCHES and time.monotonic() < deadline_s:
        found = [pid for number in _numbers() if mark in _environment(number) and (pid := _pid_of(number))]
        for pid in found:
            _kill(pid)
        searches_without = 0 if found else searches_without + 1
        time.sleep(_TURN_S)


class CapturedCommand:
    """A running command whose output is captured; its descendants end with it, and all of them with this process."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, guardian: Guardian | None = None
    ) -> None:
        """Start the command; raises OSError.

        ``guardian``: an open guardian that starts it, and finds its descendants by the ROLE_MARK that ``environment``
        must have; None: a new guardian for this command alone.
        """
        self._command = list(command)
        with ExitStack() as opened:
            self._guardian = guardian or opened.enter_context(closing(Guardian(command[-1])))
            self._out, self._err = (opened.enter_context(_output()) for _ in range(2))
            out, err = self._out.fileno(), self._err.fileno()
            self._pid, self._pidfd = self._guardian.start(command, environment or {}, out, err)
            opened.callback(os.close, self._pidfd)
            self._returncode: int | None = None
            if guardian is not None:
                opened.callback(self._end)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, limit_s: float | None = None, stack_signal: int | None = None) -> subprocess.CompletedProcess[str]:
        """Wait until the command ends; return its output and return code; raises TimeoutExpired after ``limit_s``.

        ``stack_signal``: sent before TimeoutExpired is raised; at this signal the command writes its stack to stderr.
        """
        exits = select.poll()
        exits.register(self._pidfd, select.POLLIN)
        ended = exits.poll(None if limit_s is None else 1000 * limit_s)
        if not ended and stack_signal is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, stack_signal)
            exits.poll(1000 * STACK_S)
        returncode = self._reap() if ended else 0
        texts = [file.read() for file in (self._out, self._err) if file.seek(0) == 0]
        if not ended:
            raise subprocess.TimeoutExpired(self._command, limit_s or 0.0, *texts)
        return subprocess.CompletedProcess(self._command, returncode, *texts)

    def close(self) -> None:
        """End the command, and discard its output; a second call does nothing."""
        self._opened.close()

    def _end(self) -> None:
        with suppress(GuardianLostError):  # all its processes end with it; an error of the caller is more important
            self._reap()

    def _reap(self) -> int:
        """End the command and its descendants, once; returns its return code."""
        if self._returncode is None:
            self._guardian.kill(self._pid)
            self._returncode = self._guardian.returncode(self._pid)
        return self._returncode


def _output() -> TextIO:
    """Open a file in memory for a command's output; a disk may be full."""
    return open(os.memfd_create("output"), "w+", errors="replace")


# The process itself -----------------------------------------------------------------------------------------------


@dataclass
class _ForkServer:
    """A process that imports what other processes need and is forked for each (``processes/fork_server.py``)."""

    pid: int
    command: tuple[str, ...]
    """Beginning of the commands that it can start."""
    socket: socket.socket
    ready: bool = False
    """Whether it has finished its imports."""


class _Server:
    """The guardian's side of the socket: handles requests, and kills orphans."""

    def __init__(self) -> None:
        self._roles: dict[int, bytes] = {}
        """Pid of each started process -> its mark, until its exit code is requested. Only then is the process reaped.

        Therefore no pid in this mapping is reused.
        """
        self._ended: set[bytes] = set()
        """Marks of ended processes."""
        self._fork_server: _ForkServer | None = None
        self._until_s: float | None = None
        """Time of CLOCK_BOOTTIME, which also advances while the machine sleeps, at which all are ended; None: never."""

    @property
    def left_s(self) -> float | None:
        """Seconds until the lease is over and all processes are ended; None without a lease."""
        return None if self._until_s is None else self._until_s - time.clock_gettime(time.CLOCK_BOOTTIME)

    def answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
        if "start" in request:
            return self._start(request["start"], request["environment"], *descriptors)
        if "prepare" in request:
            self._prepare(request["prepare"], request["environment"])
            return {}, []
        if "preparing" in request:
            return {"preparing": self._preparing()}, []
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
        returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not self._roles:
            self._end_others(None)
        return {"returncode": returncode}, []

    def _start(
        self, command: Sequence[str], changes: Mapping[str, str], out: int, err: int
    ) -> tuple[dict[str, Any], list[int]]:
        changes = {**changes, PARENT: str(os.getpid())}
        mark = f"{ROLE_MARK}={changes.get(ROLE_MARK, os.environ.get(ROLE_MARK, ''))}".encode()
        try:
            pid = self._fork(command, changes, mark, out, err) or _spawn(command, changes, (out, 1), (err, 2))
        except OSError as error:
            return {"errno": error.errno, "error": error.strerror}, []
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:  # without a pidfd its end would not be noticed
            _kill_group(pid)
            return {"errno": error.errno, "error": error.strerror}, []
        self._roles[pid] = mark
        return {"pid": pid}, [pidfd]

    def _prepare(self, command: Sequence[str], changes: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            marked = {**changes, PARENT: str(os.getpid()), ROLE_MARK: _FORK_SERVER}
            pid = _spawn([*command, "3"], marked, (nothing, 1), (nothing, 2), (theirs.fileno(), 3))
        except OSError:  # processes are then started without it
            ours.close()
        else:
            ours.settimeout(_FORK_S)
            self._fork_server = _ForkServer(pid, tuple(command[:-2]), ours)
        finally:
            theirs.close()
            os.close(nothing)

    def _preparing(self) -> bool:
        server = self._fork_server
        if server is None or server.ready:
            return False
        arrived = select.poll()
        arrived.register(server.socket, select.POLLIN)
        if not arrived.poll(0):
            return True
        with suppress(OSError):
            server.ready = bool(server.socket.recv(_REQUEST_BYTES))
        if not server.ready:
            self._lose_fork_server(server)
        return False

    def _fork(self, command: Sequence[str], changes: Mapping[str, str], mark: bytes, out: int, err: int) -> int:
        """Start a command as a fork of the fork server; returns its pid, 0 if the server cannot."""
        server = None if self._preparing() else self._fork_server
        if server is None or tuple(command[: len(server.command)]) != server.command:
            return 0
        asked = {"arguments": command[len(server.command) :], "environment": changes}
        try:
            socket.send_fds(server.socket, [json.dumps(asked).encode()], [out, err])
            answer = server.socket.recv(_REQUEST_BYTES)
        except OSError:
            answer = b""
        pid = int(json.loads(answer)["pid"]) if answer else 0
        if not pid:
            self._lose_fork_server(server, mark)
        return pid

    def _lose_fork_server(self, server: _ForkServer, *marks: bytes) -> None:
        """End the fork server, and the processes with one of these marks."""
        server.socket.close()
        self._fork_server = None
        self._end_others({f"{ROLE_MARK}={_FORK_SERVER}".encode(), *marks})

    def bury(self) -> None:
        """Reap ended orphans, and kill the descendants of started processes that have ended."""
        for role, mark in self._roles.items():
            if os.waitid(os.P_PID, role, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._ended.add(mark)
                _kill_group(role)
        self._kill_others(self._ended)

    def _end_others(self, marks: Set[bytes] | None) -> None:
        """Repeat `_kill_others` until there are none, for at most _FORK_S, so that an answer is not late."""
        searches_without, deadline_s = 0, time.monotonic() + _FORK_S
        while searches_without < SEARCHES and time.monotonic() < deadline_s:
            searches_without = 0 if self._kill_others(marks) else searches_without + 1
            time.sleep(_TURN_S)

    def _kill_others(self, marks: Set[bytes] | None) -> bool:
        """Kill the orphans that have one of these marks, or all (None), and reap ended ones; returns whether any lived.

        Orphans are all children that were not started by a request and are not the fork server.
        """
        own = {*self._roles, self._fork_server.pid if self._fork_server else 0}
        found = False
        for number, pid in _children():
            if pid in own or _reaped(pid):
                continue
            if marks is None or not marks.isdisjoint(_environment(number)):
                found = True
                _kill(pid)
        return found

    def end_all(self) -> None:
        """Kill all children and all orphans, until none is left."""
        deadline_s = time.monotonic() + _END_S
        with suppress(ChildProcessError):  # there are none
            while time.monotonic() < deadline_s:
                for _, pid in _children():
                    if not _reaped(pid):
                        _kill(pid)
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                time.sleep(_TURN_S)


def _spawn(command: Sequence[str], changes: Mapping[str, str], *descriptors: tuple[int, int]) -> int:
    """Start a command in its own process group; returns its pid. Raises OSError.

    ``changes``: environment variables to add. ``descriptors``: pairs of a descriptor and its number in the process.
    """
    return os.posix_spawn(
        command[0],
        list(command),
        {**os.environ, **changes},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, descriptor, number) for descriptor, number in descriptors),
        ],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these; children inherit that
    )


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _kill(pid: int) -> None:
    with suppress(OSError):  # it may belong to another user, for example after sudo
        os.kill(pid, signal.SIGKILL)


def _children() -> Iterator[tuple[str, int]]:
    """Yield each child's number in /proc and its pid; they differ if /proc belongs to another pid namespace."""
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
    """Return the pid of a process from its number in /proc; None if it has none here, or is this process.

    The line NSpid lists the pids of a process, from the namespace of /proc down to the process's own namespace.
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
    """Return the environment variables of a process at its start; empty if it has ended or is another user's."""
    try:
        return frozenset(Path(f"/proc/{number}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def _serve(ours: socket.socket) -> None:
    """Answer the supervisor's requests until it has ended or the lease is over; then end all processes."""
    guard = _Server()
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    asked = select.poll()  # select.select is limited to descriptors below 1,024
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
    """Receive and answer one request; returns False if the supervisor has ended."""
    try:
        request, descriptors = _receive(ours, 2)
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
    """Run a guardian until its lease is over or its socket is closed; the first argument is the socket's descriptor."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # children inherit ignored signals, but no handlers
            signal.signal(number, lambda *_: None)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with socket.socket(fileno=int(arguments[0])) as ours:
        ours.set_inheritable(False)
        _serve(ours)


if __name__ == "__main__":
    main(sys.argv[1:])
