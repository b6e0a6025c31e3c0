"""Processes that a role, or its environment, starts itself, in every way there is to get away from who started them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

import psutil

SCRIPT = "sleep $0 & setsid sleep $0 & (setsid sleep $0 &); (env -i setsid sleep $0 &); exec sleep $0"
"""A child, one in a session of its own, an orphan, and an orphan without the environment it would have inherited."""

COUNT = 5
"""Number of sleepers, the one that started the others included."""


def new_name() -> str:
    """Mark of one test's sleepers: how long they sleep, some two hours."""
    return f"{7000 + secrets.randbelow(200)}.{os.getpid()}{secrets.randbelow(10**6)}"


def command(name: str) -> list[str]:
    """Starts sleepers in all ways, and sleeps."""
    return ["/bin/sh", "-c", SCRIPT, name]


def sleepers(name: str) -> list[psutil.Process]:
    """Those that there are now; zombies sleep no more."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.cmdline() == ["sleep", name]:
                found.append(process)
    return found


def lives(pid: int) -> bool:
    """Whether there is a process; of one that was given to init there may be a zombie for a moment."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
