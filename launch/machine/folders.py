"""Folders of runs of this user outside their run folders, and the removal of those that dead runs have left."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from actorlearn.address import PATH_BYTES
from actorlearn.memory.owned import name_of, sweep
from actorlearn.memory.shared import sweep_shared

SOCKET_NAME_BYTES = 32
"""Room for the name of a socket in a run's folder; the longest of a shipped mode is ``messages-63.sock``."""


def sweep_all() -> tuple[list[str], list[str]]:
    """Remove leftovers of dead runs; returns the run ids of the shared memory and of the directories of sockets."""
    sockets = [run_id for root in sorted({runtime_root(), Path("/tmp")}) for run_id in sweep(root)]
    return sweep_shared(), sockets


def new_run_id() -> str:
    """Return a random name for a run's directories."""
    return secrets.token_hex(6)


def longest_root() -> int:
    """Return how many bytes the path of ``runtime_root`` may have, so that the paths of sockets below it fit."""
    return PATH_BYTES - len(f"/{name_of(new_run_id())}/") - SOCKET_NAME_BYTES


def runtime_root() -> Path:
    """Return the folder in which runs of this user make folders of sockets: $XDG_RUNTIME_DIR, or else /tmp."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named) if named else None
    if root is None or len(os.fsencode(root)) > longest_root() or not root.is_dir() or not os.access(root, os.W_OK):
        return Path("/tmp")
    return root
