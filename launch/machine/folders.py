"""Folders in which runs have shared memory and sockets, and the removal of those that dead runs have left."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from actorlearn.address import PATH_BYTES
from actorlearn.memory.owned import name_of, sweep
from actorlearn.memory.shared import sweep_shared

SOCKET_NAME_BYTES = 32
"""Bytes reserved for a socket's name in a run's folder; the longest in a shipped mode is ``messages-63.sock``."""


def sweep_all() -> tuple[list[str], list[str]]:
    """Remove leftovers of dead runs; return the run ids of the removed shared memory and of the removed sockets."""
    sockets = [run_id for root in sorted({runtime_root(), Path("/tmp")}) for run_id in sweep(root)]
    return sweep_shared(), sockets


def new_run_id() -> str:
    """Return a random name for a run's directories."""
    return secrets.token_hex(6)


def longest_root() -> int:
    """Return the most bytes that `runtime_root` may have, because the paths of sockets are limited."""
    return PATH_BYTES - len(f"/{name_of(new_run_id())}/") - SOCKET_NAME_BYTES


def runtime_root() -> Path:
    """Return where runs make their folders of sockets: $XDG_RUNTIME_DIR, or /tmp if that cannot be used."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named) if named else None
    if root is None or len(os.fsencode(root)) > longest_root() or not root.is_dir() or not os.access(root, os.W_OK):
        return Path("/tmp")
    return root
