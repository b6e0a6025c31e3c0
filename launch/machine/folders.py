"""Folders of runs of this user outside their run folders, and the removal of those that dead runs have left."""

from __future__ import annotations

import os
from pathlib import Path

from actorlearn.memory.owned import sweep
from actorlearn.memory.shared import sweep_shared


def sweep_all() -> tuple[list[str], list[str]]:
    """Remove leftovers of dead runs; returns the run ids of the shared memory and of the directories of sockets."""
    sockets = [run_id for root in sorted({runtime_root(), Path("/tmp")}) for run_id in sweep(root)]
    return sweep_shared(), sockets


def runtime_root() -> Path:
    """The folder in which runs of this user make the folders of their sockets: $XDG_RUNTIME_DIR, or else /tmp."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(named) if named else None
    # An ipc path has room for PATH_BYTES (actorlearn/address.py), 107, and ours takes up to 70 of them below the root.
    usable = root is not None and len(str(root)) <= 36 and root.is_dir() and os.access(root, os.W_OK)
    return root if root is not None and usable else Path("/tmp")
