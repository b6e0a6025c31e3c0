"""The main loop of ``actorlearn run``: gives events to the supervisor, and carries out its actions.

Events come from processes, signals and the clock. Actions start and end processes, send messages, make and remove
shared memory, and write to the run folder. All decisions are made by the supervisor
(``launch/supervision/supervisor.py``).
"""

from __future__ import annotations

import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from actorlearn.address import AddressError, Tcp
from actorlearn.metrics.registry import LEARNERS
from actorlearn.parameters.checkpoint_folders import CheckpointError, directories
from actorlearn.parameters.chosen_checkpoints import (
    NEWEST,
    choose_of_all,
    newer_set_aside,
    read_best,
    set_best_aside,
    write_best,
)
from actorlearn.parameters.modes import ModeSpec
from actorlearn.wire.channel import Router
from actorlearn.wire.keys import LIST_FOLDER, KeysError, make_keys, read_list, server_keys
from actorlearn.wire.messages import Reply, brief
from launch.engines.specs import Engine, EngineSpec
from launch.errors import RunError
from launch.nodes.accounts import saved_steps
from launch.nodes.head import Head
from launch.nodes.local import LocalNode
from launch.nodes.node import Node, ProtocolWarning
from launch.nodes.started import EngineHead, commands_of, open_engine
from launch.plan.memory_order import refuse_disorder
from launch.plan.plan import Plan, Resumption, Start
from launch.plan.planning import plan
from launch.plan.probe import Description, describe
from launch.plan.resumption import find_resumption, refuse_fewer_steps
from launch.reports.accounting import Accounting, account, unknown
from launch.runs.find import RunFolder
from launch.runs.lives import find_attached, find_detached
from launch.runtime.clock import AwakeClock
from launch.runtime.process_table import ProcessTable
from launch.runtime.reporter import Reporter, initial_notes
from launch.runtime.workspace import Workspace
from launch.spawning.spawner import Spawner
from launch.supervision import events as ev
from launch.supervision.supervisor import Ending, Supervisor
from launch.topology.load import Topology
from launch.topology.modes import mode
from launch.topology.schema import NodesSection

TURN_S = 0.1
"""Longest time, in seconds, that a turn of the loop waits for an event."""
SHOW_EVERY_S = 0.5
"""Seconds after which the console shows the processes again."""


def run(
    topology: Topology,
    run_dir: Path,
    *,
    resume_at: str | int | None = None,
    accepted: Callable[[float], ev.Console | None] = lambda _: None,
    engine: EngineSpec | None = None,
    keys: Path | None = None,
) -> int:
    """Run a topology to its end; returns the exit status. Call it from the main thread.

    At the end, processes, shared memory and sockets are removed.

    ``resume_at``: steps of the checkpoint from which the run in the folder is continued, or "newest" or "best"; None: a
    new run. ``engine`` starts the nodes of a run on several machines; None: users start them. ``keys``: folder with the
    keys of head and nodes; None: the run makes its own. ``accepted`` is called once the topology is accepted, before
    the first process is started, with the seconds that the run has taken so far, in all its lives; it returns the
    console that shows the run, or None.

    Raises TopologyError, RunError, SharedMemoryFull or ChannelError before the first process is started; ValueError for
    an engine that cannot be imported.
    """
    with Workspace(run_dir) as workspace:
        chosen = _resumed_from(workspace.run_dir, resume_at, mode(topology))
        if resume_at is not None and not _only_scores(RunFolder(workspace.run_dir, {}), topology):
            refuse_fewer_steps(workspace.run_dir, topology, chosen)
        listen = choose_listen_address(topology.nodes, keys is not None or engine is not None)
        opened = open_engine(engine, workspace.run_dir, topology.nodes, keys)
        refuse_disorder(topology)
        described = describe(topology)
        with newer_set_aside(chosen, _no_longer(workspace.run_dir, topology) if resume_at is not None else ()):
            made = plan_run(topology, described, workspace, resume_at is not None)
            workspace.open(made)  # before this, Ctrl-C ends this process at once
            if topology.nodes.several:
                if opened is not None:
                    workspace.stack.enter_context(closing(opened))
                node: Node = workspace.stack.enter_context(closing(open_head(made, listen, keys, opened)))
            else:
                spawner = Spawner(workspace.run_dir / "logs", workspace.addresses.run_id)
                node = open_local(made, workspace, spawner)
            workspace.write_down(made)
        return Runner(made, workspace, node, accepted(time.monotonic() - made.resumption.began_s)).run()


def _resumed_from(run_dir: Path, at: str | int | None, how: ModeSpec) -> dict[int, Path]:
    """Return learner -> checkpoint that the user has chosen; empty if each has to continue from its newest one.

    Raises RunError if there is no such checkpoint.
    """
    try:
        if at is None or at == NEWEST:
            return {}
        return choose_of_all(run_dir / "checkpoints", at, how.in_step, how.central)
    except (ValueError, CheckpointError) as error:
        raise RunError(f"{run_dir.name}: {error}") from None


def _no_longer(run_dir: Path, topology: Topology) -> list[Path]:
    """Return the checkpoint folders of learners that the topology no longer has.

    Returns none if the run has several learners in another mode than sync.
    """
    if not (mode(topology).in_step or mode(topology).alone):
        return []
    own = directories(run_dir / "checkpoints")
    return [directory for learner, directory in own.items() if learner >= topology.learners.count]


def plan_run(topology: Topology, description: Description, workspace: Workspace, resume: bool) -> Plan:
    """Return the plan of a run; with ``resume``, also the checkpoints from which it continues.

    Raises TopologyError or RunError.
    """
    made, began = plan(topology, description, workspace.addresses), Resumption(time.monotonic())
    if resume:
        run = RunFolder(workspace.run_dir, {})
        detached = find_detached(workspace.run_dir / "events.jsonl")
        began = find_resumption(made, detached, run.topology(), _only_scores(run, topology))
    return replace(made, resumption=began)


def _only_scores(run: RunFolder, topology: Topology) -> bool:
    """Whether a run that has learned from total_steps steps may be resumed, only to evaluate its final weights.

    It may if total_steps is as before, and the run did not finish, or a user stopped this evaluation.
    """
    summary = run.summary()
    as_before = run.topology().get("total_steps") == topology.total_steps
    return as_before and (summary.get("status") != "finished" or summary.get("unscored") is True)


def open_local(plan: Plan, workspace: Workspace, spawner: Spawner) -> LocalNode:
    """Make the shared memory and sockets of a run on this machine only; the workspace removes them at the end.

    Raises SharedMemoryFull or ChannelError.
    """
    workspace.stack.callback(spawner.close)
    node = workspace.stack.enter_context(closing(LocalNode(plan, spawner)))
    learners = range(plan.topology.learners.count)
    node.add_learners([learner for learner in learners if learner not in plan.resumption.left_out])
    return node


def choose_listen_address(nodes: NodesSection, keyed: bool) -> Tcp:
    """Return the address at which nodes on other machines connect to the run; ``keyed``: whether it has keys.

    Raises RunError if the address is invalid, or if other machines can reach it and there are no keys.
    """
    try:
        address = Tcp.read(nodes.listen) if nodes.listen else Tcp("127.0.0.1", 0)
    except AddressError as error:
        raise RunError(f"nodes.listen: {error}") from None
    if not keyed and (address.ip is None or not address.ip.is_loopback):
        raise RunError(
            f"nodes.listen: {nodes.listen}: other machines can connect to this address, so the head needs keys; "
            "create them with `actorlearn keys new --node NAME DIR`, and add --keys DIR; with --engine NAME, no keys "
            "are needed"
        )
    return address


def open_head(plan: Plan, listen: Tcp, keys: Path | None, engine: Engine | None) -> Head:
    """Return the part of a run on several machines that talks to its nodes; raises RunError or ChannelError.

    ``keys``: folder with the keys that encrypt the messages; None: keys are made for this run. ``engine`` starts the
    nodes; None: users start them.
    """
    try:
        if keys is None:
            lasting = engine is not None and plan.topology.nodes.listen is not None
            place = plan.addresses.run_dir if lasting else plan.addresses.sockets
            keys = own_keys(place / "keys", plan.topology.nodes.count)
        names = sorted(read_list(keys / LIST_FOLDER).values())
        router = Router(listen, server_keys(keys))
        if engine is None:
            return Head(plan, router, keys, names)
        commands = commands_of(router.address, keys, plan.topology.nodes)
        return EngineHead(plan, router, keys, names, engine, commands)
    except KeysError as error:
        raise RunError(f"--keys {error}") from None


def own_keys(folder: Path, count: int) -> Path:
    """Make keys for ``count`` nodes in a folder, unless they exist; returns the folder."""
    folder.mkdir(mode=0o700, exist_ok=True)
    names = (f"node-{number}" for number in range(count))
    if missing := [name for name in names if not (folder / f"{name}.key").exists()]:
        make_keys(folder, missing)
    return folder


class Runner:
    """Runs one planned run to its end, in the loop that the module's docstring describes."""

    def __init__(self, plan: Plan, workspace: Workspace, node: Node, console: ev.Console | None) -> None:
        """``node`` starts the processes, here or on other machines; ``console``: shows the run, None: nothing does."""
        self.plan, self.workspace, self.node = plan, workspace, node
        topology, resumed = plan.topology, plan.resumption.resumed
        reporter = Reporter(topology, plan.resumption, workspace.run_dir, node.section_ns, console)
        self.reporter = workspace.stack.enter_context(closing(reporter))
        self.selector = workspace.stack.enter_context(closing(selectors.DefaultSelector()))
        self.table = ProcessTable(plan, node)
        self._checkpoints = workspace.run_dir / "checkpoints"
        self.supervisor = Supervisor(
            self.table.listed,
            plan.expected_shape,
            workspace.addresses.run_id,
            ending=Ending(
                topology.supervision.drain_s,
                topology.evaluator.stop_at_score,
                topology.stop_at_training_score,
                topology.learners.quorum,
            ),
            budget=topology.supervision,
            mode=mode(topology),
            resume=resumed,
        )
        self.supervisor.left_before = plan.resumption.left
        self.supervisor.newest_rows |= plan.resumption.rows
        best = read_best(self._checkpoints) if resumed else None
        lost = best is not None and best.env_steps > plan.resumption.env_steps  # newer than the checkpoint
        if plan.resumption.other_task or lost:
            set_best_aside(self._checkpoints)
        else:
            self.supervisor.best = best
        self.clock = AwakeClock()
        self.attached_before = find_attached(workspace.run_dir / "events.jsonl") if resumed else []
        self._now_s, self._shown_s = 0.0, -SHOW_EVERY_S
        self._begun = False
        self._lost = ""
        """Why the removed folder cannot be made again; empty if it can."""
        self._done: ev.Done | None = None
        self._events: deque[ev.Event] = deque()
        self._actions: deque[ev.Action] = deque()
        self._handlers: dict[type, Callable[[Any], ev.Event | None]] = {
            **dict.fromkeys((Start, ev.Kill, ev.Move, ev.ShowStack, ev.DropMembers, ev.Send), node.do),
            ev.Answer: lambda answer: node.do(self.reporter.complete(answer)),
            ev.Enlarge: self.table.enlarge,
            ev.Note: self.reporter.note,
            ev.MetricsRow: self._report,
            ev.NewBest: self._record_best,
            ev.Done: self._end,
        }
        """Type of action -> function that carries it out and returns the resulting event, if any."""

    def run(self) -> int:
        """Run to the end and return the exit status; also after an error, the summary is written."""
        for fd in (*self.node.fds, self.workspace.signals.fd):
            self.selector.register(fd, selectors.EVENT_READ)
        error = "the supervisor failed"
        try:
            self.reporter.begin(initial_notes(self.plan, self.attached_before))
            self._handle_node_events(0.0)
            while self._done is None:
                self._turn()
            return self._done.exit_code
        except BaseException as fault:
            error = f"supervisor: {type(fault).__name__}: {fault}"
            raise
        finally:
            self.node.end()
            done = self._done or ev.Done("failed", 1, error)
            self.reporter.end(done, self._accounting(done), self._now_s)

    def _accounting(self, done: ev.Done) -> Accounting:
        """Return how many steps of the run were learned from, dropped, or left when it ended."""
        finished = len(done.summary.get(LEARNERS) or (() if not done.summary else (done.summary,)))
        found = self.node.learner_steps()
        if isinstance(found, str):
            return unknown(found)
        saved = {learner: saved_steps(self._checkpoints, learner) for learner in found}
        return account(found, saved, mode(self.plan.topology).outlived, finished, self.plan.resumption.left)

    def _turn(self) -> None:
        """Wait for an event, for at most TURN_S; then give the supervisor all events."""
        self.selector.select(TURN_S)
        self._now_s, gap_s = self.clock.advance()
        for number in self.workspace.signals.read():
            self._handle(ev.Interrupted(hangup=number == signal.SIGHUP))
        self._handle_node_events(gap_s)
        if self._begun:
            self._handle(ev.Tick())
        for name in self.table.keep_only({process["name"] for process in self.supervisor.processes()}):
            self.reporter.forget_learner(name)
        if self._now_s - self._shown_s >= SHOW_EVERY_S:
            self._shown_s = self._now_s
            self.reporter.processes(self.supervisor.processes(), self.table.rows)

    def _handle_node_events(self, gap_s: float) -> None:
        """Give the supervisor the events of processes; a message that it cannot handle is reported and ignored.

        ``gap_s``: seconds in which this process could not run, from `AwakeClock.advance`.
        """
        for event in self.node.events(self._now_s, gap_s):
            if isinstance(event, ProtocolWarning):
                self.reporter.complaint(event.text)
            elif isinstance(event, ev.Note):
                self.reporter.note(event)
            elif isinstance(event, ev.Received | ev.ClientRequest):
                self._receive(event)
            else:
                self._begun |= isinstance(event, ev.Begin)
                self._handle(event)

    def _receive(self, event: ev.Received | ev.ClientRequest) -> None:
        try:
            self._handle(event)
        except Exception as error:
            peer = event.client if isinstance(event, ev.ClientRequest) else f"{event.name}.{event.incarnation}"
            said = brief(f"a message from {peer!a} was not understood: {type(error).__name__}: {error}")
            self.reporter.complaint(said)
            if isinstance(event, ev.ClientRequest):  # a command line waits for a reply
                self.node.do(ev.Answer(event.client, Reply(ok=False, text=said)))

    def _handle(self, event: ev.Event) -> None:
        """Give an event to the supervisor, carry out its actions, and do the same with the events that result."""
        self._events.append(event)
        while self._actions or self._events:
            if self._actions:  # first carry out all actions of earlier events, also those that remain after an error
                action = self._actions.popleft()
                if result := self._handlers[type(action)](action):
                    self._events.append(result)
            else:
                following = self._events.popleft()
                self._actions.extend(self.supervisor.handle(following, self._now_s))

    def _report(self, action: ev.MetricsRow) -> ev.Reported | None:
        self._restore_folder()
        row = self.reporter.row(action, self._now_s, [*self.table.rows.values()], self.table.simulator_rows)
        return ev.Reported(row) if row is not None else None

    def _record_best(self, action: ev.NewBest) -> None:
        try:
            write_best(self._checkpoints, action.best)
        except OSError as error:
            cause = f"the best score cannot be recorded, so an earlier checkpoint remains the best one: {error}"
            self.reporter.note(ev.Note("warned", cause=cause))

    def _restore_folder(self) -> None:
        """Restore what was removed from the run folder, and report it; a failure to restore is reported once."""
        try:
            said, self._lost = self.workspace.restore(), ""
        except (OSError, RunError) as error:
            lost = f"the removed folder of the run cannot be made again: {error}"
            said, self._lost = lost if lost != self._lost else "", lost
        if said:
            self.reporter.note(ev.Note("warned", cause=said))

    def _end(self, done: ev.Done) -> None:
        self._restore_folder()
        self._done = done
