"""Files and folders that are replaced whole: written beside, flushed to disk, and put in place by one rename.

Whatever moment a process, or the machine, dies at, the path holds what it held before or all of the new; and when a
function here has returned, a power cut takes nothing back.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # both from linux/fcntl.h and linux/fs.h
_libc = ctypes.CDLL(None, use_errno=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by one that holds these bytes; raises OSError, and then the file is as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    flush(path.parent)


def flush(path: Path) -> None:
    """Have a file's content, or a folder's list of names, on disk before anything that follows."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Give two paths each other's content at one stroke; False, and nothing done, where the system cannot.

    Both must exist, on one file system. Linux has had the call since 3.15, but not every file system serves it (NFS
    does not). Raises OSError for what is wrong otherwise.
    """
    if not hasattr(_libc, "renameat2"):
        return False
    ends = os.fsencode(one), os.fsencode(other)
    if _libc.renameat2(_AT_FDCWD, ends[0], _AT_FDCWD, ends[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
