"""Answers of child processes, one line of JSON each: an environment's shapes, a checkpoint's scores, torch's devices.

Child processes do the imports that are slow or may fail (torch, environments), so that the command line does not.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from launch.spawning import guardian


class NoAnswerError(RuntimeError):
    """A child ended without an answer; the text is the last line that it wrote to stderr, or its exit status."""


def ask(command: Sequence[str], limit_s: float | None = None, **environment: str) -> Any:
    """Run a command and return its answer; the command and its descendants end if this process ends.

    Raises NoAnswerError, OSError, and subprocess.TimeoutExpired after ``limit_s``.
    """
    done = guardian.run(command, limit_s, **environment)
    return answer(done.stdout, done.stderr, done.returncode)


def ask_task(task: str, settings: bytes, limit_s: float | None = None, **environment: str) -> Any:
    """Run a task of ``actorlearn/tasks`` with these settings, as JSON, and return its answer; raises as `ask` does."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-") as folder:
        path = Path(folder) / f"{task}.json"
        path.write_bytes(settings)
        return ask([sys.executable, "-m", "actorlearn.processes", task, str(path)], limit_s, **environment)


def answer(out: str, err: str, returncode: int) -> Any:
    """Return the last JSON object or array that a child wrote to stdout as a line; raises NoAnswerError without one.

    Other lines are ignored: users' code in the child may print any text before and after the answer.
    """
    for line in reversed(out.splitlines()):
        with suppress(ValueError):
            if isinstance(told := json.loads(line), dict | list):
                return told
    raise NoAnswerError((err.strip().splitlines() or [f"exit status {returncode}, no answer"])[-1])
