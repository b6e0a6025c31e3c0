"""Fibers that stand for processes: threads of which one runs at a time, until it waits, ends or is killed.

Every wait of a process becomes ``pause``, so the caller of ``resume`` decides which fiber runs, and the order is the
same each time. When a fiber has ended, its descriptors are closed and its locks released, as the kernel does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from actorlearn.failpoints import Killed

LIMIT_S = 50.0
"""Seconds that a fiber may run without waiting; then it counts as stuck."""


class Fiber:
    """One process."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        """``work`` runs from the first ``resume`` on."""
        self.name = name
        self.ended = self.killed = False
        self.error: BaseException | None = None
        self.descriptors: dict[int, int] = {}
        """Open descriptors, each with its inode."""
        self._doomed = False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, args=(work,), name=name, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let the fiber run until it waits or ends."""
        global _running
        before, _running = _running, self
        self._go.release()
        try:
            if not self._back.acquire(timeout=LIMIT_S):
                raise AssertionError(f"{self.name} has not waited for {LIMIT_S:g} s")
        finally:
            _running = before
        if self.ended:
            self._thread.join()
            self._close_descriptors()

    def kill(self) -> None:
        """Kill the fiber where it waits."""
        while not self.ended:
            self._doomed = True
            self.resume()

    def pause(self) -> None:
        """Wait; called by the fiber itself."""
        self._back.release()
        self._go.acquire()
        if self._doomed:
            raise Killed(f"{self.name} was killed while it waited")

    def _main(self, work: Callable[[], None]) -> None:
        self._go.acquire()
        try:
            if not self._doomed:
                work()
        except Killed:
            self.killed = True
        except BaseException as error:
            self.error = error
        self.killed |= self._doomed
        self.ended = True
        self._back.release()

    def _close_descriptors(self) -> None:
        for descriptor, inode in self.descriptors.items():
            with suppress(OSError):
                if os.fstat(descriptor).st_ino == inode:
                    _close(descriptor)
        self.descriptors = {}


_running: Fiber | None = None
_open, _close = os.open, os.close


def running() -> Fiber | None:
    """Return the calling fiber; None outside of fibers."""
    return _running


def pause() -> None:
    """Let the calling fiber wait; do nothing outside of fibers."""
    if _running is not None:
        _running.pause()


@contextmanager
def keeping_descriptors() -> Iterator[None]:
    """Record which fiber opens which descriptors."""

    def opened(*arguments: object, **options: object) -> int:
        descriptor: int = _open(*arguments, **options)  # type: ignore[arg-type]
        if _running is not None:
            _running.descriptors[descriptor] = os.fstat(descriptor).st_ino
        return descriptor

    def closed(descriptor: int) -> None:
        if _running is not None:
            _running.descriptors.pop(descriptor, None)
        _close(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        patch.setattr(os, "close", closed)
        yield
