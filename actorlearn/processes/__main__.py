"""Starts one process: ``python -m actorlearn.processes <role> <settings.json>``.

The supervisor starts the roles of a run; you can also start one in a debugger with the same settings file. Tasks answer
one question and end. ``worker/roles.py`` lists both. Only the role's own module is imported: simulators load torch only
if they run the policy themselves.
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
"""Longest time from the end of the work to the end of the process, in seconds; it is below the supervisor's limit."""


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent, the guardian of the run, ends for any reason."""
    parent = os.environ.get("ACTORLEARN_PARENT_PID")
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # the parent died before prctl was called
        sys.exit(1)


class _Log(io.RawIOBase):
    """A file whose writes never raise OSError; bytes for which the disk has no room are dropped."""

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


def lose_what_finds_no_room() -> None:
    """Replace stdout and stderr, so that printing raises no OSError and every line is written as it is printed.

    A full disk must neither end an environment that prints nor keep a process from reporting its error.
    """
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(_Log(handle), encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var]
        for handle in (1, 2)
    )


def main(arguments: list[str]) -> int:
    """Run a role or task to its end; returns 0 done, 1 failed, 2 wrong request, 3 refused by the supervisor."""
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
        lose_what_finds_no_room()
    faults = os.fdopen(os.dup(2), "w")
    faulthandler.enable(faults)
    signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # what the signal does again once faulthandler's handler has gone
    faulthandler.register(STACK_SIGNAL, faults, all_threads=True)
    if isinstance(spec, RoleSpec) and spec.latency_bound and not set_slice(SLICE_NS):
        print(
            "the kernel has no custom time slices (Linux 6.12 has): this process may wake up late on a busy machine",
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
            line = Control(settings.control, settings.id, settings.run_id, last_words=True)
            line.failed(f"{in_one_line(error)}{place_of(error)}")
            line.close()
        if answers is not None:
            own = words_of(error) if isinstance(error, ValueError | RuntimeError) else ""
            _write(answers, mark, {"error": own or in_one_line(error)})
        return 1
    if answers is not None:
        _write(answers, mark, answer)
    return 0


def _write(answers: int, mark: str, answer: Any) -> None:
    """Write a task's answer as a line of JSON that begins with the mark, after everything that was printed."""
    with suppress(ValueError, OSError):
        sys.stdout.flush()
    os.write(answers, f"\n{mark}{json.dumps(answer)}\n".encode())


def leave(status: int) -> NoReturn:
    """End this process within LEAVE_S, even if threads, processes or exit handlers of users' code do not end."""

    def end() -> None:
        time.sleep(LEAVE_S)
        os._exit(status)

    threading.Thread(target=end, daemon=True).start()
    sys.exit(status)


def _spec(name: str) -> RoleSpec | TaskSpec | None:
    """Return the role or task of this name; None, after a line on stderr, if there is none or it cannot be imported."""
    if name in TASKS:
        return TASKS[name]
    try:
        return ROLES.spec(name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return None


if __name__ == "__main__":
    own = sys.argv[1:]
    if own[:1] == [FORK_SERVER]:
        die_with_parent()
        own = fork_server.serve(int(own[-1]))  # returns in each process that it forks
    leave(main(own))
