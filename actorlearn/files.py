"""Files and folders that are replaced whole, or grow by whole records, on a disk that may be full or fail.

A replacement is written to a file beside, flushed to disk, and renamed into place. Whenever the process or the machine
dies, the path holds the old content or all of the new; once a function here has returned, the new content survives a
power cut.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from actorlearn.failpoints import hit, through

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # both from linux/fcntl.h and linux/fs.h
libc = ctypes.CDLL(None, use_errno=True)


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
"""Error numbers of a disk that is full, over quota, broken, or read-only because it broke: they may pass."""

MOST_WAITING = 1000
"""Records kept in memory while the disk takes none; of more the oldest are lost."""


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file's content; raises OSError naming it, and then the file is unchanged.

    Only if flushing its folder failed may it already be the new one. A symbolic link is kept and its target replaced; a
    pipe or device is written to. Without ``durable`` nothing is flushed: faster, but a power cut may lose the new file.
    """
    path = path.resolve()
    with _naming(path):
        if path.exists() and not path.is_file():
            _write(path, data)
            return
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            _write(beside, data, durable)
            hit("files.written_beside")
            os.replace(beside, path)
            hit("files.replaced")
        except BaseException:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        if durable:
            flush(path.parent)


class AppendedFile:
    """A file that one process appends whole records to: never a part of one, whatever the disk says.

    A record that cannot be written waits in memory, and goes before the next one that can.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending, or create it."""
        self.path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._waiting: deque[bytes] = deque(maxlen=MOST_WAITING)
        self._cut_at: int | None = None
        """Offset of a record that was written in part and could not be cut off; None where there is none."""

    @property
    def closed(self) -> bool:
        """Whether nothing more can be appended."""
        return self._handle < 0

    def append(self, record: bytes) -> None:
        """Write waiting records and then this one; raises OSError naming the file, and then this one waits too."""
        self._waiting.append(record)
        with _naming(self.path):
            while self._waiting:
                self._write(self._waiting[0])
                self._waiting.popleft()

    def close(self) -> None:
        """Write waiting records if possible, and close; a second call does nothing."""
        if self.closed:
            return
        handle = self._handle
        with suppress(OSError):
            while self._waiting:
                self._write(self._waiting.popleft())
        self._handle = -1
        with suppress(OSError):
            os.close(handle)

    def _write(self, record: bytes) -> None:
        self._cut()
        self._cut_at = os.fstat(self._handle).st_size
        try:
            _write_all(self._handle, record)
        except BaseException:
            with suppress(OSError):  # before the next record it is tried again
                self._cut()
            raise
        self._cut_at = None

    def _cut(self) -> None:
        if self._cut_at is not None:
            os.ftruncate(self._handle, self._cut_at)
            self._cut_at = None


def drop_cut_line(path: Path) -> None:
    """Cut a last line without its newline, which a killed writer may leave, so that every line parses."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        position = end
        tail = b""
        while position > 0 and b"\n" not in tail:
            step = min(position, 4096)
            position = file.seek(position - step)
            tail = file.read(step) + tail
        kept = position + tail.rfind(b"\n") + 1
        if kept < end:
            file.truncate(kept)


def _write(path: Path, data: bytes, durable: bool = False) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        _write_all(handle, data)
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    """Write all bytes: the kernel may write a part, and gives the error only at the next call."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, through("files.write", left)) :]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have every OSError name this file: those of a write name none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def make_folder(path: Path) -> None:
    """Make a folder and those above it, so that they outlive a power cut."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush(path.parent)


def put_in_place(new: Path, path: Path) -> None:
    """Give a finished folder the name that an older one may have; that one is then hidden beside it, or not there.

    At every moment one of the two has the name; where paths cannot be exchanged, ``.<name>.before`` may be the older
    one's for a moment. Raises OSError, and then the older one has it.
    """
    if not path.exists():
        new.rename(path)
    elif not exchange(new, path):
        before = path.with_name(f".{path.name}.before")
        path.rename(before)
        hit("files.renamed_older")
        try:
            new.rename(path)
        except OSError:
            before.rename(path)
            raise


def flush(path: Path) -> None:
    """Have a file's content, or a folder's list of names, on disk before anything that follows."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; returns False, with nothing done, where the file system does not support it.

    Both must exist, on one file system. Linux has had the call since 3.15, but not every file system supports it (NFS
    does not). Raises OSError for any other failure.
    """
    if not hasattr(libc, "renameat2"):
        return False
    ends = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, ends[0], _AT_FDCWD, ends[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
