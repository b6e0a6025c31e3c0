"""Files and folders that are replaced atomically, or appended to in whole records, on a disk that may be full or fail.

`write_atomically` writes to a temporary file in the same folder, flushes it to disk, and renames it. If the process or
the machine dies at any moment, the path has the old content or all of the new content. After the function has returned,
the new content survives a power cut. Appended records are not flushed to disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from actorlearn.failpoints import hit, through

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # both from linux/fcntl.h and linux/fs.h
libc = ctypes.CDLL(None, use_errno=True)


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
"""Error numbers of a disk that is full, over quota, broken, or read-only after a fault; they may be temporary."""

MOST_WAITING = 1000
"""Most records kept in memory while the disk cannot be written; beyond this number the oldest are lost."""


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the content of a file, or create it. Raises OSError that names the file.

    After an OSError the file has its old content, except if flushing the folder failed: it may then have the new one.
    If ``path`` is a symbolic link, the file that it points to is replaced. A pipe or device is written to directly.
    Without ``durable`` nothing is flushed to disk, which is faster, but a power cut may lose the file.
    """
    with _naming(path):
        if path.exists() and not path.is_file():  # before `resolve`, which finds no path of a pipe such as /dev/fd/3
            _write(path, data)
            return
    path = path.resolve()
    with _naming(path):
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
    """A file to which one process appends whole records.

    If only a part of a record can be written, the file is cut back to its former length. The record then waits in
    memory, and is written before the next one.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending, or create it."""
        self.path = path
        self._handle = self._open()
        self._waiting: deque[bytes] = deque(maxlen=MOST_WAITING)
        self._cut_at: int | None = None
        """Offset of a record that was written in part and could not be cut off; None if there is none."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle < 0

    def append(self, record: bytes, *, restore: bool = False) -> None:
        """Write the records that wait in memory, and then ``record``.

        Raises OSError that names the file; the record then waits too. With ``restore``, a file that another program has
        removed or renamed is first created again, empty.
        """
        self._waiting.append(record)
        with _naming(self.path):
            if restore:
                self._restore()
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

    def _restore(self) -> None:
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), os.fstat(self._handle)):
                return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        removed, self._handle = self._handle, self._open()
        self._cut_at = None
        os.close(removed)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def _write(self, record: bytes) -> None:
        self._cut()
        self._cut_at = os.fstat(self._handle).st_size
        try:
            _write_all(self._handle, record)
        except BaseException:
            with suppress(OSError):  # the next `_write` tries again
                self._cut()
            raise
        self._cut_at = None

    def _cut(self) -> None:
        if self._cut_at is not None:
            os.ftruncate(self._handle, self._cut_at)
            self._cut_at = None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raises OSError, without waiting, for a link, a pipe, a device or a folder.

    A run folder may come from another person, and a link in it could point to any file of the present user.
    """
    with _naming(path):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


def is_regular(path: Path) -> bool:
    """Whether ``open_regular`` can open this path."""
    try:
        open_regular(path).close()
    except OSError:
        return False
    return True


def drop_cut_line(path: Path) -> None:
    """Remove a last line without a newline, which a killed writer may leave, so that every line can be parsed."""
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
    """Write all bytes in a loop: the kernel may write a part and report the error only at the next call."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, through("files.write", left)) :]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to every OSError, because errors of a write name no file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def make_folder(path: Path) -> None:
    """Make a folder and its parents, and flush them so that they survive a power cut."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush(path.parent)


def put_in_place(new: Path, path: Path) -> None:
    """Move a finished folder to ``path``, replacing an older folder there. The caller must flush the parent folder.

    Where the file system can exchange paths, the older folder is then at ``new``, and ``path`` exists at every moment.
    Otherwise the older folder is renamed to ``.<name>.before``, and ``path`` is missing between the two renames. If
    this raises OSError, the older folder is at ``path`` again.
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
    """Flush a file's content, or a folder's list of names, to disk; some file systems cannot flush folders."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically; returns False, without a change, if the file system does not support it.

    Both must exist on one file system. Linux has had the call since 3.15, but some file systems, such as NFS, do not
    support it. Raises OSError for any other failure.
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
