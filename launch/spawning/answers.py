"""Answers of child processes, one line of JSON each: an environment's shapes, a checkpoint's scores, torch's devices.

Child processes do the slow and risky imports (torch, environments), so that the command line never does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from launch.spawning import guardian


class NoAnswerError(RuntimeError):
    """A child ended without an answer; the text is the last line it wrote to stderr, or its exit status."""


def ask(command: Sequence[str], limit_s: float | None = None, **environment: str) -> Any:
    """Run a command to its end and return its answer; the command and its descendants end with this process.

    Raises NoAnswerError, OSError, and subprocess.TimeoutExpired after ``limit_s``.
    """
    done = guardian.run(command, limit_s, **environment)
    return answer(done.stdout, done.stderr, done.returncode)


def answer(out: str, err: str, returncode: int) -> Any:
    """Read the last JSON object or array that a child wrote to stdout, as a line; raises NoAnswerError without one.

    Code of users that it ran may have printed anything before it, and after it at its exit.
    """
    for line in reversed(out.splitlines()):
        with suppress(ValueError):
            if isinstance(told := json.loads(line), dict | list):
                return told
    raise NoAnswerError((err.strip().splitlines() or [f"exit status {returncode}, no answer"])[-1])
