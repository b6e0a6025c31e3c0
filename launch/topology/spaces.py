"""Asks an environment of what kind its actions and observations are, in a child process, once for each.

The command line thus imports no environment. One that cannot be made is of the kind that its id says; the plan, which
needs it made, says why it cannot be.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.worker.settings import SpacesSettings
from launch.spawning import answers
from launch.topology.keys import struct_at

LIMIT_S = 60.0
"""Longest time in which an environment is made for this question."""


def ask(env: Mapping[str, Any]) -> str:
    """Return the kind of numbers (``actorlearn/envs/specs.py``) for an environment's section; empty where none is."""
    try:
        settings = msgspec.convert(env, cast("type[EnvSettings]", struct_at("env", {"env": env})))
    except ValueError:  # which is reported as written
        return ""
    return _ask(msgspec.json.encode(SpacesSettings(env=settings)))


@cache
def _ask(question: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="actorlearn-") as folder:
        path = Path(folder) / "spaces.json"
        path.write_bytes(question)
        command = [sys.executable, "-m", "actorlearn.processes", "spaces", str(path)]
        try:
            answer = answers.ask(command, LIMIT_S)
        except (answers.NoAnswerError, subprocess.TimeoutExpired):
            return ""
    return str(answer.get("like", "")) if isinstance(answer, dict) else ""
