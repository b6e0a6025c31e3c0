"""Runs commands and tasks (``actorlearn/tasks``) in child processes, which answer with one line of JSON each.

Child processes do the imports that are slow or may fail (torch, environments), so that the command line does not.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from actorlearn.exceptions import place_in_stack
from actorlearn.processes.parent import ANSWER_MARK, PROCESS_COMMAND, STACK_SIGNAL
from launch.spawning.guardian import ROLE_MARK, CapturedCommand
from launch.spawning.prepared import wait_for_imports


class NoAnswerError(RuntimeError):
    """A child ended without an answer; the text says how it ended, or is the last line that it wrote to stderr."""


class TaskError(NoAnswerError):
    """A child answered that it cannot do its task; the text is its reason, in one line."""


class TooSlowError(NoAnswerError):
    """A child did not answer in time; the text says at which line of the user's code it was, if that is known."""


def ask(command: Sequence[str], limit_s: float | None = None, **environment: str) -> Any:
    """Run a command and return the JSON value that it prints; ``environment``: additional environment variables.

    Raises NoAnswerError, OSError, and subprocess.TimeoutExpired after ``limit_s`` seconds.
    """
    with CapturedCommand(command, environment) as started:
        done = started.wait(limit_s)
    return answer(done.stdout, done.stderr, done.returncode)


def ask_task(task: str, settings: bytes, limit_s: float | None = None, **environment: str) -> Any:
    """Run a task of ``actorlearn/tasks`` in a child process, and return its answer; ``settings``: JSON.

    Raises TaskError if the task failed, TooSlowError after ``limit_s`` seconds, NoAnswerError and OSError.
    """
    token = secrets.token_hex(8)
    marked = {ANSWER_MARK: token, ROLE_MARK: f"{task}-{token}", **environment}
    with tempfile.TemporaryDirectory(prefix="actorlearn-") as folder:
        path = Path(folder) / f"{task}.json"
        path.write_bytes(settings)
        with CapturedCommand([*PROCESS_COMMAND, task, str(path)], marked, wait_for_imports()) as started:
            try:
                done = started.wait(limit_s, STACK_SIGNAL)
            except subprocess.TimeoutExpired as late:
                raise TooSlowError(place_in_stack(str(late.stderr))) from None
    return answer(done.stdout, done.stderr, done.returncode, token)


def answer(out: str, err: str, returncode: int, mark: str = "") -> Any:
    """Return the answer of a child that has ended: the last line of ``out`` that is a JSON object or array.

    ``mark``: beginning of the answer's line; other lines may be text that users' code printed. Raises TaskError for the
    answer of a task that failed, and NoAnswerError if there is no answer.
    """
    for line in reversed(out.splitlines()):
        if not line.startswith(mark):
            continue
        with suppress(ValueError):
            if isinstance(told := json.loads(line.removeprefix(mark)), dict | list):
                if isinstance(told, dict) and told.keys() == {"error"}:
                    raise TaskError(told["error"])
                return told
    if returncode < 0:
        raise NoAnswerError(f"the process was ended by {_name_of_signal(-returncode)}{place_in_stack(err)}")
    said = (err.strip().splitlines() or [""])[-1]
    if "Traceback (most recent call last)" in err:
        raise NoAnswerError(said)
    raise NoAnswerError(f"exit status {returncode}, no answer" + (f"; its last line is: {said:.500}" if said else ""))


def _name_of_signal(number: int) -> str:
    with suppress(ValueError):
        return f"signal {number}, {signal.Signals(number).name}"
    return f"signal {number}"
