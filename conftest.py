"""Fixtures of every test: one computing thread, and the rule that nothing is left behind.

A test fails that leaves a process, a thread, a run's folder in /dev/shm or a Unix socket file. What it left is then
ended and removed, so that the next test starts clean. A module fails that leaves many descriptors open.

Processes are recognised by a mark in their environment, so orphans that have left our process tree are found too, and
trainings that somebody else runs on this machine are left alone. So are the segments of other sessions of these tests,
dead ones too: a run's directory names the run's folder, which stands in the temporary folder of the session it is of.
"""

from __future__ import annotations

import gc
import getpass
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis
import psutil
import pytest

from tests.examples import UNIT

# Before numpy or torch is imported anywhere: the machine that tests may be training at the same time.
for _threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"

hypothesis.settings.load_profile(UNIT)

SHM_ROOT = Path("/dev/shm")
SESSIONS_ROOT = Path(tempfile.gettempdir(), f"pytest-of-{getpass.getuser()}")
"""The folder in which pytest makes a temporary folder for each session."""
SESSION_VARIABLE = "ACTORLEARN_TEST_SESSION"
# A child that has been told to end may need this long; the wait is only ever spent on a test that is about to fail.
GRACE_S = 3.0
MOST_DESCRIPTORS = 32
"""A module may leave so many: some are opened by imports, some by whatever waits to be collected."""
COLLECTED_FROM = 256
"""So many open descriptors are collected between two tests: mappings of runs in one process are held by cycles."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while all tests are imported, and afterwards never again among what they have defined."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@dataclass(frozen=True, slots=True)
class Remains:
    """Processes, threads and files of one moment that should not outlive a test."""

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


class Machine:
    """Tells this session's processes from all others, which are looked at once and passed over from then on."""

    def __init__(self, mark: str, own_folder: Path) -> None:
        self._wanted = f"{SESSION_VARIABLE}={mark}".encode()
        self._own_folder = own_folder
        self._strangers: set[int] = set()

    def our_processes(self) -> frozenset[psutil.Process]:
        """Descendants of this process, and whoever inherited its environment, wherever in the process tree."""
        present = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
        self._strangers &= present
        found = set()
        for number in present - self._strangers:
            with suppress(OSError, psutil.NoSuchProcess):  # ended meanwhile
                process = psutil.Process(number)
                if self._is_ours(process):
                    found.add(process)
                else:
                    self._strangers.add(number)
        return frozenset(found)

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(PermissionError, ProcessLookupError):  # another user's; one that has ended, or of the kernel
            if self._wanted in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                return True
        return any(parent.pid == os.getpid() for parent in process.parents())

    def without_strangers(self, segments: frozenset[Path]) -> frozenset[Path]:
        """Those of ``segments`` that are of no other session, and that nobody outside this one has mapped or open."""
        ours = {process.pid for process in self.our_processes()} | {os.getpid()}
        left = {path for path in segments if not self._is_of_another_session(path)}
        for folder in Path("/proc").iterdir() if left else ():
            if folder.name.isdigit() and int(folder.name) not in ours:
                with suppress(OSError):
                    mapped = (folder / "maps").read_text()
                    handles = [os.readlink(handle) for handle in (folder / "fd").iterdir()]
                    left = {p for p in left if f"{p}/" not in mapped and not any(f"{p}/" in f"{h}/" for h in handles)}
        return frozenset(left)

    def _is_of_another_session(self, segments: Path) -> bool:
        """Whether this is the directory of a run in another session's temporary folder."""
        with suppress(OSError):
            run_dir = Path((segments / "run").read_text())
            return SESSIONS_ROOT in run_dir.parents and self._own_folder not in run_dir.parents
        return False


def _segments() -> frozenset[Path]:
    """Entries of /dev/shm named actorlearn…, whoever holds them."""
    found = set()
    for path in SHM_ROOT.glob("actorlearn*"):
        with suppress(FileNotFoundError):
            if path.lstat().st_uid == os.getuid():
                found.add(path)
    return frozenset(found)


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


def _remains(machine: Machine, folder: Path | None) -> Remains:
    threads = {thread for thread in threading.enumerate() if not thread.daemon and thread.is_alive()}
    return Remains(machine.our_processes(), frozenset(threads), _segments(), _sockets(folder))


def _new_remains(machine: Machine, folder: Path | None, before: Remains) -> Remains:
    """Things left after at most GRACE_S for things that are just ending."""
    deadline_s = time.monotonic() + GRACE_S
    while True:
        left = _remains(machine, folder) - before
        left = replace(left, segments=machine.without_strangers(left.segments))
        if not left or time.monotonic() >= deadline_s:
            return left
        time.sleep(0.05)


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
def this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """This machine, with a mark in the environment of every process that the tests start, and of no other."""
    mark = secrets.token_hex(8)
    os.environ[SESSION_VARIABLE] = mark
    yield Machine(mark, tmp_path_factory.getbasetemp())
    del os.environ[SESSION_VARIABLE]


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_session(this_machine: Machine) -> Iterator[None]:
    """The same rule for what module and session fixtures start."""
    before = _remains(this_machine, None)
    yield
    left = _new_remains(this_machine, None, before)
    if left:
        report = _describe(left)
        _sweep(left)
        pytest.fail(f"left behind by a fixture at the end of the tests:\n{report}", pytrace=False)


def _descriptors() -> list[str]:
    """Targets of this process's open descriptors."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


@pytest.fixture(scope="module", autouse=True)
def no_descriptors_left() -> Iterator[None]:
    """A module may not leave many descriptors open; a mapping that is not closed has one."""
    before = Counter(_descriptors())
    most = before.total() + MOST_DESCRIPTORS
    yield
    if len(_descriptors()) > most:
        gc.collect()
    if len(left := _descriptors()) > most:
        new = Counter(left) - before
        report = "\n".join(f"  {count} x {target}" for target, count in new.most_common(10))
        pytest.fail(f"{len(left) - before.total()} descriptors left open, among them\n{report}", pytrace=False)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, this_machine: Machine) -> Iterator[None]:
    """Set up before a test's own fixtures and checked after them, so that what they clean up is not held against it."""
    before = _remains(this_machine, None)
    yield
    if len(os.listdir("/proc/self/fd")) > COLLECTED_FROM:
        gc.collect()
    folder = (request.node.funcargs or {}).get("tmp_path")  # none if the session was interrupted
    left = _new_remains(this_machine, folder, before)
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
