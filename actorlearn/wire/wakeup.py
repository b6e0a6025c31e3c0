"""Wakeups: named pipes by which a process that sleeps is told to look at the words in shared memory again.

Reads and writes nothing but one byte in a named pipe, which says nothing and may be lost: whoever sleeps looks again by
himself after a while. A wakeup belongs to one listener, anybody may wake him, and it outlives both.

A pipe and not a message, because the hand-over of a step is made of wake-ups. On two cores of an AMD EPYC one through
zmq's ipc took 110 to 170 us, as each side has a thread of zmq's own in between; cheap environments lost a third of
their time to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PIPE_BYTES = 65_536


class Wakeup:
    """The listener's end."""

    def __init__(self, path: Path) -> None:
        """Make the pipe, for this user alone; one that is there from an earlier incarnation is used again.

        What else lies there is removed: a file is never empty to who waits for it, and grows with every byte.
        """
        with suppress(FileNotFoundError):
            if not stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Read and write: with a writer of its own the pipe never ends, whoever comes and goes.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    def clear(self) -> None:
        """Forget how often somebody woke it."""
        with suppress(BlockingIOError):
            os.read(self.fd, _PIPE_BYTES)

    def close(self) -> None:
        """Listen no more; the pipe stays, for the next incarnation."""
        os.close(self.fd)


class Wakeups:
    """The wakers' end: wakeups of several listeners, by the listener's id."""

    def __init__(self, paths: Mapping[str, Path] | None = None) -> None:
        """Open nothing before somebody is woken."""
        self._paths: dict[str, Path] = dict(paths or {})
        self._fds: dict[str, int] = {}

    def follow(self, paths: Mapping[str, Path]) -> None:
        """Wake these from now on, and no others."""
        for listener in [listener for listener in self._fds if listener not in paths]:
            os.close(self._fds.pop(listener))
        self._paths = dict(paths)

    def wake(self, listener: str) -> bool:
        """Wake a listener; False when nobody listens. A pipe that is full has woken its listener or will."""
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
        except OSError:  # not made yet, or its listener has died
            if listener in self._fds:
                os.close(self._fds.pop(listener))
            return False
        return True

    def wake_all(self) -> None:
        """Wake every listener."""
        for listener in self._paths:
            self.wake(listener)

    def close(self) -> None:
        """Wake nobody any more."""
        self.follow({})
