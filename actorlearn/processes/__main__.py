"""Runs one process of a run, or a task: ``python -m actorlearn.processes <role or task> <settings.json>``.

The supervisor starts processes with this command, or as forks of a fork server (``processes/fork_server.py``) with the
same arguments. You can start one in a debugger with the same settings file. A task computes one answer, prints it, and
ends. ``worker/roles.py`` lists roles and tasks. The command imports only the module of its role or task.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from actorlearn.exceptions import in_one_line, place_of, words_of
from actorlearn.processes import fork_server
from actorlearn.processes.parent import ANSWER_MARK, FORK_SERVER, STACK_SIGNAL
from actorlearn.wire.control import Control, TurnedAwayError
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES, TASKS, RoleSpec, TaskSpec
from actorlearn.worker.scheduling import SLICE_NS, set_slice

_PR_SET_PDEATHSIG = 1
LEAVE_S = 2.0
"""Longest time, in seconds, from the end of the work to the end of the process; the supervisor waits longer."""


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent, the guardian of the run, ends for any reason."""
    parent = os.environ.get("ACTORLEARN_PARENT_PID")
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # the parent died before prctl was called
        sys.exit(1)


class _Log(io.RawIOBase):
    """A file whose writes never raise OSError; bytes that cannot be written are dropped."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            os.write(self._handle, data)
        return memoryview(data).nbytes


def drop_output_on_full_disk() -> None:
    """Replace stdout and stderr by streams that write each line at once and drop it if the disk is full.

    Otherwise a full disk would end the process at its next ``print``, or keep it from reporting its error.
    """
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_Log(handle), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        for handle in (1, 2)
    )


def main(arguments: list[str]) -> int:
    """Run a process of the role or task that ``arguments`` name until it ends, and return its exit status.

    The status is 0 if it has ended normally, 1 after an exception, 2 if arguments or settings are invalid, and 3 if the
    supervisor has refused the process.
    """
    spec = _spec(arguments[0]) if len(arguments) == 2 else None
    if spec is None:
        known = ",".join((*ROLES.names(), *TASKS))
        print(f"usage: python -m actorlearn.processes {{{known}}} SETTINGS.json", file=sys.stderr)
        return 2
    die_with_parent()
    path = arguments[1]
    answers = os.dup(1) if isinstance(spec, TaskSpec) else None  # the code of users may close standard output
    mark = os.environ.pop(ANSWER_MARK, "")
    if isinstance(spec, RoleSpec):  # not for a task, whose output must reach the process that started it
        drop_output_on_full_disk()
    faults = os.fdopen(os.dup(2), "w")
    faulthandler.enable(faults)
    signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # the action that faulthandler restores when it is unregistered
    faulthandler.register(STACK_SIGNAL, faults, all_threads=True)
    if isinstance(spec, RoleSpec) and spec.latency_bound and not set_slice(SLICE_NS):
        print(
            "this kernel has no custom time slices, which need Linux 6.12: on a busy machine this process may wake up "
            "late",
            flush=True,
        )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the supervisor handles Ctrl-C
    run = spec.load()
    try:
        settings = all_settings.read(Path(path), spec.settings)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        answer = run(settings)
    except TurnedAwayError as refusal:
        print(f"refused: {refusal}", file=sys.stderr)
        return 3
    except BaseException as error:  # the code of users may also raise SystemExit and KeyboardInterrupt
        with suppress(ValueError):  # it may have closed the stream
            traceback.print_exc()
        if isinstance(settings, all_settings.ProcessSettings):
            control = Control(settings.control, settings.id, settings.run_id, last_words=True)
            control.failed(f"{in_one_line(error)}{place_of(error)}")
            control.close()
        if answers is not None:
            text = words_of(error) if isinstance(error, ValueError | RuntimeError) else ""
            _write(answers, mark, {"error": text or in_one_line(error)})
        return 1
    if answers is not None:
        _write(answers, mark, answer)
    return 0


def _write(answers: int, mark: str, answer: Any) -> None:
    """Write a task's answer: a line of JSON after ``mark``, which tells it from lines that user code prints."""
    with suppress(ValueError, OSError):
        sys.stdout.flush()
    os.write(answers, f"\n{mark}{json.dumps(answer)}\n".encode())


def leave(status: int) -> NoReturn:
    """End this process within LEAVE_S seconds, even if threads or exit handlers of users' code do not end."""

    def end() -> None:
        time.sleep(LEAVE_S)
        os._exit(status)

    threading.Thread(target=end, daemon=True).start()
    sys.exit(status)


def _spec(name: str) -> RoleSpec | TaskSpec | None:
    """Return the role or task of this name. If that fails, print the reason to stderr and return None."""
    if name in TASKS:
        return TASKS[name]
    try:
        return ROLES.spec(name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return None


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == [FORK_SERVER]:
        die_with_parent()
        arguments = fork_server.serve(int(arguments[-1]))  # returns in each process that it forks
    leave(main(arguments))
