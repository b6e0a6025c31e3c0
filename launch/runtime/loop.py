"""The loop around the supervisor: turns the world into events, and its actions into deeds.

Reads exits (pidfds), the control socket, signals, the progress segment and the clock. Writes the run folder; makes and
removes processes, shared memory and sockets. Decides nothing: that is ``launch/supervision/supervisor.py``.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actorlearn.wire.channel import Router
from actorlearn.wire.messages import Message, Reply, Request, brief, decode, encode
from launch.engines.local import LOCAL
from launch.engines.specs import EngineSpec
from launch.plan.memory_order import refuse_disorder
from launch.plan.plan import Plan, plan
from launch.plan.probe import describe
from launch.plan.resumption import Resumption
from launch.runs.attached import find_attached
from launch.runtime import resume_checks
from launch.runtime.clock import AwakeClock
from launch.runtime.incarnations import Incarnations
from launch.runtime.reporter import Reporter, beforehand
from launch.runtime.workspace import Workspace
from launch.spawning.spawner import Key, Spawner
from launch.supervision import events as ev
from launch.supervision.hangs import HangDetector, Watched
from launch.supervision.supervisor import Supervisor
from launch.topology.load import Topology
from launch.topology.modes import mode

TURN_S = 0.1
SHOW_EVERY_S = 0.5
LAST_WORDS_S = 0.05
"""Seconds of listening for a process's last messages, as its exit may be seen before them."""

MOST_MESSAGES = 1000
"""Most messages read in one turn, so that a sender that floods the socket does not starve the others."""


def run(
    topology: Topology,
    run_dir: Path,
    *,
    resume: bool = False,
    console: ev.Console | None = None,
    engine: EngineSpec = LOCAL,
) -> int:
    """Run a topology to its end; returns the exit status. Call it from the main thread; leaves nothing behind.

    Raises TopologyError, RunError, SharedMemoryFull or ChannelError before the first process is started; ValueError for
    an engine that cannot be imported, OSError for one that cannot be opened.
    """
    open_spawner = engine.load()
    with Workspace(run_dir) as workspace:
        refuse_disorder(topology)
        made = plan(topology, describe(topology))  # Ctrl-C still ends us here: signals are heard from open on
        resumption = resume_checks.find_resumption(made, workspace.run_dir, resume)
        workspace.open(made, resumption)
        spawner = open_spawner(workspace.run_dir, workspace.addresses.run_id)
        return Runner(made, resumption, workspace, spawner, console).run()


class Runner:
    """One run, from its first process to its summary."""

    def __init__(
        self, plan: Plan, resumption: Resumption, workspace: Workspace, spawner: Spawner, console: ev.Console | None
    ) -> None:
        """Start nothing yet; ``console`` None: show nothing."""
        self.plan, self.resumption, self.workspace = plan, resumption, workspace
        topology, resumed = plan.topology, resumption.resumed
        self.spawner = workspace.keep(spawner)
        self.router = workspace.keep(Router(workspace.addresses.control))
        self.reporter = workspace.keep(Reporter(topology.report, resumed, workspace, console))
        self.selector = workspace.keep(selectors.DefaultSelector())
        self.incarnations = Incarnations(plan, resumption, workspace, spawner)
        self.supervisor = Supervisor(
            self.incarnations.table.listed,
            plan.expected_shape,
            workspace.addresses.run_id,
            drain_s=topology.supervision.drain_s,
            budget=topology.supervision,
            mode=mode(topology),
            resume=resumed,
        )
        self.clock = AwakeClock()
        self.hangs = HangDetector(workspace.progress["beat_ns"], topology.limits, topology.supervision.start_s)
        self.attached_before = find_attached(workspace.run_dir / "events.jsonl") if resumed else []
        self._now_s, self._shown_s = 0.0, -SHOW_EVERY_S
        self._peers: dict[str, Key] = {}
        """Living processes by the ids with which they speak on the control socket; all other ids are command lines.
        """
        self._done: ev.Done | None = None
        self._events: deque[ev.Event] = deque()
        self._actions: deque[ev.Action] = deque()
        self._deeds: dict[type, Callable[[Any], ev.Event | None]] = {
            ev.Spawn: self._spawn,
            ev.Kill: lambda kill: self.spawner.kill(kill.name, kill.incarnation, kill.signal),
            ev.ShowStack: lambda asked: self.spawner.show_stack(asked.name, asked.incarnation, asked.heading),
            ev.Send: lambda send: self._say(f"{send.name}.{send.incarnation}", send.message),
            ev.Answer: lambda answer: self._say(answer.client, answer.reply),
            ev.Enlarge: self.incarnations.enlarge,
            ev.Note: self.reporter.note,
            ev.MetricsRow: self._row,
            ev.Done: self._end,
        }
        """Type of action -> function that carries it out and returns the resulting event, if any."""

    def run(self) -> int:
        """Turn the loop until the supervisor is done; the summary is written whatever happens."""
        for fd in (self.router.fd, self.workspace.signals.fd, self.spawner.fd):
            self.selector.register(fd, selectors.EVENT_READ)
        error = "the supervisor itself failed"
        try:
            self.reporter.begin(beforehand(self.plan, self.resumption, self.attached_before))
            self._happened(ev.Begin())
            while self._done is None:
                self._turn()
            return self._done.exit_code
        except BaseException as fault:
            error = f"supervisor: {type(fault).__name__}: {fault}"
            raise
        finally:
            self.spawner.close()
            self.reporter.end(self._done or ev.Done("failed", 1, error), self._now_s)

    def _turn(self) -> None:
        """Wait for an event, or a moment; then give the supervisor all events."""
        self.selector.select(TURN_S)
        ended = self.spawner.ended()
        self._now_s, gap_s = self.clock.advance()
        if gap_s:
            self.hangs.forgive(gap_s)
        for number in self.workspace.signals.read():
            self._happened(ev.Interrupted(hangup=number == signal.SIGHUP))
        self._listen(0)
        self._reap(ended)
        self.spawner.reap_orphans()
        self._look_for_hangs()
        self._happened(ev.Tick())
        for name in self.incarnations.forget_all_but({process["name"] for process in self.supervisor.processes()}):
            self.reporter.leave(name)
        self.incarnations.drop_members(self.supervisor.gone_members())
        if self._now_s - self._shown_s >= SHOW_EVERY_S:
            self._shown_s = self._now_s
            rows = {process.name: process.index for process in self.incarnations.table.listed}
            self.reporter.processes(self.supervisor.processes(), rows)

    def _happened(self, event: ev.Event) -> None:
        """Give an event to the supervisor, carry out its actions, and give it the events that result."""
        self._events.append(event)
        while self._actions or self._events:
            if self._actions:  # of one event all, also when a message before it came to a bad end among them
                action = self._actions.popleft()
                if came_of_it := self._deeds[type(action)](action):
                    self._events.append(came_of_it)
            else:
                self._actions.extend(self.supervisor.handle(self._events.popleft(), self._now_s))

    # Events ---------------------------------------------------------------------------------------------------------

    def _reap(self, keys: list[Key]) -> None:
        """Reap ended processes, reading their last messages before the supervisor gets their exits."""
        exits = [(key, self.spawner.reap(key)) for key in keys]
        if any(returncode >= 0 for _, returncode in exits):
            self._listen(LAST_WORDS_S)
        for key, returncode in exits:
            name, incarnation = key
            self._happened(ev.Exited(name, incarnation, returncode))
            self._peers = {peer: own for peer, own in self._peers.items() if own != key}
            self.incarnations.ended(key)

    def _listen(self, patience_s: float) -> None:
        """Read the messages at the control socket, and those that arrive within this time."""
        deadline_s = time.monotonic() + patience_s
        for _ in range(MOST_MESSAGES):
            received = self.router.recv(max(0, round(1000 * (deadline_s - time.monotonic()))))
            if received is None:
                return
            peer, body = received
            self._heard(peer, body)

    def _heard(self, peer: str, body: bytes) -> None:
        """Handle a message; one that cannot be handled is reported and has no other effect."""
        try:
            self._act_on(peer, body)
        except Exception as error:
            said = brief(f"{peer!a} was not understood: {type(error).__name__}: {error}")
            self.reporter.complaint(said)
            if peer not in self._peers:  # a command line waits for a reply
                self._say(peer, Reply(ok=False, text=said))

    def _act_on(self, peer: str, body: bytes) -> None:
        message = decode(body, "supervisor")
        if key := self._peers.get(peer):
            name, incarnation = key
            self._happened(ev.Received(name, incarnation, message))
        elif isinstance(message, Request):
            self._happened(ev.Asked(peer, message))

    def _look_for_hangs(self) -> None:
        watched = []
        for listed in self.supervisor.processes():
            if listed["pid"] is not None:
                process, starting = self.incarnations.table.find(listed["name"]), listed["state"] == "starting"
                own = process.id.again(listed["incarnation"])
                watched.append(Watched(own.name, own.incarnation, own.role, process.index, listed["pid"], starting))
        for event in self.hangs.look(watched, self._now_s):
            self._happened(event)

    # Deeds ----------------------------------------------------------------------------------------------------------

    def _spawn(self, action: ev.Spawn) -> ev.Spawned | ev.NotSpawned:
        came_of_it = self.incarnations.spawn(action)
        if isinstance(came_of_it, ev.Spawned):
            own = self.incarnations.table.find(action.name).id.again(action.incarnation)
            self._peers |= dict.fromkeys((own.socket_id, own.last_words_id), (action.name, action.incarnation))
        return came_of_it

    def _say(self, peer: str, message: Message) -> None:
        self.router.send(peer, encode(message))  # a lost Order is said again, a lost Reply has lost its reader

    def _row(self, action: ev.MetricsRow) -> None:
        self.reporter.row(action, self._now_s, [process.index for process in self.incarnations.table.listed])

    def _end(self, done: ev.Done) -> None:
        self._done = done
