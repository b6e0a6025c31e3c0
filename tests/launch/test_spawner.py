"""Starting processes: one that cannot be watched is ended at once, and nobody is left behind."""

from __future__ import annotations

import os
import selectors
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from launch.spawner import Spawner


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Processes that were really started; they sleep, whatever they should have done."""
    popens: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(_command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        popens.append(popen(["sleep", "60"], **how))
        return popens[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return popens


def pidfds() -> int:
    """How many this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found += "pidfd" in os.readlink(link)
    return found


def broken(*_: Any) -> int:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize("what", ["pidfd_open", "register"])
def test_a_process_that_cannot_be_watched_is_ended(
    what: str, started: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pidfds()
    with selectors.DefaultSelector() as selector:
        monkeypatch.setattr(*((os, what, broken) if what == "pidfd_open" else (selector, what, broken)))
        processes = Spawner(selector, tmp_path, "run-1")
        with pytest.raises(OSError, match="Too many open files"):
            processes.spawn("simulator-0", 0, "simulator", tmp_path / "settings.json", 1)
        processes.close()
        assert not selector.get_map()
    assert [popen.returncode for popen in started] == [-9]
    assert pidfds() == before


def test_a_process_is_watched_and_reaped(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    with selectors.DefaultSelector() as selector:
        processes = Spawner(selector, tmp_path, "run-1")
        pid = processes.spawn("simulator-0", 0, "simulator", tmp_path / "settings.json", 1)
        assert pid == started[0].pid
        processes.kill("simulator-0", 0, 15)
        assert [key.data for key, _ in selector.select(10)] == [("simulator-0", 0)]
        assert processes.reap(("simulator-0", 0)) == -15
