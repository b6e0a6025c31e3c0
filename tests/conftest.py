"""What every test gets: one computing thread, and the rule that nothing is left behind.

A test fails that leaves a process, a thread, a run's folder in /dev/shm or a Unix socket file. What it left is then
ended and removed, so that the next test starts clean. ``@pytest.mark.leaves_behind("why")`` excuses a test whose
subject is a leak; the reason is compulsory.

Processes are recognised by a mark in their environment, so orphans that have left our process tree are found too, and
trainings that somebody else runs on this machine are left alone.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import psutil
import pytest

# Before numpy or torch is imported anywhere: the machine that tests may be training at the same time.
for _threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"

# No deadline per example: on a busy machine it fails tests at random, and pytest's timeout already bounds a hang.
hypothesis.settings.register_profile("actorlearn", deadline=None)
hypothesis.settings.load_profile("actorlearn")

SHM_ROOT = Path("/dev/shm")
SESSION_VARIABLE = "ACTORLEARN_TEST_SESSION"
# A child that has been told to end may need this long; the wait is only ever spent on a test that is about to fail.
GRACE_S = 3.0


@dataclass(frozen=True, slots=True)
class Remains:
    """What exists at one moment and should not outlive a test."""

    processes: frozenset[psutil.Process]
    threads: frozenset[threading.Thread]
    segments: frozenset[Path]
    sockets: frozenset[Path]

    def __sub__(self, before: Remains) -> Remains:
        return Remains(
            self.processes - before.processes,
            self.threads - before.threads,
            self.segments - before.segments,
            self.sockets - before.sockets,
        )

    def __bool__(self) -> bool:
        return bool(self.processes or self.threads or self.segments or self.sockets)


def _our_processes(mark: str) -> frozenset[psutil.Process]:
    """Children of this process, and whoever inherited its environment, wherever in the process tree."""
    found = set(psutil.Process().children(recursive=True))
    wanted = f"{SESSION_VARIABLE}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError, psutil.NoSuchProcess):  # ended meanwhile, or another user's
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(psutil.Process(int(folder.name)))
    return frozenset(found)


def _our_segments(mark: str) -> frozenset[Path]:
    """Entries of /dev/shm named actorlearn…, except those that a process outside this test session has mapped."""
    paths = {path for path in SHM_ROOT.glob("actorlearn*") if path.lstat().st_uid == os.getuid()}
    if not paths:
        return frozenset()
    ours = {process.pid for process in _our_processes(mark)} | {os.getpid()}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) not in ours:
            with suppress(OSError):
                mapped = (folder / "maps").read_text()
                handles = [os.readlink(handle) for handle in (folder / "fd").iterdir()]
                paths = {p for p in paths if f"{p}/" not in mapped and not any(f"{p}/" in f"{h}/" for h in handles)}
    return frozenset(paths)


def _sockets(folder: Path | None) -> frozenset[Path]:
    """Unix socket files under a test's own folder."""
    found = set()
    for parent, _, names in os.walk(folder) if folder is not None else ():
        for name in names:
            path = Path(parent, name)
            with suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    found.add(path)
    return frozenset(found)


def _remains(mark: str, folder: Path | None) -> Remains:
    threads = {thread for thread in threading.enumerate() if not thread.daemon and thread.is_alive()}
    return Remains(_our_processes(mark), frozenset(threads), _our_segments(mark), _sockets(folder))


def _new_remains(mark: str, folder: Path | None, before: Remains) -> Remains:
    """What is left after at most GRACE_S for things that are just ending."""
    deadline_s = time.monotonic() + GRACE_S
    while (left := _remains(mark, folder) - before) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return left


def _describe(left: Remains) -> str:
    lines = []
    for process in left.processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                lines.append(f"process {process.pid} has ended, but nobody has waited for it: call wait()")
            else:
                command = " ".join(process.cmdline())[:200]
                lines.append(f"process {process.pid} still runs: {command}: stop it and wait() before the test ends")
    lines += [f"thread {thread.name!r} still runs: join() it" for thread in left.threads]
    lines += [f"{path} still exists: the run was not cleaned up" for path in left.segments]
    lines += [f"{path} is a socket file without an owner: close the channel that bound it" for path in left.sockets]
    return "\n".join(f"  {line}" for line in lines)


def _sweep(left: Remains) -> None:
    """End and remove what was left, so that only the guilty test fails."""
    for process in left.processes:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(list(left.processes), timeout=GRACE_S)
    for path in left.segments:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for path in left.sockets:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def session_mark() -> Iterator[str]:
    """A value in the environment of every process that the tests start, and of no other."""
    mark = secrets.token_hex(8)
    os.environ[SESSION_VARIABLE] = mark
    yield mark
    del os.environ[SESSION_VARIABLE]


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_session(session_mark: str) -> Iterator[None]:
    """The same rule for what module and session fixtures start."""
    before = _remains(session_mark, None)
    yield
    left = _new_remains(session_mark, None, before)
    if left:
        report = _describe(left)
        _sweep(left)
        pytest.fail(f"left behind by a fixture at the end of the tests:\n{report}", pytrace=False)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, session_mark: str) -> Iterator[None]:
    """Set up before a test's own fixtures and checked after them, so that what they clean up is not held against it."""
    marker = request.node.get_closest_marker("leaves_behind")
    if marker is not None and not (marker.args or marker.kwargs.get("reason")):
        pytest.fail('say why: @pytest.mark.leaves_behind("the subject of this test is a leak")', pytrace=False)
    before = _remains(session_mark, None)
    yield
    folder = request.node.funcargs.get("tmp_path")
    if marker is not None:
        _sweep(_remains(session_mark, folder) - before)
        return
    left = _new_remains(session_mark, folder, before)
    if left:
        report = _describe(left)
        _sweep(left)
        pytest.fail(f"{request.node.nodeid} left behind:\n{report}", pytrace=False)


@pytest.fixture(autouse=True)
def torch_as_it_was() -> None:
    """A test may change torch's threads and what it makes of denormals; the next one starts with 1, and keeps them.

    Does not import torch by itself.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_flush_denormal(False)
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
