"""The loop around the supervisor: turns the world into events, and its actions into deeds.

Reads exits (pidfds), the control socket, signals, the progress segment and the clock. Writes the run folder; makes and
removes processes, shared memory and sockets. Decides nothing: that is ``launch/supervision/supervisor.py``.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.envs.specs import EnvSettings
from actorlearn.files import DISK_ERRORS
from actorlearn.metrics.energy import Energy
from actorlearn.wire.channel import Router
from actorlearn.wire.messages import Member, Message, Reply, Request, brief, decode, encode
from actorlearn.worker import settings as all_settings
from actorlearn.worker.roles import ROLES
from launch.engines.local import LOCAL
from launch.engines.specs import EngineSpec
from launch.machine.cores import in_turn
from launch.plan.auto import crowded
from launch.plan.memory_order import disorder, refuse_disorder
from launch.plan.placement import place
from launch.plan.plan import Plan, plan
from launch.plan.probe import describe
from launch.plan.processes import PlannedProcess
from launch.plan.resumption import Resumption
from launch.plan.roles import Briefing, Start, instructions
from launch.reports import evaluations
from launch.reports.merge import LearnerRows
from launch.runs.jsonl import Lines
from launch.runs.membership import attached_before
from launch.runtime import metadata, resume_checks
from launch.runtime.clock import AwakeClock, TimeShares
from launch.runtime.complaints import Complaints
from launch.runtime.journal import Journal
from launch.runtime.workspace import Workspace
from launch.spawning.spawner import Key, Spawner, SpawnerLostError
from launch.supervision import events as ev
from launch.supervision.hangs import HangDetector, Watched
from launch.supervision.membership import Membership
from launch.supervision.supervisor import Supervisor
from launch.topology.load import Topology, dump, parse
from launch.topology.modes import mode
from launch.topology.strict_yaml import TopologyError

TURN_S = 0.1
SHOW_EVERY_S = 0.5
LAST_WORDS_S = 0.05
"""How long we listen for what a process said just before its exit, which may be seen first."""

MOST_MESSAGES = 1000
"""Read in one turn; whoever floods the socket must not keep us from the others."""

QUIET = frozenset({"spawned", "ended", "failed"})
"""Notes about a process that only events.jsonl gets: another one says as much to a person."""


def run(
    topology: Topology,
    run_dir: Path,
    *,
    resume: bool = False,
    console: ev.Console | None = None,
    engine: EngineSpec = LOCAL,
) -> int:
    """Run a topology to its end; returns the exit status. Call it from the main thread; leaves nothing behind.

    Raises what stands in the way before the first process is started: TopologyError, RunError, SharedMemoryFull,
    ChannelError, and of an engine ValueError where it cannot be imported and OSError where it cannot be opened.
    """
    open_spawner = engine.load()
    with Workspace(run_dir) as workspace:
        refuse_disorder(topology)
        made = plan(topology, describe(topology))  # Ctrl-C still ends us here: signals are heard from open on
        resumption = resume_checks.found(made, workspace.run_dir, resume)
        workspace.open(made, resumption)
        spawner = open_spawner(workspace.run_dir, workspace.addresses.run_id)
        return Runner(made, resumption, workspace, spawner, console).run()


class Runner:
    """One run, from its first process to its summary."""

    def __init__(
        self, plan: Plan, resumption: Resumption, workspace: Workspace, spawner: Spawner, console: ev.Console | None
    ) -> None:
        """Nothing is started yet."""
        self.plan, self.resumption, self.workspace, self.console = plan, resumption, workspace, console
        """The console is None when there is nobody to see it, or it has failed."""
        addresses, run_dir = workspace.addresses, workspace.run_dir
        placement = place(plan.topology, in_turn())
        self.briefing = Briefing(plan.topology, plan.description, plan.exact, addresses, placement, resumption)
        self.membership = Membership(plan, resumption)
        self.spawner = workspace.keep(spawner)
        self.router = workspace.keep(Router(addresses.control.endpoint))
        self.journal = workspace.keep(Journal(run_dir, lambda note: self._tell(lambda console: console.event(note))))
        self.selector = workspace.keep(selectors.DefaultSelector())
        limits = plan.topology.supervision
        self.supervisor = _supervisor(self.briefing, self.membership, plan.expected_shape)
        self.clock = AwakeClock()
        self.now_s = 0.0
        self.hangs = HangDetector(workspace.progress["beat_ns"], plan.topology.limits, limits.start_s)
        self.row_shares, self.shown_shares = (TimeShares(workspace.progress["section_ns"]) for _ in range(2))
        self.rows = LearnerRows(plan.topology.report.every_s)
        self.energy = Energy()
        self.peers: dict[str, Key] = {}
        """Who speaks by which ids on the control socket, of the processes that there are; all others are command lines.
        """
        self.members: dict[Key, Member] = {}
        self.gone_members: list[Member] = []
        """Of simulators that have ended, with segments that are still there."""
        self.environments: dict[str, EnvSettings] = {}
        """Changes to the environment of simulators that were attached with some."""
        self.last_row = Lines(run_dir / "metrics.jsonl").last() or {} if resumption.resumed else {}
        self.attached_before = attached_before(run_dir / "events.jsonl") if resumption.resumed else []
        self.evaluation: dict[str, Any] = {}
        self.measured: dict[str, Any] = {}
        """Newest metrics of processes that are no trainers."""
        self.shown_s = -SHOW_EVERY_S
        self.deaths, self.complaints = 0, Complaints()
        self.done: ev.Done | None = None
        self._events: deque[ev.Event] = deque()
        self._actions: deque[ev.Action] = deque()
        self._deeds: dict[type, Callable[[Any], None]] = {
            ev.Spawn: self._spawn,
            ev.Kill: lambda kill: self.spawner.kill(kill.name, kill.incarnation, kill.signal),
            ev.ShowStack: lambda asked: self.spawner.show_stack(asked.name, asked.incarnation, asked.heading),
            ev.Send: lambda send: self._say(f"{send.name}.{send.incarnation}", send.message),
            ev.Answer: lambda answer: self._say(answer.client, answer.reply),
            ev.Enlarge: self._enlarge,
            ev.Note: self._note,
            ev.Row: self._row,
            ev.Done: self._end,
        }

    def run(self) -> int:
        """Turn the loop until the supervisor is done; the summary is written whatever happens."""
        self.selector.register(self.router.fd, selectors.EVENT_READ)
        self.selector.register(self.workspace.signals.fd, selectors.EVENT_READ)
        self.selector.register(self.spawner.fd, selectors.EVENT_READ)
        error = "the supervisor itself failed"
        self.journal.begin()
        try:
            self._say_beforehand()
            self._happened(ev.Begin())
            while self.done is None:
                self._turn()
            return self.done.exit_code
        except BaseException as fault:
            error = f"supervisor: {type(fault).__name__}: {fault}"
            raise
        finally:
            self.spawner.close()
            done = self.done or ev.Done("failed", 1, error)
            found = evaluations.best_and_last(Lines(self.workspace.run_dir / "events.jsonl").new())
            rows = (self.last_row, done.summary)
            summary = metadata.summary(
                done.status, done.error, self.deaths, self.complaints.count, *rows, self.now_s, found
            )
            self.journal.summary(summary)
            if found:
                said = ev.Note("evaluated", cause=evaluations.best_and_last_line(found))
                self._tell(lambda console: console.event(said))

    def _turn(self) -> None:
        """Wait for something, or a moment; then tell the supervisor all that has happened."""
        self.selector.select(TURN_S)
        ended = self.spawner.ended()
        self.now_s, gap_s = self.clock.advance()
        if gap_s:
            self.hangs.forgive(gap_s)
        for number in self.workspace.signals.read():
            self._happened(ev.Interrupted(hangup=number == signal.SIGHUP))
        self._listen(0)
        self._reap(ended)
        self.spawner.reap_orphans()
        self._look_for_hangs()
        self._happened(ev.Tick())
        self._forget_the_gone()
        self._drop_members()
        if self.now_s - self.shown_s >= SHOW_EVERY_S:
            self.shown_s = self.now_s
            self._show()

    def _happened(self, event: ev.Event) -> None:
        """Tell the supervisor, do what it says, and tell it what came of that."""
        self._events.append(event)
        while self._actions or self._events:
            if self._actions:  # of one event all, also when a message before it came to a bad end among them
                action = self._actions.popleft()
                self._deeds[type(action)](action)
            else:
                self._actions.extend(self.supervisor.handle(self._events.popleft(), self.now_s))

    # Events ---------------------------------------------------------------------------------------------------------

    def _reap(self, keys: list[Key]) -> None:
        """Reap who has ended, but hear its last words before its exit is told."""
        exits = [(key, self.spawner.reap(key)) for key in keys]
        if any(returncode >= 0 for _, returncode in exits):
            self._listen(LAST_WORDS_S)
        for key, returncode in exits:
            self._happened(ev.Exited(*key, returncode))
            self.peers = {peer: own for peer, own in self.peers.items() if own != key}
            if member := self.members.pop(key, None):
                self.gone_members.append(member)

    def _listen(self, patience_s: float) -> None:
        """Read what has come to the control socket, and what comes within this time."""
        deadline_s = time.monotonic() + patience_s
        for _ in range(MOST_MESSAGES):
            received = self.router.recv(max(0, round(1000 * (deadline_s - time.monotonic()))))
            if received is None:
                return
            self._heard(*received)

    def _heard(self, peer: str, body: bytes) -> None:
        """Act on a message; one that cannot be acted on, whatever the reason, is its sender's fault alone."""
        try:
            self._act_on(peer, body)
        except Exception as error:
            said = f"{peer!a} was not understood: {type(error).__name__}: {error}"
            if line := self.complaints.count_one(brief(said)):
                self._note(ev.Note("warned", cause=line))
            if peer not in self.peers:  # a command line waits for a reply
                self._say(peer, Reply(ok=False, text=brief(said)))

    def _act_on(self, peer: str, body: bytes) -> None:
        message = decode(body, "supervisor")
        if key := self.peers.get(peer):
            self._happened(ev.Received(*key, message))
        elif isinstance(message, Request):
            self._happened(ev.Asked(peer, message))

    def _look_for_hangs(self) -> None:
        alive = [(p, self.membership.named(p["name"])) for p in self.supervisor.processes() if p["pid"] is not None]
        watched = [
            Watched(process.name, p["incarnation"], process.id.role, process.index, p["pid"], p["state"] == "starting")
            for p, process in alive
        ]
        for event in self.hangs.look(watched, self.now_s):
            self._happened(event)

    def _forget_the_gone(self) -> None:
        """Free the rows of processes that have left for good, for those that are still to come."""
        listed = {process["name"] for process in self.supervisor.processes()}
        for process in [process for process in self.membership.listed if process.name not in listed]:
            self.membership.remove(process)
            if ROLES.spec(process.id.role).learns:
                self.workspace.drop_learner(process.id.learner)
            self.environments.pop(process.name, None)
            self.rows.leave(process.name)

    def _drop_members(self) -> None:
        """Remove the segments of ended simulators that no trainer needs any more."""
        wanted = self.supervisor.gone_members()
        needed = [member for member in self.gone_members if member in wanted]
        for member in self.gone_members:
            if member not in needed:
                self.workspace.drop_member(member)
        self.gone_members = needed

    # Deeds ----------------------------------------------------------------------------------------------------------

    def _spawn(self, action: ev.Spawn) -> None:
        name, incarnation = action.name, action.incarnation
        process, member = self.membership.named(name), None
        own = process.id.again(incarnation)
        path = self.workspace.addresses.settings(own)
        try:
            if ROLES.spec(own.role).makes_rows:
                member = self.members[name, incarnation] = self.workspace.create_member(own)
            start = Start(action.resume, self.environments.get(name))
            settings = instructions(self.briefing, own, process.index, start)
            all_settings.write(settings, path)
            pid = self.spawner.spawn(name, incarnation, own.role, path, settings.threads)
        except OSError as error:
            if member is not None:
                self.workspace.drop_member(self.members.pop((name, incarnation)))
            passing = error.errno in DISK_ERRORS or isinstance(error, SpawnerLostError)
            self._events.append(ev.NotSpawned(name, incarnation, f"cannot be started: {error}", passing))
            return
        self.peers |= dict.fromkeys((own.peer, own.last_words), (name, incarnation))
        self._events.append(ev.Spawned(name, incarnation, pid, member))

    def _say(self, peer: str, message: Message) -> None:
        self.router.send(peer, encode(message))  # a lost Order is said again, a lost Reply has lost its reader

    def _enlarge(self, action: ev.Enlarge) -> None:
        """Plan more simulators, or learners, with changes to nothing but the environment of the new simulators."""
        own = self.plan.topology
        try:
            changed = parse(dump(own), action.overrides, "the run's topology")
            if msgspec.structs.replace(changed, env=own.env) != own:
                raise TopologyError(
                    f"attach {' '.join(action.overrides)}: only env.* can be changed; start another run"
                )
            join = self.membership.add_simulators
            new = self._learners(action.learners) if action.learners else join(action.simulators)
        except (TopologyError, OSError) as error:  # no room in the run, or in shared memory
            self._events.append(ev.NotEnlarged(action.client, str(error)))
            return
        if changed != own:
            names = [process.name for process in new if ROLES.spec(process.id.role).makes_rows]
            self.environments.update(dict.fromkeys(names, changed.env))
        self._events.append(ev.Enlarged(action.client, tuple(new)))

    def _learners(self, count: int) -> list[PlannedProcess]:
        """Add learners with the segments that each has of its own; where there is no room nothing is left of them."""
        new = self.membership.add_learners(count)
        try:
            self.workspace.create_learners(sorted({process.id.learner for process in new}))
        except BaseException:
            for process in new:
                self.membership.remove(process)
            raise
        return new

    def _say_beforehand(self) -> None:
        before = self.resumption
        if before.resumed:
            taken = " and ".join(before.checkpoints)
            anew = before.begins_anew
            how = f"where simulators begin new games: {anew}" if anew else "as if it had not been interrupted"
            self._note(ev.Note("resumed", cause=f"at {before.env_steps:,} steps, from {taken}, {how}"))
        for choice in self.plan.choices:
            self._note(ev.Note("chosen", cause=str(choice), fields=asdict(choice)))
        for how, names in (("attached", self.attached_before), ("detached", before.left_out.values())):
            if names:
                cause = f"{how} earlier and not part of it: {', '.join(names)}; attach as many again if wanted"
                self._note(ev.Note("resumed", cause=cause))
        told = (crowded(self.plan.topology, self.plan.cores.usable), self.plan.description.unseen, disorder())
        for warning in (*told, *before.damaged):
            if warning:
                self._note(ev.Note("warned", cause=warning))

    def _note(self, note: ev.Note) -> None:
        self.deaths += note.kind == "died"
        if note.kind == "evaluated":
            self.evaluation = evaluations.metrics(note.fields)
        self.journal.event(note)
        if note.kind not in QUIET or not note.process:
            self._tell(lambda console: console.event(note))

    def _row(self, action: ev.Row) -> None:
        if not action.learner:
            self.measured |= action.values
            return
        merged = self.rows.add(action.name, action.values, self.now_s)
        if merged is None:
            return
        rows = [process.index for process in self.membership.listed]
        energy = self.energy.row(merged.get("frames"))
        self.last_row = {**merged, **energy, **self.row_shares.together(rows), **self.evaluation, **self.measured}
        self.journal.row(self.last_row)
        self._tell(lambda console: console.row(self.last_row))

    def _tell(self, say: Callable[[ev.Console], None]) -> None:
        """Show something; a console that fails (a closed terminal, a full disk, a fault) is never spoken to again."""
        if self.console is None:
            return
        try:
            say(self.console)
        except Exception as error:
            self.console = None
            self._note(ev.Note("warned", cause=f"nothing is shown any more: {error}; the run goes on"))

    def _show(self) -> None:
        busy = self.shown_shares.busy()
        listed = self.supervisor.processes()
        shown = [{**p, "busy": busy[self.membership.named(p["name"]).index]} for p in listed]
        self._tell(lambda console: console.processes(shown))

    def _end(self, done: ev.Done) -> None:
        self.done = done


def _supervisor(briefing: Briefing, membership: Membership, expected_shape: Mapping[str, str]) -> Supervisor:
    t = briefing.topology
    return Supervisor(
        membership.listed,
        expected_shape,
        briefing.addresses.run_id,
        drain_s=t.supervision.drain_s,
        budget=t.supervision,
        mode=mode(t),
        resume=briefing.resumption.resumed,
    )
