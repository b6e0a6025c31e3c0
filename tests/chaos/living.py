"""A run under faults, as seen from outside: its processes, its events, and whether it learns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.runs.jsonl import Lines, read_object
from tests.chaos import rows as rows_of
from tests.chaos import topologies
from tests.chaos.rows import Mark, Rows
from tests.chaos.stage import Stage
from tests.sizes import ROOT
from tests.system.launched import hear_ctrl_c

TOKEN_VARIABLE = "ACTORLEARN_TEST_CHAOS_TOKEN"
"""In the environment of every process that such a run starts, and of no other."""
PACE_S = 0.012
GONE = ("died", "ended", "detached", "refused", "gave up")


@dataclass
class Process:
    """The newest incarnation of a name."""

    name: str
    incarnation: int
    pid: int
    spawned_s: float
    up_s: float | None = None
    """When its Hello was accepted, as all times of events in seconds of the run's clock."""

    @property
    def role(self) -> str:
        """The role, by the name."""
        return self.name.partition("-")[0]


@dataclass
class Life:
    """From a start of the supervisor to its end."""

    run_id: str = ""
    processes: dict[str, Process] = field(default_factory=dict)
    died: list[dict[str, Any]] = field(default_factory=list)
    """Their events."""


class Living:
    """One run in its folder, through all its lives."""

    def __init__(self, stage: Stage, mode: str, seed: int, token: str) -> None:
        """Nothing is started yet."""
        self.stage, self.mode, self.token = stage, mode, token
        self.rows = Rows.make(stage.folder / "rows")
        self.folder = stage.outside(stage.run_dir)
        self._seed = seed
        self._events = Lines(self.folder / "events.jsonl")
        self.life = Life()
        self.lives = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._topology = stage.folder / "chaos.yaml"
        self._topology.write_text(topologies.text())
        self._marks: dict[str, Mark] = {}

    # Starting and ending --------------------------------------------------------------------------------------------

    def start(self, *changes: str) -> None:
        """Begin, or go on from the newest checkpoint."""
        if self.lives:
            arguments = ["resume", str(self.stage.run_dir), *changes]
        else:
            arguments = ["run", str(self._topology), *topologies.overrides(self.mode, self._seed), *changes]
            arguments += ["--run-dir", str(self.stage.run_dir)]
        environment = {
            **{name: value for name, value in os.environ.items() if name != "ACTORLEARN_TEST_SESSION"},
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(self.stage.sockets),
            "TERM": "dumb",
            rows_of.VARIABLE: str(self.rows.folder),
            rows_of.PACE_VARIABLE: str(PACE_S),
            TOKEN_VARIABLE: self.token,
        }
        list(self._events.new())  # those of the life before are not of this one
        self.life = Life()
        self.lives += 1
        with (self.stage.folder / "screen").open("ab") as screen:
            self.process = subprocess.Popen(
                self.stage.command([sys.executable, "-m", "launch", *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=screen,
                cwd="/",
                env=environment,
                process_group=0,
                preexec_fn=hear_ctrl_c,
            )

    def clear_away(self) -> None:
        """End what there is, for want of a better end."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pid in self.all_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def all_pids(self) -> list[int]:
        """Living processes that carry the token, wherever they are in the process tree."""
        return pids_with(f"{TOKEN_VARIABLE}={self.token}")

    def screen(self) -> str:
        """Everything it printed."""
        return (self.stage.folder / "screen").read_text(errors="replace")

    # What it says ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what has happened since the last look."""
        life = self.life
        if not life.run_id and self.process is not None:
            meta = read_object(self.folder / "meta.json")
            if meta.get("supervisor_pid") == self.process.pid:
                life.run_id = meta["run_id"]
        for event in self._events.new():
            kind, name, incarnation = event["kind"], str(event.get("process")), int(event.get("incarnation", 0))
            if kind == "spawned":
                life.processes[name] = Process(name, incarnation, event["pid"], event["time_s"])
            elif kind in ("ready", "restarted", "attached"):
                process = life.processes.get(name)
                if process is None or process.incarnation != incarnation:  # no room for that event on a full disk
                    process = life.processes[name] = Process(
                        name, incarnation, self._pid(name, incarnation), event["time_s"]
                    )
                process.up_s = event["time_s"]
            elif kind in GONE:
                if kind == "died":
                    life.died.append(event)
                if (known := life.processes.get(name)) and known.incarnation == incarnation:
                    del life.processes[name]

    def _pid(self, name: str, incarnation: int) -> int:
        return next(iter(pids_with(f"ACTORLEARN_PROCESS={name}.{incarnation}", f"{TOKEN_VARIABLE}={self.token}")), 0)

    @property
    def meta(self) -> dict[str, Any]:
        """The run's meta.json: what ran where."""
        return read_object(self.folder / "meta.json")

    @property
    def names(self) -> list[str]:
        """All processes that there should be, but for supervisor and guardian."""
        n, several = topologies.learners(self.mode), topologies.split(self.mode)[0] != "alone"
        trainers = [f"trainer-{k}" for k in range(n)] if several else ["trainer"]
        simulators = range(n if several else 2)
        evaluators = ["evaluator-0"] if topologies.split(self.mode)[0] in ("alone", "async") else []
        servers = [f"inference-{k}" for k in range(n)]
        return [*trainers, *servers, *(f"simulator-{k}" for k in simulators), *evaluators]

    @property
    def all_up(self) -> bool:
        """Whether nobody is missing, or still starting."""
        known = self.life.processes
        return all(name in known and known[name].up_s is not None for name in self.names)

    def guardian(self) -> int | None:
        """Its process id."""
        return guardian_of(self.process.pid) if self.process is not None else None

    # Whether it works -----------------------------------------------------------------------------------------------

    def mark(self, name: str, incarnation: int) -> Mark | None:
        """When one incarnation of this life did what it is for; None while it has not begun to."""
        key = f"{self.life.run_id}.{name}.{incarnation}"
        if key not in self._marks:
            path = self.rows.folder / "marks" / key
            if not path.exists():
                return None
            self._marks[key] = Mark(path)
        return self._marks[key]

    def first_use_ns(self, name: str, newer_than: int) -> int:
        """When an incarnation newer than this first did what it is for; 0 while none has."""
        known = self.life.processes.get(name)
        for incarnation in range(newer_than + 1, (known.incarnation if known else newer_than) + 1):
            if (mark := self.mark(name, incarnation)) and mark.first_ns:
                return mark.first_ns
        return 0

    def used_last_ns(self, name: str) -> int:
        """When the incarnation that there is did it last; 0 if never."""
        known = self.life.processes.get(name)
        mark = self.mark(name, known.incarnation) if known else None
        return mark.last_ns if mark else 0

    def learned_last_ns(self) -> int:
        """When a trainer last worked out a gradient."""
        return max((self.used_last_ns(name) for name in self.names if name.startswith("trainer")), default=0)

    def gradients(self) -> int:
        """Worked out in this life, by all trainers there are."""
        known = [self.life.processes.get(name) for name in self.names if name.startswith("trainer")]
        marks = [self.mark(process.name, process.incarnation) for process in known if process]
        return sum(mark.count for mark in marks if mark)

    def shared(self, name: str) -> Path:
        """A file of the run in its /dev/shm."""
        return self.stage.shared / f"actorlearn-{os.getuid()}-{self.life.run_id}" / name


def guardian_of(supervisor: int) -> int | None:
    """The process id of a supervisor's guardian."""
    with suppress(OSError):
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            if b"guardian.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


def pids_with(*marks: str) -> list[int]:
    """Living processes with all this in their environment; zombies have none."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if all(mark.encode() in variables for mark in marks):
                    found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    """Whether there is such a process, and no mere zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :][:1] not in (b"Z", b"X")


def wait_until(happened: Any, seconds: float, step_s: float = 0.02) -> bool:
    """Whether it happens in time."""
    deadline_s = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(step_s)
    return True
