"""Makes Ctrl-C, SIGTERM and SIGHUP readable from a file descriptor, which a loop can wait for with others."""

from __future__ import annotations

import os
import signal
import sys
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEATED_S = 0.2
"""Seconds in which the same signal counts once: timeout(1), for example, signals its command and its process group."""


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end this process by SystemExit, so that it cleans up, unless they are ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _: sys.exit(128 + received))


class Signals:
    """Receives Ctrl-C, SIGTERM and SIGHUP through the descriptor ``fd``; they do not interrupt the program.

    A signal that was ignored when this process started, as by nohup, stays ignored.
    """

    def __init__(self) -> None:
        """Install the handlers; only the main thread can."""
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in heard}
        self._wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._read_s: dict[int, float] = {}
        """Time at which `read` last returned a signal."""

    def read(self) -> list[int]:
        """Return the signals received since the last call; one that comes again within REPEATED_S counts once."""
        try:
            received = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        now_s = time.monotonic()
        earlier = {number for number, read_s in self._read_s.items() if now_s - read_s < REPEATED_S}
        told = [number for number in dict.fromkeys(received) if number in self._handlers and number not in earlier]
        self._read_s.update(dict.fromkeys(told, now_s))
        return told

    def close(self) -> None:
        """Restore the earlier handlers."""
        signal.set_wakeup_fd(self._wakeup_fd)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._write_fd)
