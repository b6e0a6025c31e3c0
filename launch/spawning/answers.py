"""Answers of child processes, one line of JSON each: what an environment is, what a checkpoint scores, what torch sees.

Whatever takes memory and seconds to import, or may end its process, is thereby never imported by the command line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from launch.spawning import guardian


class NoAnswerError(RuntimeError):
    """A child ended without an answer; the text is the last line it wrote to stderr, or its exit status."""


def ask(command: Sequence[str], limit_s: float | None = None, **environment: str) -> Any:
    """Run a command to its end and return its answer; it ends with us, and what it has started with it.

    Raises NoAnswerError, OSError, and subprocess.TimeoutExpired after ``limit_s``.
    """
    done = guardian.run(command, limit_s, **environment)
    return answer(done.stdout, done.stderr, done.returncode)


def answer(out: str, err: str, returncode: int) -> Any:
    """Read the last line that a child wrote to stdout; raises NoAnswerError where it is no JSON object or array."""
    try:
        told = json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        told = None
    if not isinstance(told, dict | list):
        raise NoAnswerError((err.strip().splitlines() or [f"exit status {returncode}, no answer"])[-1])
    return told
