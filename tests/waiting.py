"""Waiting for something to become true, and ports at which nobody listens."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether it becomes true in time; it is not asked again after it was."""
    deadline_s = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def free_port() -> int:
    """A TCP port of this machine at which nobody listens now."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        return int(port.getsockname()[1])
