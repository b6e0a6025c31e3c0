"""A real run as a test sees it: what it says in its folder, which processes it has, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actorlearn.metrics.registry import LEARNERS, is_registered
from actorlearn.parameters import checkpoint
from launch.runs.jsonl import read_object
from tests.newest import newest_checkpoint

PATIENCE_S = 120.0
"""Longest wait for anything to happen; generous, because the machine may be training at the same time."""

Event = dict[str, Any]


class Launched:
    """One ``python -m launch run`` or ``resume``, started in the background."""

    def __init__(
        self,
        arguments: list[str],
        run_dir: Path,
        environment: Mapping[str, str],
        paced: Path,
        by: Sequence[str] = (),
    ) -> None:
        """Start it, as a terminal would: in a process group of its own. ``by`` is a command that starts commands."""
        self.run_dir = run_dir
        self.paced = paced
        self.stdout, self.stderr = (run_dir.with_name(f"{run_dir.name}.{name}") for name in ("out", "err"))
        self.resumed_events = len(self.events())
        with self.stdout.open("w") as out, self.stderr.open("w") as err:
            self.process = subprocess.Popen(
                [*by, sys.executable, "-m", "launch", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=run_dir.parent,
                env=environment,
                process_group=0,
                preexec_fn=hear_ctrl_c,
            )

    # What it says -------------------------------------------------------------------------------------------------

    def events(self, kind: str | None = None, process: str | None = None) -> list[Event]:
        """Events so far, of one kind and process if asked."""
        events = lines(self.run_dir / "events.jsonl")
        return [e for e in events if kind in (None, e["kind"]) and process in (None, e["process"])]

    def new_events(self, kind: str | None = None) -> list[Event]:
        """Events since this start; a resumed run has those of its earlier life too."""
        return [e for e in self.events()[self.resumed_events :] if kind in (None, e["kind"])]

    def rows(self) -> list[dict[str, Any]]:
        """Rows of metrics.jsonl so far."""
        return lines(self.run_dir / "metrics.jsonl")

    def env_steps(self) -> int:
        """Steps in the newest row; 0 before the first."""
        rows = self.rows()
        return int(rows[-1]["env_steps"]) if rows else 0

    def summary(self) -> dict[str, Any]:
        """The run's summary.json; empty before its end."""
        return read_object(self.run_dir / "summary.json")

    def meta(self) -> dict[str, Any]:
        """The run's meta.json: what ran where."""
        return read_object(self.run_dir / "meta.json")

    def checkpoint(self) -> checkpoint.Checkpoint:
        """The newest valid one."""
        return newest_checkpoint(self.run_dir / "checkpoints")

    def pids(self) -> dict[str, int]:
        """Newest process id of every process of this life that has not gone."""
        return pids_of(self.new_events())

    def screen(self) -> str:
        """Everything it printed."""
        return self.stdout.read_text() + self.stderr.read_text()

    # What happens to it -------------------------------------------------------------------------------------------

    def wait_for(self, happened: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
        """Return the first true answer of ``happened``; fail if the run ends before, or it takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            ended = self.process.poll() is not None
            if answer := happened():
                return answer
            if ended or time.monotonic() > deadline_s:
                why = f"the run ended with {self.process.returncode}" if ended else f"{timeout_s:g} s have passed"
                pytest.fail(f"no {what}: {why}; {self._told()}", pytrace=False)
            time.sleep(0.05)

    def wait_for_event(self, kind: str, process: str, incarnation: int = 0) -> Event:
        """Wait for an event of an incarnation of a process; return it."""

        def found() -> Event | None:
            of_process = (e for e in self.new_events(kind) if e["process"] == process)
            return next((e for e in of_process if e["incarnation"] == incarnation), None)

        return self.wait_for(found, f"{process}.{incarnation} {kind}")

    def wait_for_steps(self, more_than: int) -> int:
        """Steps of the first row with more steps than this."""
        return int(self.wait_for(lambda: self.env_steps() > more_than and self.env_steps(), f"{more_than} steps"))

    def wait_for_score(self, at_least: float) -> None:
        """Until the last hundred games came to this mean; fails when the run ends before that."""

        def scored() -> bool:
            return any(row["episodes"] >= 100 and row["episode_return_mean"] >= at_least for row in self.rows())

        self.wait_for(scored, f"mean score of {at_least}", timeout_s=3 * PATIENCE_S)

    def end(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit status, when it has ended."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {timeout_s:g} s; {self._told()}", pytrace=False)

    def full_speed(self) -> None:
        """Let a run of the environment ``Paced`` run as fast as it can from now on."""
        self.paced.unlink()

    def ctrl_c(self) -> None:
        """Send what a terminal sends."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the supervisor alone."""
        self.process.kill()
        self.process.wait()

    def clear_away(self) -> bool:
        """Kill a run that its test left alive; return whether it was alive."""
        if self.process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return True

    def _told(self) -> str:
        return f"its events: {self.events()[-8:]}\nits screen:\n{self.screen()[-3000:]}"

    # What is left of it -------------------------------------------------------------------------------------------

    def leftovers(self) -> list[str]:
        """Processes, shared memory and sockets of this run that exist."""
        meta = self.meta()
        places = [meta[key] for key in ("shm", "sockets") if key in meta and Path(meta[key]).exists()]
        return [*(f"process {pid}" for pid in processes_of(self.run_dir)), *places]


def pids_of(events: Iterable[Event]) -> dict[str, int]:
    """Newest process id of every process that has not gone by these events."""
    found: dict[str, int] = {}
    for event in events:
        if event["kind"] == "spawned":
            found[event["process"]] = event["pid"]
        elif event["kind"] in ("died", "ended", "detached", "refused"):
            found.pop(event["process"], None)
    return found


def hear_ctrl_c() -> None:
    """Let SIGINT end this process as in a terminal, also if the tests run in the background and ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines of a file of JSON objects that may be being written."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def processes_of(run_dir: Path) -> list[int]:
    """Living processes that were started with a path in this folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if f"{run_dir}/".encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def nodes_of(folder: Path) -> list[str]:
    """Living nodes whose files are in a folder of nodes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder).encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def finished(run: Launched) -> dict[str, object]:
    """Return the summary of a run that has finished; it must have left nothing, and no process may have died."""
    return _ended(run, 0, "finished")


def learned(run: Launched, score: float) -> dict[str, object]:
    """Wait until a run has this mean score, and stop it; return its summary, with the checks of ``finished``."""
    run.wait_for_score(score)
    run.ctrl_c()
    return _ended(run, 130, "stopped")


def _ended(run: Launched, exit_code: int, status: str) -> dict[str, object]:
    assert run.end() == exit_code, run.screen()
    assert run.leftovers() == []
    assert run.events("died") == []
    assert [name for name in run.rows()[-1] if name != LEARNERS and not is_registered(name)] == []
    summary = run.summary()
    assert summary["status"] == status
    assert run.stderr.read_text() == ""
    return summary
