"""The head of a run on several machines: it admits nodes, places learners on them, and presents them as one `Node`.

A node has a name, given by its key, and an epoch, which ends when the node is lost. A node is lost when the head has
received nothing from it for 1.5 times its lease (``nodes.lease_s``). By then its processes have ended: the agent ends
them after one lease, and the guardian does so if the agent is suspended or dead. The head reports these processes as
lost and refuses messages of the epoch. The agent may join again, in a new epoch. A node that has just joined, and has
no processes yet, may be silent for longer, because it imports the plug-ins of the topology.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn import __version__
from actorlearn.files import DISK_ERRORS
from actorlearn.memory.account import LearnerSteps
from actorlearn.memory.progress import ROWS, progress_fields
from actorlearn.metrics.timings import SECTIONS
from actorlearn.parameters.checkpoint_folders import begins_from_first, directory_of, folders, steps_of
from actorlearn.parameters.chosen_checkpoints import best_of_each
from actorlearn.wire.channel import Router
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import MessageError, Saved
from actorlearn.worker.roles import ROLES
from launch.nodes import messages
from launch.nodes.accounts import NodeAccounts
from launch.nodes.control import ControlSocket
from launch.nodes.copies import Arriving, CopyError, Outgoing, name_set, remove_unfinished
from launch.nodes.messages import (
    PROTOCOL_VERSION,
    CopyDone,
    DropLearner,
    End,
    Fenced,
    FileChunk,
    Join,
    JoinOfAnyVersion,
    JoinRefused,
    LearnerReleased,
    LogChunk,
    NodeEnded,
    NodeHeartbeat,
    NodeHeartbeatAck,
    NodeLeaving,
    NodeLeft,
    NodeWarning,
    Prepare,
    ReleaseLearner,
    Welcome,
)
from launch.nodes.node import NodeAction, ProtocolWarning
from launch.nodes.remote import RemoteNode
from launch.nodes.stream import Numbered, StreamError
from launch.plan.nodes import NodeResources, find_uneven, fits, need_of, place_learners, share_out, unlike_here
from launch.plan.plan import Plan, Start
from launch.plan.roles import FILMS
from launch.spawning.spawner import Key
from launch.supervision import events as ev
from launch.topology.load import TopologyError, dump
from launch.topology.modes import mode

MARGIN = 1.5
"""Number of leases after which a node is lost; its agent ends the processes after one."""
PREPARE_S = 120.0
"""Least seconds of silence after which a node is lost that has joined and has not carried out Prepare yet."""
MOST_MESSAGES = 1000
"""Most messages of nodes that are read in one turn of the loop."""
END_S = 15.0
"""Longest wait at the end of a run for the nodes to send their remaining messages, in seconds."""
_EPOCHS = 1 << 52
"""Upper limit of the numbers of epochs, which are drawn at random."""
NodeEvent = ev.Event | ev.Note | ProtocolWarning


@dataclass
class Moving:
    """The move of a learner: its trainer saves and ends, its other processes are killed, and its memory is removed."""

    learner: int
    node: str
    """The node that the learner leaves."""
    to: str
    """The node to which the learner moves."""
    ended: set[Key] = field(default_factory=set)
    """Processes of the learner that have ended, or could not be started."""


class Head:
    """The `Node` of a run on several machines: it forwards actions to the agents of nodes, and their events back."""

    def __init__(
        self,
        plan: Plan,
        router: Router,
        keys: Path,
        names: Sequence[str],
    ) -> None:
        """Nodes join through ``router``; ``names``: nodes with a key in the folder ``keys``. Raises ChannelError."""
        self._plan, self._addresses = plan, plan.addresses
        self._wanted, self._router, self._keys, self._names = plan.topology.nodes, router, keys, names
        remove_unfinished(plan.addresses.run_dir)
        self._control = ControlSocket(plan.addresses.control)
        (sections,) = (each for each in progress_fields(len(SECTIONS)) if each.name == "section_ns")
        self._section_ns = np.zeros(sections.shape, np.int64)
        self._need = need_of(plan.topology, plan.description)
        self.nodes: dict[str, RemoteNode] = {}
        """Nodes that have joined and are not lost, by name."""
        self.placed: dict[int, str] = {}
        """Node of each learner that was not lost for good."""
        self._left_out: set[int] = set()
        """Learners that were lost for good with their node; they take no room on a node that returns."""
        self._spread: dict[str, str] = {}
        """Node of each process whose role is spread over the nodes, by the process's name."""
        self._accounts = NodeAccounts(plan.addresses.run_dir / "checkpoints", mode(plan.topology).outlived)
        self._unplaced: list[Start] = []
        """Starts that wait for a node with room for them."""
        self._waiting: dict[int, str] = {}
        """Learner for which no node has room -> reason why it is placed again; empty if it was never placed."""
        self._waiting_events: list[ev.Note | ev.NotSpawned] = []
        """Notes, and starts that failed here, which are yielded with the next events."""
        self._moving: Moving | None = None
        """The learner that is moving to another node."""
        self._looked_s = 0.0
        """Time at which the head last looked for an uneven placement."""
        self._idle: set[str] = set()
        """Nodes about which a warning was given, because they have fewer learners than others."""
        self._refused: dict[str, str] = {}
        """Why each node was refused last, by name."""
        self._waited_s: float | None = None
        """Time at which the wait for nodes began; None before."""
        self._begun = self._over = False
        """Whether the wait for nodes has ended; whether the run is over."""
        self._handlers: dict[type, Callable[[RemoteNode, Any], Iterator[NodeEvent] | None]] = {
            **dict.fromkeys((ev.Spawned, ev.NotSpawned, ev.Exited, ev.Received, ev.Silent, ev.Stalled), self._forward),
            NodeWarning: self._warned,
            LogChunk: self._append_log,
            FileChunk: lambda node, part: node.arriving.take(part),
            CopyDone: self._finish_copy,
            NodeLeaving: self._leaving,
            LearnerReleased: self._released,
            NodeEnded: self._ended,
        }

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when a node or a command line has sent a message."""
        return self._control.fd, self._router.fd

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """Nanoseconds [rows, sections] that processes of all nodes have spent, from the newest heartbeats."""
        return self._section_ns

    # Actions --------------------------------------------------------------------------------------------------------

    def do(self, action: NodeAction) -> ev.Event | None:
        """Send an action to the node that it concerns, and return None; the resulting event comes later.

        Only a Kill of a process that still waits for a node returns its event, Exited, at once.
        """
        if isinstance(action, ev.Move):
            self._move(action)
        elif isinstance(action, ev.Answer):
            self._control.send(action.client, action.reply)
        elif isinstance(action, Start):
            self._start(action)
        elif isinstance(action, ev.DropMembers):
            for each in self.nodes.values():  # a node ignores simulators that were not on it
                each.outbox.put("members", action)
        elif isinstance(action, DropLearner):
            self._left_out.discard(action.learner)
            if node := self.nodes.get(self.placed.pop(action.learner, "")):
                node.do(action, action.learner)
            self._start_unplaced()
        else:
            return self._to_process(action)
        return None

    def _to_process(self, action: ev.Kill | ev.ShowStack | ev.Send) -> ev.Event | None:
        key = action.name, action.incarnation
        if node := next((node for node in self.nodes.values() if key in node.living), None):
            node.do(action, node.living[key].process.learner)
        elif isinstance(action, ev.Kill):
            left = [start for start in self._unplaced if (start.process.name, start.process.incarnation) != key]
            if len(left) < len(self._unplaced):
                self._unplaced = left
                return ev.Exited(*key, -action.signal)
        return None

    def add_learners(self, learners: Collection[int], why: str = "") -> None:
        """Place learners on nodes that are not leaving; raises TopologyError if no node has room.

        ``why``: the reason why they are placed again; empty if they were never placed.
        """
        machines = {name: machine for name, machine in self._machines().items() if not self.nodes[name].leaving}
        found = place_learners(learners, machines, self._need, self.placed)
        self.placed |= found
        self._left_out -= found.keys()
        for learner, name in found.items():
            self._note_placed(learner, name, why)

    def _note_placed(self, learner: int, name: str, why: str) -> None:
        """Report that a learner is placed on a node, and that it does not wait for one any more."""
        self._waiting.pop(learner, None)
        said = f"learner {learner} on {name}{why}"
        self._waiting_events.append(ev.Note("placed", cause=said, fields={"learner": learner, "node": name}))

    def _machines(self) -> dict[str, NodeResources]:
        return share_out({name: node.machine for name, node in self.nodes.items()})

    def _start(self, start: Start) -> None:
        node = None if self._moves(start) else self._node_for(start)
        if node is None:
            self._unplaced.append(start)
            return
        own = start.process
        if _of_learner(start):
            try:
                self._bring(start, node)
            except OSError as error:
                reason, passing = f"cannot be started: {error}", error.errno in DISK_ERRORS
                self._waiting_events.append(ev.NotSpawned(own.name, own.incarnation, reason, passing))
                return
        if ROLES.spec(own.role).scores and mode(self._plan.topology).own_weights:
            self._waiting_events += self._warn_of_weights(own, node)
        node.do(start, own.learner)

    def _bring(self, start: Start, node: RemoteNode) -> None:
        """Record that a node has a learner; copy its checkpoints there if the process needs them; raises OSError."""
        learner = start.process.learner
        new, learns = learner not in node.has, ROLES.spec(start.process.role).learns
        continues = new and learner in self._plan.resumption.goes_on_from
        if learner not in node.brought and (start.resume or continues):
            self._bring_checkpoints(node, learner)
        if new:
            node.has.add(learner)
            self._accounts.move(learner)
        if learns or continues:
            node.brought.add(learner)

    def _start_unplaced(self) -> None:
        waiting, self._unplaced = self._unplaced, []
        for start in waiting:
            self._start(start)

    def _warn_of_weights(self, evaluator: ProcessId, node: RemoteNode) -> list[ev.Note]:
        """Return a warning if learners are on other nodes: an evaluator can only read the weights on its own node."""
        there = ", ".join(str(learner) for learner, name in sorted(self.placed.items()) if name == node.name)
        if set(self.placed.values()) == {node.name}:
            return []
        said = f"it evaluates only the learners on its own node {node.name}: {there}"
        return [ev.Note("warned", evaluator.name, evaluator.incarnation, said)]

    def _node_for(self, start: Start) -> RemoteNode | None:
        """Return the node for a process: its learner's node, or a new one if that node is lost or leaving.

        If no node has room, return None. Also return None while the learner has processes on a leaving node, because
        that node sends the learner's step counts only after these processes have ended. A process that belongs to no
        learner goes to the node of the first learner that has one.
        """
        learner, role = start.process.learner, ROLES.spec(start.process.role)
        if role.spread:
            return self._node_in_turn(start)
        if role.scope == "run":
            learner = min((known for known, name in self.placed.items() if name in self.nodes), default=learner)
        found = self.nodes.get(self.placed.get(learner, ""))
        if found and found.leaving and any(each.process.learner == learner for each in found.living.values()):
            return None
        if found is None or found.leaving:
            why = self._waiting.get(learner, "")
            if before := self.placed.pop(learner, ""):
                why = f", because node {before} {'is leaving' if found else 'was lost'}"
            try:
                self.add_learners([learner], why)
            except TopologyError as error:
                if learner not in self._waiting:
                    self._waiting[learner] = why
                    reason = str(error) if self.nodes else "no node is left; start one with `actorlearn node`"
                    self._waiting_events.append(
                        ev.Note("waiting", cause=f"learner {learner} waits for a node{why}: {reason}")
                    )
                return None
        return self.nodes[self.placed[learner]]

    def _node_in_turn(self, start: Start) -> RemoteNode | None:
        """Return the node of a process whose role is spread over the nodes: its earlier node, or one by its number.

        If all nodes are lost or leaving, return None.
        """
        names, own = sorted(name for name, node in self.nodes.items() if not node.leaving), start.process
        if names and self._spread.get(own.name) not in names:
            self._spread[own.name] = names[own.number % len(names)]
        return self.nodes.get(self._spread.get(own.name, ""))

    def _bring_checkpoints(self, node: RemoteNode, learner: int) -> None:
        """Send a learner's checkpoints to a node, before any other message about this learner.

        If the learner begins from the checkpoints of learner 0, send only these, unless the node has them already.
        """
        run_dir = self._addresses.run_dir
        root = run_dir / "checkpoints"
        is_following = begins_from_first(root, learner, mode(self._plan.topology))
        if not is_following:
            chosen = folders(directory_of(root, learner))
        else:
            chosen = [] if 0 in node.brought or node.following else folders(root)
        copies = [Outgoing(run_dir, folder) for folder in sorted(chosen, key=steps_of)]  # if one fails, none is sent
        if is_following:
            node.following.add(learner)
        for copy in copies:
            node.put(copy.messages(), learner)

    # Events ---------------------------------------------------------------------------------------------------------

    def events(self, now_s: float, gap_s: float) -> Iterator[NodeEvent]:
        """Yield the events of nodes and command lines, and Begin, Lost or CannotRun; then send the waiting messages."""
        yield from self._control.read()
        if self._waited_s is None:
            yield self._note_waiting()
        for _ in range(MOST_MESSAGES):
            received = self._router.recv()
            if received is None:
                break
            yield from self._receive(*received)
        for refusal in self._router.refusals():
            yield ev.Note("refused", cause=refusal)
        yield from self._take_waiting_events()
        for node in list(self.nodes.values()):
            node.heard_s += gap_s
            if time.monotonic() - node.heard_s >= (limit_s := self._longest_silence_s(node)):
                yield from self._lose(node, f"it has sent nothing for {limit_s:g} s")
        if not self._begun:
            yield from self._begin_if_joined()
        elif time.monotonic() - self._looked_s >= self._wanted.lease_s:
            self._looked_s = time.monotonic()
            yield from self._look_for_uneven()
        self._send()

    def _longest_silence_s(self, node: RemoteNode) -> float:
        """Return the seconds without a message after which a node is lost."""
        leased_s = MARGIN * self._wanted.lease_s
        return leased_s if node.prepared else max(leased_s, PREPARE_S)

    def _take_waiting_events(self) -> Iterator[NodeEvent]:
        waiting, self._waiting_events = self._waiting_events, []
        yield from waiting

    def _send(self) -> None:
        for name, node in self.nodes.items():
            node.outbox.send(time.monotonic(), partial(self._router.send, name))

    def _note_waiting(self) -> ev.Note:
        """Start the wait for nodes, and return a note with the address at which they can join."""
        self._waited_s = time.monotonic()
        reached = {"address": str(self._router.address), "keys": str(self._keys)}
        nodes = f"{self._wanted.count} node{'s' if self._wanted.count > 1 else ''}"
        said = f"{nodes}; start each with: actorlearn node --join {reached['address']} --key FILE"
        return ev.Note("awaiting", cause=f"{said}, where FILE is a key in {self._keys}", fields=reached)

    def _begin_if_joined(self) -> Iterator[NodeEvent]:
        """Yield Begin when all nodes have joined and the learners are placed.

        Yield CannotRun if the learners cannot be placed, or if nodes are missing after ``nodes.wait_s``.
        """
        waited_s = time.monotonic() - (self._waited_s or 0.0)
        if len(self.nodes) >= self._wanted.count:
            self._begun = True
            learners = sorted(trainer.learner for trainer in self._plan.trainers)
            try:
                self.add_learners([learner for learner in learners if learner not in self._plan.resumption.left_out])
            except TopologyError as error:
                yield ev.CannotRun(str(error))
                return
            yield from self._take_waiting_events()
            if differs := unlike_here(self._plan.topology, self._machines(), self._plan.cores.usable):
                yield ev.Note("warned", cause=differs)
            yield ev.Begin()
        elif waited_s >= self._wanted.wait_s:
            self._begun = True
            absent = [name for name in self._names if name not in self.nodes]
            refused = {name: f" (refused: {reason})" for name, reason in self._refused.items()}
            missing = ", ".join(f"{name}{refused.get(name, '')}" for name in absent) or "no keys are registered"
            yield ev.CannotRun(
                f"nodes.count: {len(self.nodes)} of {self._wanted.count} nodes have joined within nodes.wait_s = "
                f"{self._wanted.wait_s:g} s; missing: {missing}; start `actorlearn node --join "
                f"{self._router.address}` on the missing machines, or set a smaller nodes.count"
            )

    def _receive(self, peer: str, body: bytes) -> Iterator[NodeEvent]:
        name = peer.partition("/")[0]
        try:
            message = messages.decode(body, "head")
        except MessageError as error:
            join = messages.decode_any_version(body)
            if join is not None and (reason := _mismatch(join)):
                yield from self._refuse(name, join, reason)
            else:
                yield ProtocolWarning(f"a message from node {name} cannot be read: {error}")
            return
        node = self.nodes.get(name)
        if isinstance(message, Join):
            yield from self._join(name, node, message)
        elif node is None or message.epoch != node.epoch:
            self._router.send(peer, messages.encode(Fenced(epoch=message.epoch)))
        elif isinstance(message, NodeHeartbeat):
            node.heard_s = time.monotonic()
            self._router.send(peer, messages.encode(NodeHeartbeatAck(epoch=node.epoch, sent_s=message.sent_s)))
            self._store_sections(message)
        elif isinstance(message, NodeLeft):
            self._take_accounts(node, message)
            yield from self._lose(node, "its agent was stopped")
        else:
            node.heard_s = time.monotonic()
            yield from self._receive_numbered(node, message)

    def _receive_numbered(self, node: RemoteNode, frame: Numbered) -> Iterator[NodeEvent]:
        try:
            body = node.stream.take(frame, time.monotonic())
            message = None if body is None else messages.decode(body, "reporter")
        except (StreamError, MessageError) as error:
            yield ProtocolWarning(f"a message from node {node.name} is refused: {error}")
            return
        if message is None:
            return
        if isinstance(message, ev.OfProcess):
            key = message.name, message.incarnation
            start = node.living.get(key)
            if start is None:
                own = f"{message.name}.{message.incarnation}"
                yield ProtocolWarning(f"node {node.name} reports an event of {own}, which does not run on it")
                return
            moves = self._moves(start)
            if isinstance(message, ev.Exited) and moves:
                self._note_end(node, key)
                return
            if isinstance(message, ev.Exited) and node.leaving:
                return  # the node is lost soon after, and its processes with it
            if isinstance(message, ev.Exited | ev.NotSpawned):
                del node.living[key]
            if isinstance(message, ev.NotSpawned) and moves:
                self._note_end(node, key)
        try:
            yield from self._handlers[type(message)](node, message) or ()
        except (OSError, CopyError, MessageError) as error:
            yield ProtocolWarning(f"node {node.name}: {error}")

    def _store_sections(self, beat: NodeHeartbeat) -> None:
        width = self._section_ns.shape[1]
        for row, spent in beat.sections:
            if row < ROWS and len(spent) == width and all(0 <= ns < 1 << 62 for ns in spent):
                self._section_ns[row] = spent

    # Joins and losses -----------------------------------------------------------------------------------------------

    def _join(self, name: str, node: RemoteNode | None, join: Join) -> Iterator[NodeEvent]:
        known = node is not None and node.join.session == join.session
        if reason := _mismatch(join) or ("the run is over" if self._over and not known else ""):
            yield from self._refuse(name, join, reason)
            if node is not None and node.join.agent == join.agent and not known:
                yield from self._lose(node, "its agent has ended all processes")
            return
        if node is not None and not known:
            if node.join.agent != join.agent:
                said = f"a node named {name} is already in this run; if it has died, this node joins when the head has "
                said += f"received nothing from it for {self._longest_silence_s(node):g} s, else start this node with "
                said += "another key"
                self._router.send(name, messages.encode(JoinRefused(session=join.session, reason=said, final=False)))
                return
            yield from self._lose(node, "its agent has ended all processes")
            node = None
        if node is None:
            epoch = secrets.randbelow(_EPOCHS)
            arriving = Arriving(self._addresses.run_dir, f"{name}-{epoch:x}")
            node = self.nodes[name] = RemoteNode(name, join, epoch, time.monotonic(), time.monotonic(), arriving)
            node.outbox.put("learner-0", self._prepare())
            node.outbox.pump()  # ahead of all other lanes
            cores, gpus = node.machine.cores, node.machine.gpus
            said = f"node {name} with {cores:g} cores" + (f" and {gpus} GPUs" if gpus else "")
            yield ev.Note("joined", cause=said, fields={"node": name, **msgspec.to_builtins(node.machine)})
        lease_s = self._wanted.lease_s
        welcome = Welcome(session=join.session, run_id=self._addresses.run_id, epoch=node.epoch, lease_s=lease_s)
        self._router.send(name, messages.encode(welcome))
        self._start_unplaced()

    def _refuse(self, name: str, join: Join | JoinOfAnyVersion, reason: str) -> Iterator[NodeEvent]:
        """Refuse an agent, which must not try again; yield a note unless the last refusal had the same reason."""
        self._router.send(name, messages.encode(JoinRefused(session=join.session, reason=reason, final=True)))
        if self._refused.get(name) != reason:
            self._refused[name] = reason
            yield ev.Note("refused", cause=f"node {name}: {reason}", fields={"node": name})

    def _prepare(self) -> Prepare:
        plan, resumption = self._plan, self._plan.resumption
        run_dir = self._addresses.run_dir
        return Prepare(
            dump(plan.topology),
            plan.description,
            plan.exact,
            time.monotonic() - resumption.began_s,
            resumption.resumed,
            resumption.env_steps,
            {learner: str(path.relative_to(run_dir)) for learner, path in resumption.goes_on_from.items()},
        )

    def _lose(self, node: RemoteNode, why: str) -> Iterator[NodeEvent]:
        self._forget(node, f"node {node.name} was lost")
        if self._moving is not None and self._moving.node == node.name:
            self._moving = None
        self._router.send(node.name, messages.encode(Fenced(epoch=node.epoch)))
        elsewhere = self._wanted.lost == "elsewhere"
        processes = (*node.living, *(() if elsewhere else self._drop_waiting(node)))
        if not elsewhere:
            own = {learner for learner, name in self.placed.items() if name == node.name}
            self.placed = {learner: name for learner, name in self.placed.items() if learner not in own}
            self._left_out |= own
        yield ev.Note("lost", cause=f"node {node.name}: {why}", fields={"node": node.name})
        yield ev.Lost(node.name, processes, elsewhere)
        self._start_unplaced()  # those of a learner that was moving from this node

    def _drop_waiting(self, node: RemoteNode) -> list[Key]:
        """Cancel the waiting starts of a lost node's learners; return the keys of these processes."""
        lost = {start.process.learner for start in node.living.values() if _of_learner(start)}
        waiting = [start for start in self._unplaced if _of_learner(start) and start.process.learner in lost]
        self._unplaced = [start for start in self._unplaced if start not in waiting]
        return [(start.process.name, start.process.incarnation) for start in waiting]

    def _take_accounts(self, node: RemoteNode, end: NodeLeft | NodeEnded) -> None:
        self._accounts.add(end.accounts)
        node.has -= end.accounts.keys()

    def _forget(self, node: RemoteNode, why: str) -> None:
        """Remove a node; if it has not sent the step counts of its learners, record that they are unknown, and why."""
        del self.nodes[node.name]
        node.arriving.close()
        if node.has:
            self._accounts.miss(why)

    # Moves ----------------------------------------------------------------------------------------------------------

    def _look_for_uneven(self) -> Iterator[NodeEvent]:
        """Yield Uneven if a learner should move to another node; nodes that have just joined do not count yet."""
        if self._moving is not None or self._unplaced:
            return
        settled_s = time.monotonic() - self._wanted.lease_s
        settled = [name for name, node in self.nodes.items() if not node.leaving and node.joined_s <= settled_s]
        machines = {name: machine for name, machine in self._machines().items() if name in settled}
        living = (start for node in self.nodes.values() for start in node.living.values())
        learning = {start.process.learner for start in living if ROLES.spec(start.process.role).learns}
        if found := find_uneven(self.placed, learning, machines, self._need):
            learner, to, why = found
            if self._wanted.rebalance:
                yield ev.Uneven(learner, to, why)
            elif to not in self._idle:
                self._idle.add(to)
                yield ev.Note("warned", cause=f"{why}; with nodes.rebalance: true learner {learner} would move there")

    def _move(self, action: ev.Move) -> None:
        node = self.nodes.get(self.placed.get(action.learner, ""))
        if self._moving is not None or node is None:
            return
        for (name, incarnation), start in node.living.items():
            if _is_trainer(start, action.learner):
                self._moving = Moving(action.learner, node.name, action.to)
                node.do(ev.Kill(name, incarnation, signal.SIGTERM), action.learner)

    def _moves(self, start: Start) -> bool:
        """Whether a process belongs to the learner that is moving."""
        own = start.process
        return self._moving is not None and own.learner == self._moving.learner and _of_learner(start)

    def _note_end(self, node: RemoteNode, key: Key) -> None:
        """Record that a process of the learner that moves has ended.

        When the trainer has ended, kill the learner's other processes. When all have ended, have the node release the
        learner.
        """
        moving = self._moving
        assert moving is not None
        moving.ended.add(key)
        moved = {key: start for key, start in node.living.items() if self._moves(start)}
        if any(_is_trainer(moved[key], moving.learner) for key in moving.ended if key in moved):
            left = moved.keys() - moving.ended
            for key in left:
                node.do(ev.Kill(*key, signal.SIGKILL), moving.learner)
            if not left:
                node.put(ReleaseLearner(moving.learner), moving.learner)

    def _released(self, node: RemoteNode, released: LearnerReleased) -> Iterator[NodeEvent]:
        """Complete a move: the learner's processes restart on the new node, or on the old one if that has no room."""
        moving = self._moving
        if moving is None or moving.node != node.name or moving.learner != released.learner:
            raise MessageError(
                f"node {node.name} says that it has ended learner {released.learner} for a move, but the head has "
                "not asked for this move"
            )
        self._accounts.add({released.learner: released.steps})
        node.has.discard(released.learner)
        node.brought.discard(released.learner)
        moved = tuple(key for key, start in node.living.items() if self._moves(start))
        for key in moved:
            del node.living[key]
        self._moving = None
        to, why = moving.to, f", moved from node {node.name}"
        if not self._has_room(to):
            to, why = node.name, f", because node {to} has no room for it any more"
        self.placed[moving.learner] = to
        self._note_placed(moving.learner, to, why)
        yield ev.Lost(node.name, moved, True, to)
        self._start_unplaced()

    def _has_room(self, name: str) -> bool:
        """Whether a node has joined, is not leaving, and has room for one more learner."""
        node, there = self.nodes.get(name), list(self.placed.values()).count(name)
        return node is not None and not node.leaving and fits(self._machines()[name], self._need, there)

    # Messages of nodes ----------------------------------------------------------------------------------------------

    def _forward(self, node: RemoteNode, event: ev.Event) -> Iterator[NodeEvent]:
        yield msgspec.structs.replace(event, node=node.name) if isinstance(event, ev.Spawned) else event

    def _warned(self, node: RemoteNode, warning: NodeWarning) -> Iterator[NodeEvent]:
        yield ProtocolWarning(f"node {node.name}: {warning.text}")
        if warning.folder is not None:
            node.arriving.drop(warning.folder)

    def _append_log(self, _node: RemoteNode, part: LogChunk) -> None:
        path = self._addresses.run_dir / "logs" / Path(part.file).name
        with path.open("ab") as file:
            file.write(part.data)

    def _finish_copy(self, node: RemoteNode, done: CopyDone) -> Iterator[NodeEvent]:
        """Move received films or a checkpoint into the run's folder; then report that the checkpoint was saved."""
        if done.folder.startswith(f"{FILMS}/"):
            node.arriving.finish(done)
            return
        saved = done.held_back
        start = node.living.get((saved.name, saved.incarnation)) if saved else None
        if saved is None or start is None or not isinstance(saved.message, Saved):
            raise CopyError(f"{done.folder} does not belong to a trainer of this node")
        own = directory_of(self._addresses.run_dir / "checkpoints", start.process.learner)
        if (self._addresses.run_dir / done.folder).parent != own:
            raise CopyError(f"{done.folder} is not a checkpoint of {saved.name}")
        path = node.arriving.finish(done)
        yield msgspec.structs.replace(saved, message=msgspec.structs.replace(saved.message, path=str(path)))
        how, checkpoints = mode(self._plan.topology), self._addresses.run_dir / "checkpoints"
        together = name_set(checkpoints, {*self.placed, *self._left_out}, how.in_step)
        node.arriving.remove_older(done, [*together, *best_of_each(checkpoints, how.in_step, how.central)])

    def _leaving(self, node: RemoteNode, _leaving: NodeLeaving) -> Iterator[NodeEvent]:
        node.leaving = True
        yield ev.Note("leaving", cause=f"node {node.name}: its learners save checkpoints", fields={"node": node.name})

    def _ended(self, node: RemoteNode, ended: NodeEnded) -> None:
        node.ended = True
        self._take_accounts(node, ended)

    # The end ----------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Tell all nodes to end, and wait for their remaining messages, for at most END_S."""
        if self._over:
            return
        self._over, self._unplaced = True, []
        for node in self.nodes.values():
            node.outbox.put("end", End())  # in no learner's lane, where it would wait for the copies of checkpoints
        deadline_s = time.monotonic() + END_S
        while any(not node.ended for node in self.nodes.values()) and time.monotonic() < deadline_s:
            self._send()
            received = self._router.recv(20)
            for _ in self._receive(*received) if received else ():
                pass
            for node in list(self.nodes.values()):
                if time.monotonic() - node.heard_s >= self._longest_silence_s(node):
                    self._forget(node, f"node {node.name} was lost at the end")
        for _ in range(3):  # send the acknowledgements for which agents wait
            self._send()
            self._router.recv(10)
        for node in list(self.nodes.values()):
            self._forget(node, f"node {node.name} did not send its step counts within {END_S:g} s")
        remove_unfinished(self._addresses.run_dir)

    def learner_steps(self) -> dict[int, LearnerSteps] | str:
        """Return the step counts of all learners, which their nodes have sent; if they are unknown, the reason."""
        return self._accounts.all()

    def close(self) -> None:
        """End all processes and close the sockets."""
        self.end()
        self._router.close()
        self._control.close()


def _of_learner(start: Start) -> bool:
    spec = ROLES.spec(start.process.role)
    return spec.scope == "learner" and not spec.spread


def _is_trainer(start: Start, learner: int) -> bool:
    return start.process.learner == learner and ROLES.spec(start.process.role).learns


def _mismatch(join: Join | JoinOfAnyVersion) -> str:
    """Return why an agent's version does not fit this run; empty if it does."""
    if join.protocol != PROTOCOL_VERSION or join.version != __version__:
        return (
            f"the node uses protocol {join.protocol} of version {join.version}, the head protocol {PROTOCOL_VERSION} "
            f"of version {__version__}; install the same version on all machines"
        )
    return ""
