"""Output files that show whether a process is alive that writes to them: they are locked (flock) while they are open.

A process that starts another takes the lock, and the child inherits it with its output. The kernel releases the lock
when the last process that has inherited it has ended, for any reason. No process ids are stored, so none can be
confused with a reused id.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from launch.machine.file_locks import lock


def open_alone(path: Path) -> int:
    """Open an output file and lock it exclusively; raises BlockingIOError if a process that writes to it is alive."""
    return _open(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_beside(path: Path) -> int:
    """Open an output file with a shared lock, so that several processes can write to it."""
    return _open(path, fcntl.LOCK_SH)


def somebody_prints_to(path: Path) -> bool:
    """Whether a process with this output file is alive, or a child that has inherited it."""
    try:
        os.close(_open(path, fcntl.LOCK_EX | fcntl.LOCK_NB, create=0))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _open(path: Path, operation: int, create: int = os.O_CREAT) -> int:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | create, 0o644)  # NFS: shared locks need read access
    try:
        lock(file, operation, path)
    except BaseException:
        os.close(file)
        raise
    return file
