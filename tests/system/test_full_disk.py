"""A run whose folder is on a disk that fills up and gets space again: no file is emptied, and the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from launch.topology.load import load
from tests.system.conftest import Command, Start
from tests.system.environments import __name__ as ENVIRONMENTS

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

CHATTY = f"env.id={ENVIRONMENTS}:Chatty"


class SmallDisk:
    """A small file system in memory, and a file that fills it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4M", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"only root can mount a small disk: {done.stderr.strip()}")
    yield SmallDisk(path)
    subprocess.run(["umount", "-l", str(path)], check=True)


def contents(run_dir: Path) -> dict[str, bytes]:
    return {name: (run_dir / name).read_bytes() for name in ("topology.yaml", "meta.json", "summary.json")}


def test_a_run_survives_a_full_disk_and_restarts_processes_that_died_meanwhile(
    launched: Start, command: Command, small_disk: SmallDisk
) -> None:
    """All processes of a run are killed on the full disk, and print into logs on it."""
    run_dir = small_disk.path / "run"
    run = launched(
        *("catch", CHATTY, "total_steps=20_000", "checkpoint.every_steps=500", "inference.count=1"),
        *("evaluator.count=1", "evaluator.every_steps=300", "evaluator.episodes=2"),
        run_dir=run_dir,
    )
    run.wait_for(lambda: run.events("saved", "trainer")[1:], "checkpoint after the first")
    run.wait_for(lambda: run.events("evaluated"), "evaluation")
    small_disk.fill()
    for name in ("metrics.jsonl", "events.jsonl"):
        run.wait_for(lambda name=name: f"{name} cannot be written: No space left" in run.screen(), f"word of {name}")
    run.wait_for(lambda: "could not be written: " in run.screen(), "checkpoint that finds no room")
    before = run.pids()
    for name in ("simulator-1", "evaluator-0", "inference-0", "trainer"):
        os.kill(before[name], signal.SIGKILL)
        run.wait_for(
            lambda name=name: f"{name} warned (incarnation 1): cannot be started" in run.screen(), f"word of {name}"
        )
    load(run_dir / "topology.yaml")
    small_disk.free()
    for name in ("simulator-1", "evaluator-0", "inference-0", "trainer"):
        run.wait_for_event("restarted", name, incarnation=1)
    run.full_speed()
    assert run.end() == 0, run.screen()
    assert run.summary()["status"] == "finished" and run.summary()["deaths"] == 4
    assert {"metrics.jsonl can be written again", "events.jsonl can be written again"} <= {
        event["cause"] for event in run.events("warned")
    }
    for name in ("metrics.jsonl", "events.jsonl"):
        assert (run_dir / name).read_bytes().endswith(b"}\n")
    assert run.checkpoint().state["env_steps"] == run.summary()["env_steps"] >= 20_000
    assert run.leftovers() == []

    small_disk.fill()
    as_before = contents(run_dir)
    refused = command("resume", run_dir, "total_steps=30_000")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("actorlearn: ") and "No space left on device" in line
    assert contents(run_dir) == as_before
    small_disk.free()

    resumed = launched("resume", "total_steps=30_000", run_dir=run_dir)
    resumed.wait_for(lambda: resumed.new_events("ready"), "process")
    small_disk.fill()
    assert resumed.end() == 0, resumed.screen()
    assert resumed.leftovers() == []
    small_disk.free()

    again = launched("resume", "total_steps=30_100", run_dir=run_dir)
    assert again.end() == 0, again.screen()
    assert again.summary()["status"] == "finished" and again.summary()["env_steps"] >= 30_100
    assert [path.name for path in run_dir.iterdir() if path.name.startswith(".")] == []
