"""Files that processes print to, which tell whether one of those is alive: they are locked (flock) while they are open.

Whoever starts a process takes the lock, and the process inherits it with its output. The kernel lets it go when the
last process that has inherited it is gone, however that was: no process id is remembered, and none can be taken for
another's.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def open_alone(path: Path) -> int:
    """Open a file to print to, and lock it; raises BlockingIOError where somebody who prints to it is alive."""
    return _open(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_beside(path: Path) -> int:
    """Open a file to print to beside others who do, and lock it together with them."""
    return _open(path, fcntl.LOCK_SH)


def somebody_prints_to(path: Path) -> bool:
    """Whether a process to which such a file was given is alive, or one that it has started."""
    try:
        os.close(_open(path, fcntl.LOCK_EX | fcntl.LOCK_NB, create=0))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _open(path: Path, lock: int, create: int = os.O_CREAT) -> int:
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | create, 0o644)  # NFS: to share is to read
    try:
        fcntl.flock(file, lock)
    except OSError:
        os.close(file)
        raise
    return file
