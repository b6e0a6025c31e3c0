"""Locks (flock) on files and folders. The lock on an output file shows whether a process that writes to it is alive.

A process that starts another one opens the output file and locks it; the child inherits the open file, and the lock
with it. The kernel releases the lock when the last process that has inherited it has ended, for any reason. No process
ids are stored, so none can be confused with a reused id.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from launch.errors import RunError

_LAST_BYTES = 4096


def lock(handle: int, operation: int, path: Path) -> None:
    """Lock an open file or folder; raises BlockingIOError if another process has locked it.

    ``operation``: as for fcntl.flock. ``path``: named in the RunError that is raised if the file system has no locks.
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


def is_locked(folder: Path) -> bool:
    """Whether a process has locked a folder; False if there is no such folder, or if the file system has no locks."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
    except BlockingIOError:
        return True
    except RunError:
        return False
    finally:
        os.close(handle)
    return False


def open_alone(path: Path) -> int:
    """Open an output file for one process; raises BlockingIOError if another that has opened it is alive."""
    return _open(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_beside(path: Path) -> int:
    """Open an output file for a process; others may open it too."""
    return _open(path, fcntl.LOCK_SH)


def somebody_prints_to(path: Path) -> bool:
    """Whether a process that has opened this output file, or inherited it, is alive."""
    try:
        os.close(_open(path, fcntl.LOCK_EX | fcntl.LOCK_NB, create=0))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def last_line(path: Path) -> str:
    """Return the last non-empty line of an output file; "" if there is none."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _open(path: Path, operation: int, create: int = os.O_CREAT) -> int:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | create, 0o644)  # NFS: shared locks need read access
    try:
        lock(file, operation, path)
    except BaseException:
        os.close(file)
        raise
    return file
