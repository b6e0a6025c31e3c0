"""A whole run in one process: the real runner, supervisor, trainers and segments, with simulators that are stepped.

Trainers are fibers, simulators are objects, the control socket is a queue, the clock counts turns, and the journal
keeps its rows in memory. In each turn every simulator plays one row, every trainer runs until it waits, and the
supervisor gets their messages; a test may interfere before each turn. So a run is the same each time, up to the
failpoint that a test has armed.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actorlearn.failpoints import Arms, armed
from actorlearn.learning.secondary import LearningWithSecondary
from actorlearn.memory.shared import Segment
from actorlearn.processes.checkpoints import open_checkpoint
from actorlearn.processes.trainer import Trainer
from actorlearn.tasks import describe
from actorlearn.wire.messages import PROTOCOL_VERSION, Finished, Hello, Request, encode
from actorlearn.worker import settings as all_settings
from actorlearn.worker.settings import DescribeSettings, SimulatorSettings, TrainerSettings
from launch.nodes import control, local
from launch.plan.probe import Description
from launch.runtime import loop, reporter
from launch.runtime.loop import Runner, open_local, plan_run
from launch.runtime.workspace import Workspace
from launch.supervision import events as ev
from launch.topology.load import Topology, dump, parse
from tests.ledger import fibers
from tests.ledger.counting import OPTIMIZER, Numbers, Row, counting
from tests.ledger.env import VARIABLE
from tests.ledger.fibers import Fiber
from tests.ledger.simulated import Simulated, Step

Key = tuple[str, int]
TURN_S = 0.1
MOST_TURNS = 4000
"""Maximum number of turns of a run; a history takes some hundreds."""

BASE: dict[str, Any] = {
    "name": "ledger",
    "env": {"id": "tests.ledger.env:Ledger", "action_mask": "none"},  # as a plan writes it
    "model": {"name": "tests.ledger.counting:Counting", "normalize_observation": False},
    "algorithm": {"name": "a2c", "horizon": 3},
    "optimizer": OPTIMIZER,
    "simulators": {"count": 2, "envs": 2, "groups": 1, "blocks": 2},
    "inference": {"count": 0},
    "evaluator": {"count": 0},
    "total_steps": 90,
    "checkpoint": {"every_steps": 30, "keep": 100, "exact": False},
}


def topology(**sections: Any) -> Topology:
    """Return the topology of a small run; ``sections`` update those of ``BASE``."""
    merged: dict[str, Any] = dict(BASE)
    for name, value in sections.items():
        merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    return parse(json.dumps(merged))


class Worker:
    """One process of the run."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.peer = f"{key[0]}.{key[1]}"
        self.inbox: deque[bytes] = deque()
        """Messages that the supervisor has sent to it."""
        self.handlers: dict[int, Any] = {}
        """Its handlers of signals."""
        self.returncode: int | None = None
        self.fiber: Fiber | None = None
        self.trainer: Trainer | None = None
        self.simulated: Simulated | None = None


class World:
    """One run folder through all lives of the run; a life begins with a start or a resume."""

    def __init__(self, folder: Path, topology: Topology) -> None:
        self.folder, self.topology = folder, topology
        self.description = described(dump(topology))
        self.expected: set[str] = set()
        """Reasons for which steps may be dropped, besides ``unfinished``."""
        self.numbers = Numbers()
        self.kept: dict[str, Segment] = {}
        """The run's segments, as they were at its end."""
        self.produced: list[Step] = []
        self.life = self.applied_before = 0
        """Lengths of ``produced`` and of ``applied`` at the beginning of this life."""
        self.cut: dict[str, tuple[int, list[Step]]] = {}
        """For each simulator killed in this life: its number of complete rollouts, and its steps after them."""
        self.saved: dict[Path, list[int]] = {}
        """Steps that each learner's simulators had produced when a checkpoint was written."""
        self.resumed: dict[int, Path] = {}
        """The checkpoint with which each learner began this life."""
        self.backwards: list[str] = []
        """Reports of words in shared memory that decreased, which they must not."""
        self.applied: list[tuple[str, list[Row]]] = []
        """Peer id and rows of every gradient, in order, whether it was lost or not."""
        self.notes: list[ev.Note] = []
        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.errors: list[str] = []
        """Errors with which processes ended."""
        self.workers: dict[Key, Worker] = {}
        self.heard: deque[tuple[str, bytes]] = deque()
        self.turns = 0
        self.interfere: Callable[[World], None] = lambda world: None
        self.trainers: dict[int, Trainer] = {}
        """The newest trainer of each learner, alive or not."""
        self.frozen: set[int] = set()
        """Learners whose simulators stand still."""
        self.finished: set[int] = set()
        """Learners whose trainers have ended and were not started again; their simulators stand still too."""
        self.power_cut = False
        """Whether the whole run dies with the victim."""
        self.requests = itertools.count()
        self.victim = ""
        """Peer id of the trainer whose failpoints are armed, and counted."""
        self.arms: Arms
        self._words: dict[str, Any] = {}
        self._inodes: dict[Path, int] = {}
        self.space: Workspace
        self.runner: Runner

    # A test's doors ---------------------------------------------------------------------------------------------------

    def run(self, resume: bool = False, arms: str = "") -> int:
        """Run to the end; return the exit status. ``arms`` are failpoints of the victim alone."""
        self.turns, self.workers, self.frozen, self.finished = 0, {}, set(), set()
        self.heard.clear()
        self.applied_before = len(self.applied)
        self.life, self.cut, self.resumed, self._words = len(self.produced), {}, {}, {}
        with _in_one_process(self), armed(arms, self._is_victim) as self.arms, Workspace(self.folder) as self.space:
            made = plan_run(self.topology, self.description, self.space, resume)
            self.space.open(made)
            node = open_local(made, self.space, _Spawner(self))
            self.space.write_down(made)
            self.runner = Runner(made, self.space, node, None)
            try:
                return self.runner.run()
            finally:
                for worker in self.workers.values():
                    self._end(worker, -signal.SIGKILL)
                self._keep()

    def _is_victim(self) -> bool:
        fiber = fibers.running()
        return fiber is not None and fiber.name == self.victim

    def _keep(self) -> None:
        """Keep mappings of all segments, which are removed with the run."""
        self.kept = {}
        for path in sorted(self.space.addresses.shm.iterdir()):
            with suppress(Exception):
                self.kept[path.name] = Segment.open(path)

    def ask(self, command: str, **fields: Any) -> None:
        """Ask the supervisor for something, as a command line does."""
        request = Request(protocol=PROTOCOL_VERSION, version=_version(), command=command, **fields)
        self.heard.append((f"asks{next(self.requests)}", encode(request)))

    def kill(self, name: str) -> None:
        """Kill the present incarnation of a process."""
        worker = self.present(name)
        assert worker is not None, f"{name} is not running"
        self._end(worker, -signal.SIGKILL)

    def has_come(self, peer: str) -> bool:
        """Whether the supervisor knows that a process is ready."""
        name, _, incarnation = peer.rpartition(".")
        ready = ("ready", "restarted", "attached")
        return any(n.kind in ready and (n.process, n.incarnation) == (name, int(incarnation)) for n in self.notes)

    def present(self, name: str) -> Worker | None:
        """The living process of that name."""
        return next((w for key, w in self.workers.items() if key[0] == name and w.returncode is None), None)

    # One turn ---------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let every process run once."""
        self.turns += 1
        assert self.turns < MOST_TURNS, f"still {self.runner.supervisor.phase} after {self.turns} turns"
        self.interfere(self)
        living = [worker for worker in self.workers.values() if worker.returncode is None]
        for worker in living:
            if worker.simulated is not None:
                self._play(worker)
        for worker in living:
            if worker.fiber is not None and worker.returncode is None:
                self._resume(worker)
        self._look()
        if self.power_cut and self.arms.acted:
            raise PowerCutError

    def ended(self) -> list[Key]:
        """Return the processes that have ended and were not reaped."""
        return [key for key, worker in self.workers.items() if worker.returncode is not None]

    def _play(self, worker: Worker) -> None:
        assert worker.simulated is not None
        if worker.inbox:  # the newest order
            worker.inbox.clear()
        if worker.simulated.learner not in self.frozen | self.finished:
            worker.simulated.play()
        if worker.simulated.left:
            self.heard.append((worker.peer, encode(Finished(reason="drained"))))
            self._end(worker, 0)

    def _resume(self, worker: Worker) -> None:
        assert worker.fiber is not None
        worker.fiber.resume()
        if worker.fiber.ended:
            error = worker.fiber.error
            if error is not None:
                self.errors.append(f"{worker.peer}: {type(error).__name__}: {error}")
            worker.returncode = -signal.SIGKILL if worker.fiber.killed else 1 if error is not None else 0
            if not worker.returncode and worker.trainer is not None:
                self.finished.add(worker.trainer.settings.learner)

    def _look(self) -> None:
        """Record new checkpoints, and words in shared memory that decreased."""
        for folder in sorted((self.folder / "checkpoints").glob("**/[0-9]*")):
            if folder.is_dir() and self._inodes.get(folder) != (inode := folder.stat().st_ino):
                self._inodes[folder] = inode  # also one that was saved again
                learners = [step.learner for step in self.produced]
                self.saved[folder] = [learners.count(learner) for learner in range(self.topology.learners.count)]
        for learner in range(self.topology.learners.count):
            for kind, word in (("weights", "newest"), ("rollouts", "open"), ("account", "commits")):
                self._watch(f"{kind}-{learner}", word)

    def _watch(self, name: str, word: str) -> None:
        segment = self._words.setdefault(name, {}).setdefault("segment", None) or Segment.open(
            self.space.addresses.shm / name
        )
        before, now = self._words[name].get(word, -1), int(segment[word][0])
        self._words[name] |= {"segment": segment, word: now}
        if now < before:
            self.backwards.append(f"{name}: {word} was {before} and is {now} in turn {self.turns}")

    def _end(self, worker: Worker, returncode: int) -> None:
        if worker.returncode is not None:
            return
        worker.returncode = returncode
        if worker.fiber is not None:
            worker.fiber.kill()
        if worker.simulated is not None:
            self.cut[worker.peer] = worker.simulated.cut()
            worker.simulated.close()

    # What the runner is given for a spawner ---------------------------------------------------------------------------

    def spawn(self, name: str, incarnation: int, role: str, path: Path, _threads: int) -> int:
        """Start a process."""
        worker = Worker((name, incarnation))
        if role == "simulator":
            settings = all_settings.read(path, SimulatorSettings)
            learner = settings.id.learner
            worker.simulated = Simulated(settings, learner, self.produced)
            self.heard.append((worker.peer, encode(_hello(settings, worker.simulated.shape))))
            worker.simulated.begin()
        else:
            assert role == "trainer", f"there are no processes of the role {role}"
            told = all_settings.read(path, TrainerSettings)
            worker.fiber = Fiber(worker.peer, lambda: self._train(worker, told))
            self.finished.discard(told.learner)  # it may have been stopped alone
        self.workers[worker.key] = worker
        return 10**6 + len(self.workers)

    def _train(self, worker: Worker, settings: TrainerSettings) -> None:
        trainer = Trainer(settings)
        worker.trainer = self.trainers[settings.learner] = trainer
        learning = trainer.learning

        def said(rows: list[Row]) -> float:
            self.applied.append((worker.peer, rows))
            exchange: Any = learning.exchange
            return float(len(exchange.taking_part)) if settings.exchange.together else 1.0

        replayed = learning.minibatches.replay is not None
        for each in (learning, *([learning.secondary] if isinstance(learning, LearningWithSecondary) else [])):
            each.algorithm.loss = counting(each.network.module, self.numbers, replayed, said)
        trainer.run()

    def signal(self, name: str, incarnation: int, number: int) -> None:
        """Send a signal."""
        worker = self.workers.get((name, incarnation))
        if worker is None or worker.returncode is not None:
            return
        if number == signal.SIGTERM and number in worker.handlers:
            worker.handlers[number](number, None)
        elif number in (signal.SIGTERM, signal.SIGKILL):
            self._end(worker, -number)

    def reap(self, key: Key) -> int:
        """Forget a process that has ended; returns its return code."""
        code = self.workers.pop(key).returncode
        assert code is not None
        return code


class PowerCutError(Exception):
    """The whole run dies at once, with its supervisor."""


@cache
def described(text: str) -> Description:
    """Return the description that the child process ``describe`` would send."""
    topology = parse(text)
    question = DescribeSettings(
        env=topology.env,
        model=topology.model,
        algorithm=topology.algorithm,
        optimizer=topology.optimizer,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)  # rehearsed steps belong to no run
        answer = describe.run(question)
    return msgspec.convert(json.loads(json.dumps(answer)), Description, strict=False)


def _version() -> str:
    from actorlearn import __version__

    return __version__


def _hello(settings: Any, shape: Mapping[str, str]) -> Hello:
    return Hello(
        id=settings.id,
        pid=os.getpid(),
        run_id=settings.run_id,
        protocol=PROTOCOL_VERSION,
        version=_version(),
        shape=dict(shape),
    )


# What stands in for the outside --------------------------------------------------------------------------------------


class _Dealer:
    """A child's end of the control socket."""

    socket = SimpleNamespace(close=lambda linger=0: None)

    def __init__(self, world: World, peer: str) -> None:
        self._world, self._peer = world, peer
        name, _, incarnation = peer.rpartition(".")
        self._worker = world.workers[name, int(incarnation)]

    def send(self, body: bytes) -> bool:
        self._world.heard.append((self._peer, body))
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        return self._worker.inbox.popleft() if self._worker.inbox else None

    def close(self, linger_ms: int = 0) -> None:
        pass


class _Router:
    """The supervisor's end of the control socket."""

    fd = -1

    def __init__(self, world: World) -> None:
        self._world = world

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        return self._world.heard.popleft() if self._world.heard else None

    def send(self, peer: str, body: bytes) -> bool:
        name, _, incarnation = peer.rpartition(".")
        worker = self._world.workers.get((name, int(incarnation))) if incarnation.isdecimal() else None
        if worker is not None:
            worker.inbox.append(body)
        return worker is not None

    def close(self) -> None:
        pass


class _Spawner:
    fd = -1

    def __init__(self, world: World) -> None:
        self._world = world
        self.spawn, self.kill, self.reap = world.spawn, world.signal, world.reap

    def ended(self) -> list[Key]:
        return self._world.ended()

    def show_stack(self, name: str, incarnation: int, about: str) -> None:
        pass

    def reap_orphans(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Selector:
    """Waits by letting all processes take a turn."""

    def __init__(self, world: World) -> None:
        self._world = world

    def register(self, *_: Any) -> None:
        pass

    def select(self, _timeout_s: float) -> None:
        self._world.turn()

    def close(self) -> None:
        pass


class _Clock:
    """Advances by ``TURN_S`` in each turn."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def advance(self) -> tuple[float, float]:
        self._now_s += TURN_S
        return self._now_s, 0.0


class _Journal:
    """Keeps rows and events in memory, and writes the events, which a resumed run reads."""

    def __init__(self, world: World, run_dir: Path) -> None:
        self._world, self._path = world, run_dir / "events.jsonl"

    def begin(self) -> None:
        self._path.touch()

    def event(self, note: ev.Note) -> None:
        self._world.notes.append(note)
        line = {"kind": note.kind, "process": note.process, "incarnation": note.incarnation, "cause": note.cause}
        with self._path.open("a") as file:
            file.write(json.dumps({**line, **note.fields}, default=str) + "\n")

    def row(self, values: Mapping[str, Any]) -> None:
        self._world.rows.append(dict(values))

    def summary(self, values: Mapping[str, Any]) -> None:
        self._world.summary = dict(values)

    def close(self) -> None:
        pass


def _handled(world: World, number: int, handler: Any) -> Any:
    """Register a signal handler for the calling fiber alone."""
    fiber = fibers.running()
    worker = next((worker for worker in world.workers.values() if fiber and worker.fiber is fiber), None)
    if worker is None:
        return _signal(number, handler)
    worker.handlers[number] = handler
    return signal.SIG_DFL


_signal, _sleep = signal.signal, time.sleep


@contextmanager
def _in_one_process(world: World) -> Iterator[None]:
    """Replace sockets, clocks, waits and signals by stand-ins of this world."""

    def taken_up(settings: TrainerSettings, *more: Any) -> Any:
        saved, warnings = open_checkpoint(settings, *more)
        if not settings.id.incarnation:
            world.resumed[settings.learner] = saved.path
        return saved, warnings

    def waited(*_: Any) -> bool:
        fibers.pause()
        return False

    with pytest.MonkeyPatch.context() as patch, fibers.keeping_descriptors():
        for name, made in {
            "Router": lambda _endpoint: _Router(world),
            "Journal": lambda run_dir, *_: _Journal(world, run_dir),
            "AwakeClock": _Clock,
            "HangDetector": lambda *_: SimpleNamespace(look=lambda *_: [], forgive=lambda _: None),
            "selectors": SimpleNamespace(DefaultSelector=lambda: _Selector(world), EVENT_READ=1),
            "Energy": lambda: SimpleNamespace(row=lambda _: {}),
        }.items():
            patch.setattr(next(m for m in (control, local, loop, reporter) if hasattr(m, name)), name, made)
        patch.setattr("actorlearn.processes.checkpoints.open_checkpoint", taken_up)
        patch.setattr("launch.runtime.metadata.meta", lambda *_: {})
        patch.setattr("actorlearn.wire.control.Dealer", lambda _endpoint, peer: _Dealer(world, peer))
        patch.setattr("actorlearn.wire.channel.Waiter.__init__", lambda *_: None)
        patch.setattr("actorlearn.wire.channel.Waiter.wait", waited)
        patch.setattr("actorlearn.worker.worker.LOOK_S", 0.0)
        patch.setattr(time, "sleep", lambda seconds: waited() if fibers.running() else _sleep(seconds))
        patch.setattr(signal, "signal", lambda number, handler: _handled(world, number, handler))
        patch.setattr(os, "fsync", lambda _handle: None)
        yield
