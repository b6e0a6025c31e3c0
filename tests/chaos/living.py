"""A run under faults, as seen from outside: its processes, its events, and whether it learns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
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
NODES_PACE_S = 0.03
"""Longer, because recovery from the loss of a node takes many seconds, and a run has a limited number of rows."""
GONE = ("died", "ended", "detached", "refused", "gave up")
STOPPED = "its agent was stopped"
"""Part of the cause of a lost node that had sent its counts."""
EXCHANGED = 10
"""Gradients after which a trainer has opened its connections to trainers on other nodes."""
MARKED = ("simulator", "inference", "trainer")
"""Roles whose processes mark their work (``rows.Mark``)."""


@dataclass
class Process:
    """The newest incarnation of a name."""

    name: str
    incarnation: int
    pid: int
    spawned_s: float
    node: str = ""
    """Node on which it was started; empty on one machine."""
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
    """Events of deaths."""
    head: dict[str, Any] = field(default_factory=dict)
    """The event by which it said where nodes can join."""
    joined: list[str] = field(default_factory=list)
    """Nodes in the order in which they joined; a node that joined again is there again."""
    lost: list[dict[str, Any]] = field(default_factory=list)
    """Events of lost nodes."""
    screen: int = 0
    """Characters that the lives before had printed."""

    @property
    def lost_nodes(self) -> dict[str, str]:
        """Causes of the loss of nodes, by node; of a node that was lost twice, the cause that leaves counts unknown."""
        causes = sorted((event["cause"] for event in self.lost), key=lambda cause: STOPPED not in cause)
        return {cause.removeprefix("node ").partition(":")[0]: cause for cause in causes}


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
        self._replacements: list[subprocess.Popen[bytes]] = []
        """Agents that replace killed ones, because the engine starts no others."""
        stage.temporary.mkdir()
        (stage.folder / "screen").touch()

    # Starting and ending --------------------------------------------------------------------------------------------

    def start(self, *changes: str) -> None:
        """Start the run, or resume it from the newest checkpoint."""
        if self.lives:
            arguments = ["resume", str(self.stage.run_dir), *changes]
        else:
            arguments = ["run", str(self._topology), *topologies.overrides(self.mode, self._seed), *changes]
            arguments += ["--run-dir", str(self.stage.run_dir)]
        if topologies.over_nodes(self.mode):
            arguments += ["--engine", "local"]
        list(self._events.new())  # skip those of the life before
        self.life = Life(screen=len(self.screen()))
        self.lives += 1
        self.process = self._started(arguments, self.stage.folder / "screen")

    def _started(self, arguments: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        """A command of actorlearn, inside the stage."""
        over_nodes = topologies.over_nodes(self.mode)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "ACTORLEARN_TEST_SESSION"},
            "PYTHONPATH": str(ROOT),
            "XDG_RUNTIME_DIR": str(self.stage.sockets),
            "TMPDIR": str(self.stage.temporary),
            "TERM": "dumb",
            rows_of.VARIABLE: str(self.rows.folder),
            rows_of.PACE_VARIABLE: str(NODES_PACE_S if over_nodes else PACE_S),
            rows_of.LIFE_VARIABLE: str(self.lives),
            TOKEN_VARIABLE: self.token,
        }
        with output.open("ab") as out:
            return subprocess.Popen(
                self.stage.command([sys.executable, "-m", "launch", *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env=environment,
                process_group=0,
                preexec_fn=hear_ctrl_c,
            )

    def replace_agent(self, node: str) -> None:
        """Start an agent with the key of a node whose agent is no more."""
        key = self.stage.outside(Path(self.life.head["keys"], f"{node}.key"))
        own = self.stage.folder / f"{node}.key"
        own.touch(mode=0o600)
        own.write_bytes(key.read_bytes())
        words = [
            "node",
            "--join",
            self.life.head["address"],
            "--key",
            str(own),
            "--folder",
            str(self.stage.folder / node),
        ]
        self._replacements.append(self._started(words, self.stage.folder / f"{node}.log"))

    def kill_replacements(self) -> None:
        """Kill those agents, as the engine ends those that it has started."""
        for agent in self._replacements:
            agent.kill()
            agent.wait()
        self._replacements.clear()

    def clear_away(self) -> None:
        """Kill all processes that are left."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.kill_replacements()
        for pid in self.all_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def all_pids(self) -> list[int]:
        """Living processes that carry the token, wherever they are in the process tree."""
        return pids_with(f"{TOKEN_VARIABLE}={self.token}")

    def screen(self) -> str:
        """Everything it printed."""
        return (self.stage.folder / "screen").read_text(errors="replace")

    @property
    def said(self) -> str:
        """Everything it printed in this life."""
        return self.screen()[self.life.screen :]

    # What it says ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the events since the last look."""
        life = self.life
        if not life.run_id and self.process is not None:
            meta = read_object(self.folder / "meta.json")
            if meta.get("supervisor_pid") == self.process.pid:
                life.run_id = meta["run_id"]
        for event in self._events.new():
            kind, name, incarnation = event["kind"], str(event.get("process")), int(event.get("incarnation", 0))
            if kind == "spawned":
                life.processes[name] = Process(name, incarnation, event["pid"], event["time_s"], event.get("node", ""))
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
            else:
                self._take_of_nodes(kind, event)
        for agent in self._replacements:
            agent.poll()  # else it is a zombie of ours

    def _take_of_nodes(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "awaiting":
            self.life.head = event
        elif kind == "joined":
            self.life.joined.append(event["node"])
        elif kind == "lost":
            self.life.lost.append(event)

    def _pid(self, name: str, incarnation: int) -> int:
        return next(iter(pids_with(f"ACTORLEARN_PROCESS={name}.{incarnation}", f"{TOKEN_VARIABLE}={self.token}")), 0)

    @property
    def meta(self) -> dict[str, Any]:
        """The run's meta.json: what ran where."""
        return read_object(self.folder / "meta.json")

    @property
    def names(self) -> list[str]:
        """All processes that the run should have, except supervisor and guardian."""
        n, several = topologies.learners(self.mode), topologies.split(self.mode)[0] != "alone"
        trainers = [f"trainer-{k}" for k in range(n)] if several else ["trainer"]
        simulators = range(n if several else 2)
        others = ["evaluator-0"] if topologies.evaluates(self.mode) else []
        others += ["parameter_server-0"] if self.mode.startswith("nodes-async") else []
        servers = [f"inference-{k}" for k in range(n)]
        return [*trainers, *servers, *(f"simulator-{k}" for k in simulators), *others]

    @property
    def all_up(self) -> bool:
        """Whether no process is missing or still starting."""
        known = self.life.processes
        return all(name in known and known[name].up_s is not None for name in self.names)

    @property
    def settled(self) -> bool:
        """Whether all processes work, and over nodes each node has a learner that has exchanged with the others."""
        if not self.all_up or not all(map(self.used_last_ns, self.marked_names)):
            return False
        trainers = [process for process in self.life.processes.values() if process.role == "trainer"]
        marks = [self.mark(trainer.name, trainer.incarnation) for trainer in trainers]
        exchanged = all(mark and mark.count >= EXCHANGED for mark in marks)
        spread = len({trainer.node for trainer in trainers}) == len(trainers)
        return not topologies.over_nodes(self.mode) or (spread and exchanged)

    @property
    def marked_names(self) -> list[str]:
        """Names of the processes that mark their work."""
        return [name for name in self.names if name.startswith(MARKED)]

    def guardians(self) -> dict[str, int]:
        """Process ids of guardians, by node; on one machine that has no name."""
        parents = self.agents() if topologies.over_nodes(self.mode) else {}
        if self.process is not None and not parents:
            parents = {"": self.process.pid}
        found = {node: guardian_of(pid) for node, pid in parents.items()}
        return {node: pid for node, pid in found.items() if pid is not None}

    def agents(self) -> dict[str, int]:
        """Process ids of the agents that live, by node, which is the name of the file that they print to."""
        found = {}
        for pid in self.all_pids():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--join" in words and not words[0].endswith(b"sh"):
                    found[Path(os.readlink(f"/proc/{pid}/fd/1")).stem] = pid
        return found

    # Whether it works -----------------------------------------------------------------------------------------------

    def mark(self, name: str, incarnation: int) -> Mark | None:
        """Return the mark of an incarnation of this life; None before its first work."""
        key = f"{self.lives}.{name}.{incarnation}"
        if key not in self._marks:
            path = self.rows.folder / "marks" / key
            if not path.exists():
                return None
            self._marks[key] = Mark(path)
        return self._marks[key]

    def first_use_ns(self, name: str, newer_than: int) -> int:
        """Return when an incarnation newer than this first worked; 0 while none has."""
        known = self.life.processes.get(name)
        for incarnation in range(newer_than + 1, (known.incarnation if known else newer_than) + 1):
            if (mark := self.mark(name, incarnation)) and mark.first_ns:
                return mark.first_ns
        return 0

    def used_last_ns(self, name: str) -> int:
        """Return when the present incarnation last worked; 0 if never."""
        known = self.life.processes.get(name)
        mark = self.mark(name, known.incarnation) if known else None
        return mark.last_ns if mark else 0

    def learned_last_ns(self) -> int:
        """Return when a trainer last computed a gradient."""
        return max((self.used_last_ns(name) for name in self.names if name.startswith("trainer")), default=0)

    def gradients(self) -> int:
        """Return the number of gradients that the present trainers have computed."""
        known = [self.life.processes.get(name) for name in self.names if name.startswith("trainer")]
        marks = [self.mark(process.name, process.incarnation) for process in known if process]
        return sum(mark.count for mark in marks if mark)

    def shared(self, pattern: str) -> list[Path]:
        """Files of the run in its /dev/shm, of all nodes."""
        return sorted(self.stage.shared.glob(f"actorlearn-{os.getuid()}-*/{pattern}"))


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
