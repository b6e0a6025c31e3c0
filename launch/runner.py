"""Runs a topology: turns the world into events for the supervisor, and its actions into deeds.

One loop over one wait: the control socket, the ends of children, signals, the clock. Makes the run folder, the shared
directory and the directory of sockets, and removes the last two whatever happens.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from actorlearn.memory.shared import SharedDirectory
from actorlearn.metrics.writer import EventsWriter, MetricsWriter
from actorlearn.processes import settings as all_settings
from actorlearn.processes.settings import ProcessSettings
from actorlearn.wire.channel import Router, Waiter
from actorlearn.wire.messages import MessageError, Request, decode, encode
from launch import events as ev
from launch.description import describe
from launch.pace import Pace
from launch.plan import Plan, plan
from launch.record import write_meta, write_summary
from launch.spawner import Spawner
from launch.supervisor import Supervisor
from launch.topology import Topology, TopologyError, dump

TICK_MS = 100
SCREEN_EVERY_S = 0.5


def run(topology: Topology, run_dir: Path, *, resume: bool, console: ev.Console) -> int:
    """Run to the end; returns the exit status. Raises TopologyError or SharedMemoryFull before anything is started."""
    SharedDirectory.sweep()
    description = describe(topology)
    run_id = f"{topology.name[:40]}-{secrets.token_hex(3)}"
    planned = plan(topology, run_dir, run_id, sockets_root() / f"actorlearn-{os.getuid()}-{run_id}", description)
    if resume:
        planned.resumed_at = newest_checkpoint_steps(run_dir)
    with ExitStack() as stack:
        shared = SharedDirectory.create(run_id, planned.bytes_total)
        stack.callback(shared.close)
        planned.create_segments()
        planned.sockets_dir.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, planned.sockets_dir, ignore_errors=True)
        for folder in ("logs", "settings", "checkpoints"):
            (planned.run_dir / folder).mkdir(parents=True, exist_ok=True)
        (planned.run_dir / "topology.yaml").write_text(dump(topology))
        write_meta(planned)
        (planned.shm / "run").write_text(f"{planned.run_dir}\n")
        return Runner(planned, resume, console, stack).run()


def sockets_root() -> Path:
    """Where directories of sockets go: ipc paths must be short, so not into the run folder."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(given) if given and os.access(given, os.W_OK) and len(given) < 30 else Path("/tmp")


def newest_checkpoint_steps(run_dir: Path) -> int:
    """Environment steps of the newest checkpoint folder; 0 when there is none."""
    folders = (run_dir / "checkpoints").glob("*")
    return max((int(folder.name) for folder in folders if folder.name.isdigit()), default=0)


class Runner:
    """One run from its first process to its last."""

    def __init__(self, planned: Plan, resume: bool, console: ev.Console, stack: ExitStack) -> None:
        """Open what the run needs; ``stack`` closes it in reverse order."""
        self.plan = planned
        self.console = console
        self.supervisor = Supervisor(
            {process.name: process.role for process in planned.processes},
            planned.expected_shape,
            planned.run_id,
            resume=resume,
        )
        self.metrics = stack.enter_context(MetricsWriter(planned.run_dir))
        self.events = stack.enter_context(EventsWriter(planned.run_dir))
        self.router = Router(planned.endpoint("control"))
        stack.callback(self.router.close)
        self.spawner = Spawner(planned.run_dir / "logs")
        stack.callback(self.spawner.close)
        self.pace = Pace(planned.progress)
        self.overrides: dict[str, dict[str, Any]] = {}
        """Environment keys that an attach request gave its simulators."""
        self.last_row: Mapping[str, Any] = {}
        self.done: ev.Done | None = None
        self._inbox: deque[ev.Event] = deque()
        self._deeds: dict[type, Callable[[Any], object]] = {
            ev.Spawn: self._spawn,
            ev.Kill: lambda a: self.spawner.kill(a.name, a.incarnation, a.signal),
            ev.Send: lambda a: self.router.send(f"{a.name}.{a.incarnation}", encode(a.message)),
            ev.Enlarge: self._enlarge,
            ev.Answer: lambda a: self.router.send(a.client, encode(a.reply)),
            ev.Note: self._note,
            ev.Row: self._row,
            ev.Done: self._done,
        }

    def run(self) -> int:
        """Loop until the supervisor says Done."""
        with interruptions() as (waking, interrupted):
            self._tell(ev.Begin())
            shown_s = 0.0
            while self.done is None:
                Waiter([self.router], [waking, *self.spawner.descriptors()]).wait(TICK_MS)
                for _ in interrupted():
                    self._tell(ev.Interrupted())
                for name, incarnation, returncode in self._ended():
                    self._tell(ev.Exited(name, incarnation, returncode))
                self._read_messages()
                for name, incarnation, seconds in self.pace.stalled(self._running(), time.monotonic()):
                    self._tell(ev.Stalled(name, incarnation, seconds))
                self._tell(ev.Tick())
                if time.monotonic() - shown_s >= SCREEN_EVERY_S:
                    shown_s = time.monotonic()
                    self.console.processes(self._listed())
        known = {**self.last_row, **self.done.summary}
        write_summary(self.plan.run_dir, self.done.status, self.done.error, known)
        self.console.close()
        return self.done.exit_code

    # The world, as events ----------------------------------------------------------------------------------------

    def _tell(self, event: ev.Event) -> None:
        """Tell the supervisor, and what comes of its own actions after that."""
        self._inbox.append(event)
        while self._inbox:
            for action in self.supervisor.handle(self._inbox.popleft(), time.monotonic()):
                self._deeds[type(action)](action)

    def _ended(self) -> Iterator[tuple[str, int, int]]:
        for name, incarnation, returncode in self.spawner.ended():
            yield name, incarnation, returncode
            if self.plan.process(name).role == "simulator":
                self.plan.drop_seat(self.plan.seat(name, incarnation))

    def _read_messages(self) -> None:
        while (got := self.router.recv()) is not None:
            peer, body = got
            try:
                message = decode(body, "supervisor")
            except MessageError as error:
                self._note(ev.Note("refused", peer[:80], cause=str(error)[:300]))
                continue
            name, _, incarnation = peer.rpartition(".")
            if isinstance(message, Request):
                self._tell(ev.Asked(peer, message))
            elif name and incarnation.isdigit():
                self._tell(ev.Received(name, int(incarnation), message))

    def _running(self) -> list[tuple[str, int, int]]:
        return [
            (child["name"], child["incarnation"], self.plan.process(child["name"]).index)
            for child in self.supervisor.processes()
            if child["state"] == "RUNNING"
        ]

    def _listed(self) -> list[dict[str, Any]]:
        busy = self.pace.busy()
        listed = self.supervisor.processes()
        return [{**child, "busy": busy.get(self.plan.process(child["name"]).index)} for child in listed]

    # Actions, as deeds -------------------------------------------------------------------------------------------

    def _spawn(self, action: ev.Spawn) -> None:
        process = self.plan.process(action.name)
        try:
            seat = self.plan.create_seat(action.name, action.incarnation) if process.role == "simulator" else None
            env = self.overrides.get(action.name)
            settings = self.plan.settings(action.name, action.incarnation, resume=action.resume, env=env)
            path = self._write_settings(settings)
            pid = self.spawner.spawn(action.name, action.incarnation, process.role, path, settings.threads)
        except (OSError, ValueError) as error:
            self._inbox.append(ev.NotSpawned(action.name, action.incarnation, str(error)))
            return
        self.pace.fresh(process.index, time.monotonic())
        self._inbox.append(ev.Spawned(action.name, action.incarnation, pid, seat))

    def _write_settings(self, settings: ProcessSettings) -> Path:
        path = self.plan.run_dir / "settings" / f"{settings.name}.{settings.incarnation}.json"
        all_settings.write(settings, path)
        return path

    def _enlarge(self, action: ev.Enlarge) -> None:
        try:
            env = env_overrides(action.overrides)
            names = tuple(process.name for process in self.plan.add_simulators(action.simulators))
        except TopologyError as error:
            self._inbox.append(ev.NotEnlarged(action.client, str(error)))
            return
        self.overrides.update(dict.fromkeys(names, env))
        self._inbox.append(ev.Enlarged(action.client, names))

    def _note(self, note: ev.Note) -> None:
        self.events.event(note.kind, note.process, note.incarnation, note.cause, **note.fields)
        self.console.event(note)

    def _row(self, action: ev.Row) -> None:
        self.last_row = {**action.values, **self.pace.shares(self.plan.processes)}
        self.metrics.row(self.last_row)
        self.console.row(self.last_row)

    def _done(self, action: ev.Done) -> None:
        self.done = action


def env_overrides(overrides: tuple[str, ...]) -> dict[str, Any]:
    """Read ``env.key=value`` overrides of an attach request; raises TopologyError for any other key."""
    env: dict[str, Any] = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.startswith("env."):
            raise TopologyError(f"{override!r}: attached simulators take env.<key>=<value> only; leave it out")
        env[key.removeprefix("env.")] = yaml.safe_load(value)
    return env


@contextmanager
def interruptions() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into bytes: a descriptor that wakes the loop, and what reads them."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def nothing(_number: int, _frame: FrameType | None) -> None:
        """The byte in the pipe says it all."""

    before = {number: signal.signal(number, nothing) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    wakeup_before = signal.set_wakeup_fd(writing)

    def read() -> bytes:
        try:
            received = os.read(reading, 1024)
        except BlockingIOError:
            return b""
        return bytes(number for number in received if number in before)

    try:
        yield reading, read
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
