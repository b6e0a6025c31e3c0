"""Shared memory segments: files of named arrays in a directory of /dev/shm for each run.

A segment is a file with a header (magic, layout version, pid of the creator, a table of the fields, and a checksum of
these) and the arrays of the fields. It is allocated with ``posix_fallocate``, so that a full /dev/shm raises an error
here instead of a SIGBUS later. It is mapped with ``mmap``, so numpy and torch use it without a copy. Python's
SharedMemory is not used: before Python 3.13 the exit of a reader destroys the segment for all other processes.

Memory order: an 8-byte word is written and read atomically, and a reader that sees a new word also sees everything that
was written before it. This holds on x86-64 (total store order), on which the project is tested. On other machines a run
starts only if its topology allows it (``launch/plan/memory_order.py``).
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from actorlearn.memory.fields import Field, layout, views
from actorlearn.memory.owned import OwnedDirectory, name_of, owned_directories, sweep

LAYOUT_VERSION = 2
SHM_ROOT = Path("/dev/shm")
_MAGIC = b"ACTLEARN"
_HEADER_BYTES = 16 * 1024
_PREFIX = struct.Struct("<8sIIII")  # magic, layout version, bytes of the field table, pid of the creator, checksum


class SharedMemoryFull(OSError):
    """/dev/shm has less free memory than needed."""

    def __str__(self) -> str:
        """Return the message without the error's number."""
        return str(self.strerror)


class SegmentError(ValueError):
    """A file is damaged or is not a segment of this layout version, or its field table is too long for the header."""


class Segment:
    """A file of named arrays in shared memory: ``segment["reward"]`` is a numpy array over the shared pages."""

    def __init__(self, path: Path, mapping: mmap.mmap, fields: list[Field]) -> None:
        """Wrap a mapping; call ``create`` or ``open`` instead."""
        self.path = path
        self.fields = fields
        self._mapping = mapping
        self._arrays = views(memoryview(mapping)[_HEADER_BYTES:], fields)

    @classmethod
    def create(cls, path: Path, fields: list[Field]) -> Segment:
        """Make a file of arrays with these names, types, shapes and initial values.

        Raises SharedMemoryFull, and FileExistsError if the path exists.
        """
        table = msgspec.msgpack.encode(fields)
        if len(table) > _HEADER_BYTES - _PREFIX.size:
            raise SegmentError(
                f"{path.name}: a field table of {len(table)} bytes does not fit the header of {_HEADER_BYTES} bytes"
            )
        size = segment_bytes(fields)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _allocate(handle, size, path)
            mapping = mmap.mmap(handle, size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        segment = cls(path, mapping, fields)
        for field in fields:
            if field.poison is not None:
                segment[field.name].fill(field.poison)
        written = header(table)
        mapping[_PREFIX.size : len(written)] = written[_PREFIX.size :]
        mapping[: _PREFIX.size] = written[: _PREFIX.size]
        return segment

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Map an existing segment; raises SegmentError if the file is damaged or has another layout version."""
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(handle).st_size
            if size < _HEADER_BYTES:
                raise SegmentError(
                    f"{path}: {size} bytes are too few for a segment; another process may still be making it"
                )
            mapping = mmap.mmap(handle, size)
        finally:
            os.close(handle)
        table = _table(mapping, path)
        try:
            fields = msgspec.msgpack.decode(table, type=list[Field])
            if segment_bytes(fields) == size:
                return cls(path, mapping, fields)
        except (TypeError, ValueError) as error:  # not a field table, or a dtype that numpy does not know
            raise SegmentError(f"{path}: the field table is damaged: {error}; start the run again") from None
        raise SegmentError(
            f"{path}: the file has {size} bytes, but its fields need {segment_bytes(fields)}; start the run again"
        )

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._arrays[name]

    def close(self) -> None:
        """Release this process's mapping; numpy arrays that still use it keep it alive."""
        self._arrays = {}
        with suppress(BufferError):
            self._mapping.close()

    def unlink(self) -> None:
        """Remove the file; processes that have mapped it keep its memory until they close it."""
        self.path.unlink(missing_ok=True)


def segment_bytes(fields: list[Field]) -> int:
    """Return the size in bytes of the file of a segment with these arrays."""
    return _HEADER_BYTES + max(layout(fields)[1], 1)


def header(table: bytes) -> bytes:
    """Return the header of a segment that this process makes; ``table`` is the encoded table of its arrays."""
    prefix = _PREFIX.pack(_MAGIC, LAYOUT_VERSION, len(table), os.getpid(), 0)
    return _PREFIX.pack(_MAGIC, LAYOUT_VERSION, len(table), os.getpid(), zlib.crc32(prefix + table)) + table


def _table(mapping: mmap.mmap, path: Path) -> bytes:
    """Return the encoded table of a segment's arrays; raises SegmentError for a damaged or unknown header."""
    magic, version, table_bytes, pid, checksum = _PREFIX.unpack_from(mapping)
    if magic != _MAGIC or version != LAYOUT_VERSION:
        raise SegmentError(
            f"{path}: the file has magic {magic!r} and layout version {version}, not {_MAGIC!r} and {LAYOUT_VERSION}; "
            "start all processes of a run from one installation"
        )
    if table_bytes > _HEADER_BYTES - _PREFIX.size:
        raise SegmentError(f"{path}: a field table of {table_bytes} bytes does not fit the header")
    table = bytes(mapping[_PREFIX.size : _PREFIX.size + table_bytes])
    counted = zlib.crc32(_PREFIX.pack(magic, version, table_bytes, pid, 0) + table)
    if counted != checksum:
        raise SegmentError(
            f"{path}: the header has checksum {counted:08x}, not {checksum:08x}, so it is damaged; start the run again"
        )
    return table


def _allocate(handle: int, size: int, path: Path) -> None:
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT):
            raise
        raise _full(path, size) from None


def _full(path: Path, needed: int) -> SharedMemoryFull:
    return SharedMemoryFull(
        errno.ENOSPC,
        f"{path}: {needed:,} bytes of shared memory are needed, but only {free_bytes():,} are free in {SHM_ROOT}; "
        f"free memory with `actorlearn clean`, make {SHM_ROOT} larger (docker: --shm-size), or make the run smaller: "
        "`actorlearn check` lists the size of each segment",
    )


def free_bytes() -> int:
    """Return the number of bytes that are free for this user in /dev/shm."""
    status = os.statvfs(SHM_ROOT)
    return status.f_bavail * status.f_frsize


def reserve(run_id: str, needed_bytes: int, folder: Path) -> OwnedDirectory:
    """Make the run's directory in /dev/shm; raises SharedMemoryFull if ``needed_bytes`` are not free.

    Its file ``run`` has the path of ``folder``, so that the run to which a directory belongs can be found.
    """
    path = SHM_ROOT / name_of(run_id)
    if needed_bytes > free_bytes():
        raise _full(path, needed_bytes)
    made = OwnedDirectory.create(path)
    (path / "run").write_text(str(folder))
    return made


def sweep_shared() -> list[str]:
    """Remove the directories of this user's dead runs from /dev/shm; return the ids of these runs."""
    return sweep(SHM_ROOT)


def living_runs() -> list[Path]:
    """Return the directories in /dev/shm of this user's runs whose supervisor is alive."""
    return owned_directories(SHM_ROOT)[0]
