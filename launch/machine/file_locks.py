"""Locks (flock) on files and folders that the user names, which may be on a file system without locks."""

from __future__ import annotations

import fcntl
from pathlib import Path

from launch.errors import RunError


def lock(handle: int, operation: int, path: Path) -> None:
    """Lock an open file or folder; raises BlockingIOError if another process has locked it.

    Raises RunError, which names the folder, if the file system has no locks.
    """
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        folder = path if path.is_dir() else path.parent
        raise RunError(
            f"{folder}: the file system cannot lock files (flock: {error.strerror}); name a folder on another file "
            "system, or mount this one with locks (Lustre: -o flock)"
        ) from None
