"""Wakeups: named pipes by which a process wakes another one that sleeps until numbers in shared memory change.

The byte in the pipe has no meaning and may be lost, because a sleeping process also looks again after a timeout. Each
pipe has one listener, and any process of the run may write to it. The pipe outlives both.

Wakeups are pipes and not messages of zmq, because every step needs several. On two cores of an AMD EPYC a wakeup
through zmq's ipc took 110 to 170 us, because each side has an I/O thread of zmq. Cheap environments spent a third of
their time on it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PIPE_BYTES = 65_536


class Wakeup:
    """The listener's end of a pipe."""

    def __init__(self, path: Path) -> None:
        """Make the pipe with mode 0600, or reuse that of an earlier start of this process.

        A file of another type at this path is removed, because a regular file would always be readable and would grow.
        """
        with suppress(FileNotFoundError):
            if not stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Read and write: the listener is itself a writer, so the pipe never reports end-of-file.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    def clear(self) -> None:
        """Discard all bytes in the pipe."""
        with suppress(BlockingIOError):
            os.read(self.fd, _PIPE_BYTES)

    def close(self) -> None:
        """Stop listening; the pipe stays, for the next start of this process."""
        os.close(self.fd)


class Wakeups:
    """The writer's ends of the pipes of several listeners."""

    def __init__(self, paths: Mapping[str, Path] | None = None) -> None:
        """Set the listeners, as id -> path of the pipe; a pipe is opened when it is first used."""
        self._paths: dict[str, Path] = dict(paths or {})
        self._fds: dict[str, int] = {}

    def follow(self, paths: Mapping[str, Path]) -> None:
        """Set other listeners, as id -> path of the pipe."""
        for listener in [listener for listener in self._fds if listener not in paths]:
            os.close(self._fds.pop(listener))
        self._paths = dict(paths)

    def wake(self, listener: str) -> bool:
        """Wake a listener; return False if it does not listen. A full pipe is left as it is, because it wakes too."""
        if listener not in self._paths:
            return False
        try:
            if listener not in self._fds:
                handle = os.open(self._paths[listener], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._fds[listener] = handle
                if not stat.S_ISFIFO(os.fstat(handle).st_mode):
                    raise OSError(f"{self._paths[listener]} is no pipe")
            os.write(self._fds[listener], b"!")
        except BlockingIOError:
            return True
        except OSError:  # the pipe does not exist yet, or its listener has died
            if listener in self._fds:
                os.close(self._fds.pop(listener))
            return False
        return True

    def wake_all(self) -> None:
        """Wake every listener."""
        for listener in self._paths:
            self.wake(listener)

    def close(self) -> None:
        """Close all pipes and forget the listeners."""
        self.follow({})
