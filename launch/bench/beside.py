"""Makes conditions in which a program is measured: next to busy processes, with limited processor time, on fewer cores.

Each is a context manager: the condition holds within ``with``, and is undone at its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from launch.errors import FailedError
from launch.machine.cgroups import PERIOD_FILE, QUOTA_FILE, Cgroup, groups
from launch.machine.cores import in_turn

_PERIOD_US = 100_000
"""Period of a control group's quota in microseconds: the kernel's default."""
_REMOVE_LIMIT_S = 10.0
"""Seconds to wait for the end of a control group's processes before the group is left."""
_LOOP = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process is killed when its parent ends
if os.getppid() != int(sys.argv[1]):
    sys.exit()
os.nice(int(sys.argv[2]))
while True:
    pass
"""


@contextmanager
def busy(count: int, nice: int) -> Iterator[list[int]]:
    """Run ``count`` processes that compute all the time; yield their pids. ``nice``: is added to their nice value."""
    command = [sys.executable, "-c", _LOOP, str(os.getpid()), str(nice)]
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            loops.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0))
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


@contextmanager
def rationed(cores: float) -> Iterator[Path]:
    """Limit the processor time of this process and its children to that of ``cores`` cores.

    Yields the folder of a new control group; raises FailedError without the rights to make one.
    """
    made, home = _group(cores)
    try:
        yield made
    finally:
        try:
            _enter(home)
        finally:
            _remove(made)


@contextmanager
def confined(cores: int) -> Iterator[None]:
    """Restrict this thread, and the processes that it starts, to ``cores`` CPUs, on different cores if possible."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, in_turn(allowed)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _group(cores: float) -> tuple[Path, Path]:
    """Move this process into a new control group with a quota; return the folders of the new and the old group."""
    refused = "no cgroup hierarchy with the cpu controller is mounted"
    for group in groups():
        for parent in _parents(group):
            folder = parent / f"actorlearn-bench-{os.getpid()}"
            try:
                folder.mkdir()
                _limit(folder, group.version, cores)
                _enter(folder)
            except OSError as error:
                refused = f"{folder}: {error.strerror}; run as root, or in a control group that is delegated to you"
                with suppress(OSError):
                    folder.rmdir()
                continue
            return folder, group.folder
    raise FailedError(f"a control group with a quota cannot be made: {refused}")


def _parents(group: Cgroup) -> list[Path]:
    """Return the folders in which a group may be made: the group of this process, in version 2 also its parent.

    In version 2, a group that contains processes cannot limit the time of groups inside it.
    """
    own = [group.folder]
    return own if group.version == 1 or group.folder == group.mount else [*own, group.folder.parent]


def _limit(folder: Path, version: int, cores: float) -> None:
    """Set the quota of a new group; raises OSError if groups in this place cannot limit processor time."""
    limit, period = str(int(cores * _PERIOD_US)), str(_PERIOD_US)
    written = {QUOTA_FILE[2]: f"{limit} {period}"} if version == 2 else {PERIOD_FILE: period, QUOTA_FILE[1]: limit}
    for name, text in written.items():
        with (folder / name).open("r+") as file:  # fails if the kernel has not made the file
            file.write(text)


def _enter(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _remove(folder: Path) -> None:
    """Remove a group when its last process has ended, but wait at most ``_REMOVE_LIMIT_S`` for that."""
    deadline_s = time.monotonic() + _REMOVE_LIMIT_S
    while folder.exists() and time.monotonic() < deadline_s:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.05)
