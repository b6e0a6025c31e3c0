"""Conditions for a measured program: busy loops at the same time, a control group that limits its time, fewer cores.

Each is a context: processes and groups that it has made are removed at its end, for any outcome.
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
_LOOP = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with us, however we end
if os.getppid() != int(sys.argv[1]):
    sys.exit()
os.nice(int(sys.argv[2]))
while True:
    pass
"""


@contextmanager
def busy(count: int, nice: int) -> Iterator[list[int]]:
    """Run ``count`` busy processes, not pinned, with a nice value raised by ``nice``; yields their process ids."""
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
    """Limit this process and its children to the time of ``cores`` cores; yields the folder of the control group.

    Raises FailedError if no control group can be made, which needs root or a delegated group.
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
    """Restrict the children of this thread to ``cores`` of its cores, in a run's order: physical cores first."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, in_turn(allowed)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _group(cores: float) -> tuple[Path, Path]:
    """Make a group with a quota and enter it; return it and the earlier group of this process."""
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
    """Return the folders that may contain a new group: this process's; in version 2 also the parent.

    In version 2 a group that contains processes cannot limit the time of groups inside it.
    """
    own = [group.folder]
    return own if group.version == 1 or group.folder == group.mount else [*own, group.folder.parent]


def _limit(folder: Path, version: int, cores: float) -> None:
    """Write a new group's quota; raises OSError, also if the hierarchy does not limit processor time."""
    limit, period = str(int(cores * _PERIOD_US)), str(_PERIOD_US)
    written = {QUOTA_FILE[2]: f"{limit} {period}"} if version == 2 else {PERIOD_FILE: period, QUOTA_FILE[1]: limit}
    for name, text in written.items():
        with (folder / name).open("r+") as file:  # made by the kernel, never to be created here
            file.write(text)


def _enter(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _remove(folder: Path) -> None:
    """Remove a group when its last process has ended; it stays if a process does not end in time."""
    deadline_s = time.monotonic() + _REMOVE_LIMIT_S
    while folder.exists() and time.monotonic() < deadline_s:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.05)
