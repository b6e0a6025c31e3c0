"""The spawner starts, watches and reaps processes, and leaves none behind."""

from __future__ import annotations

import os
import select
import selectors
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from actorlearn.processes.parent import PROCESS_COMMAND
from launch.spawning.spawner import Key, Spawner
from tests.runaways import lives

ROLE = """#!/bin/sh
echo "$ACTORLEARN_PROCESS $4" >> "{path}"
exec sleep 60
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that lists the started processes; each of them only sleeps."""
    program, path = tmp_path / "role", tmp_path / "started"
    program.write_text(ROLE.format(path=path))
    program.chmod(0o755)
    monkeypatch.setattr("launch.spawning.spawner.PROCESS_COMMAND", (str(program), *PROCESS_COMMAND[1:]))
    return path


def pidfds() -> int:
    """Return the number of pidfds that this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found += "pidfd" in os.readlink(link)
    return found


def ends(processes: Spawner) -> list[Key]:
    select.select([processes.fd], [], [], 10)
    return processes.ended()


def test_a_process_that_cannot_be_watched_is_ended(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(24, "Too many open files")

    before = pidfds()
    processes = Spawner(tmp_path, "run-1")
    with monkeypatch.context() as patched:
        patched.setattr(selectors.EpollSelector, "register", broken)
        with pytest.raises(OSError, match="Too many open files"):
            processes.spawn("simulator-0", 0, "simulator", tmp_path / "settings.json", 1)
    (guardian,) = psutil.Process().children()
    assert guardian.children() == []
    assert pidfds() == before
    processes.close()


def test_a_missing_program_raises_file_not_found_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.spawning.spawner.PROCESS_COMMAND", (str(tmp_path / "nothing"),))
    processes = Spawner(tmp_path, "run-1")
    with pytest.raises(FileNotFoundError):
        processes.spawn("simulator-0", 0, "simulator", tmp_path / "settings.json", 1)
    processes.close()


def test_a_process_is_watched_and_reaped(started: Path, tmp_path: Path) -> None:
    processes = Spawner(tmp_path, "run-1")
    pids = [processes.spawn(f"simulator-{n}", 0, "simulator", tmp_path / "settings.json", 1) for n in range(3)]
    assert [lives(pid) for pid in pids] == [True] * 3
    for n, sent in enumerate((signal.SIGTERM, signal.SIGKILL)):
        processes.kill(f"simulator-{n}", 0, sent)
        assert ends(processes) == [(f"simulator-{n}", 0)]
        processes.kill(f"simulator-{n}", 0, signal.SIGKILL)  # of one that has ended
        assert processes.reap((f"simulator-{n}", 0)) == -sent
        processes.kill(f"simulator-{n}", 0, signal.SIGKILL)  # of one that is forgotten
    processes.close()
    assert not [pid for pid in pids if lives(pid)]
    assert pidfds() == 0


def test_close_ends_all_processes_and_signals_no_process_group_by_number(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once close() killed groups of reaped processes, whose numbers another process may have by then."""
    processes = Spawner(tmp_path, "run-1")
    for n in range(3):
        processes.spawn(f"simulator-{n}", 0, "simulator", tmp_path / "settings.json", 1)
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("the number may be another process's by now"))
    processes.close()
    assert psutil.Process().children() == []


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_processes_of_a_lost_guardian_end_and_the_guardian_is_replaced(
    started: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sent: signal.Signals,
) -> None:
    monkeypatch.setattr("launch.spawning.guardian.ANSWER_S", 0.5)
    processes = Spawner(tmp_path, "run-1")
    first = processes.spawn("simulator-0", 0, "simulator", tmp_path / "settings.json", 1)
    (guardian,) = psutil.Process().children()
    guardian.send_signal(sent)
    monkeypatch.setattr("launch.spawning.guardian.START_S", 0.5)
    with pytest.raises(OSError, match="the guardian, process"):
        processes.spawn("simulator-1", 0, "simulator", tmp_path / "settings.json", 1)
    assert ends(processes) == [("simulator-0", 0)]
    assert processes.reap(("simulator-0", 0)) == -signal.SIGKILL
    assert not lives(first)
    monkeypatch.undo()
    second = processes.spawn("simulator-1", 1, "simulator", tmp_path / "settings.json", 1)
    assert lives(second)
    processes.close()
    assert psutil.Process().children() == []
