"""Resources of a run on a node's machine, for one epoch (``messages.py``): a folder, shared memory and sockets.

Each epoch of a node has its own folders. It therefore never finds files of an earlier epoch, and one machine can have
several nodes. Shared memory and sockets are removed at the end of the epoch; the folder stays until the agent ends, or
for good if the user has named it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from actorlearn.memory.account import LearnerSteps
from actorlearn.memory.owned import OwnedDirectory, name_of
from actorlearn.memory.shared import SHM_ROOT, reserve
from actorlearn.parameters.checkpoint_folders import folders, steps_of
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import Evaluated, Left, Listens, Reply, Saved
from actorlearn.worker.roles import ROLES
from launch.machine.folders import new_run_id, runtime_root, sweep_all
from launch.machine.network import address_of, address_towards
from launch.nodes.copies import Arriving, Outgoing, remove_unfinished, steps_beside
from launch.nodes.local import LocalNode
from launch.nodes.messages import (
    CHUNK_BYTES,
    CopyDone,
    FileChunk,
    LearnerReleased,
    LogChunk,
    NodeWarning,
    Prepare,
    ReleaseLearner,
)
from launch.nodes.node import NodeAction, ProtocolWarning
from launch.nodes.outbox import Outbox
from launch.plan.addresses import FOLDERS, Addresses
from launch.plan.plan import Resumption, Start
from launch.plan.planning import plan_chosen
from launch.plan.roles import FILMS
from launch.spawning.spawner import Spawner
from launch.supervision import events as ev
from launch.topology.load import parse

MOST_LOG_CHUNKS = 4
"""Parts of one log that are sent together; if a log has more new bytes, only its end is sent."""
_OMITTED = b"\n[... %d bytes are omitted; the complete log is in the folder of the node]\n"


class NodeWorkspace:
    """The processes, shared memory and sockets of a node while it is in the run, which is one epoch of this node.

    It is made when the head sends Prepare, and closed when the epoch ends.
    """

    def __init__(self, prepare: Prepare, run_id: str, folder: Path, outbox: Outbox, head: str) -> None:
        """Make folder, shared memory, sockets and node; ``head``: the host that this machine connects to.

        Raises OSError, TopologyError, RunError or ChannelError; shared memory and sockets are then removed.
        """
        own = new_run_id()
        self._outbox = outbox
        self._run_dir = folder.absolute() / f"{run_id}-{own}"
        self._sent_bytes: dict[Path, int] = {}
        """Number of bytes of each log that have been sent."""
        self._copied: dict[str, Outgoing] = {}
        """Newest copy of a checkpoint to the head, by the trainer's name."""
        topology = parse(prepare.topology)
        interface = topology.nodes.interface
        host = address_towards(head) if interface is None else address_of(interface)
        addresses = self.addresses = Addresses(
            SHM_ROOT / name_of(own), runtime_root() / name_of(own), self._run_dir, host, run_id=run_id
        )
        goes_on_from = {learner: self._run_dir / path for learner, path in prepare.goes_on_from.items()}
        resumption = Resumption(
            began_s=time.monotonic() - prepare.elapsed_s,
            resumed=prepare.resumed,
            env_steps=prepare.env_steps,
            goes_on_from=goes_on_from,
        )
        plan = plan_chosen(topology, prepare.description, prepare.exact, addresses, resumption)
        with ExitStack() as stack:
            sweep_all()
            for name in FOLDERS:
                (self._run_dir / name).mkdir(parents=True)
            stack.callback(remove_unfinished, self._run_dir)
            stack.callback(reserve(own, 0, self._run_dir).close)
            stack.callback(OwnedDirectory.create(addresses.sockets).close)
            self._spawner = Spawner(self._run_dir / "logs", own)
            self.node = LocalNode(plan, self._spawner)
            stack.callback(self.node.close)
            self._stack = stack.pop_all()
        self.drain_s = topology.supervision.drain_s
        self._goes_on_from = goes_on_from
        self._arriving = Arriving(self._run_dir, "head")

    def do(self, action: NodeAction | ReleaseLearner | FileChunk | CopyDone) -> None:
        """Carry out an action of the head; the resulting event goes into the outbox."""
        if isinstance(action, ReleaseLearner):
            self._outbox.put("", LearnerReleased(action.learner, self.node.release(action.learner)))
        elif isinstance(action, FileChunk):
            self._arriving.take(action)
        elif isinstance(action, CopyDone):
            self._arriving.finish(action)
        else:
            result = self._start(action) if isinstance(action, Start) else self.node.do(action)
            if isinstance(result, ev.Spawned | ev.NotSpawned):
                self._outbox.put(result.name, result)

    def listen(self, now_s: float, gap_s: float) -> None:
        """Put new events of the node's processes into the outbox."""
        for event in self.node.events(now_s, gap_s):
            if isinstance(event, ev.ClientRequest):
                text = "this is a node of a run; send the request to its head, where `actorlearn run` was started"
                self.node.do(ev.Answer(event.client, Reply(ok=False, text=text)))
            elif isinstance(event, ProtocolWarning):
                self._outbox.put("", NodeWarning(event.text))
            elif isinstance(event, ev.Received) and isinstance(event.message, Saved):
                self._copy(event, event.message)
            elif isinstance(event, ev.OfProcess):
                self._outbox.put(_lane(event), event)
                if isinstance(event, ev.Received) and isinstance(event.message, Evaluated):
                    self._copy_films(event.name, event.message.env_steps)

    def lease(self, until_s: float) -> None:
        """Set the time of CLOCK_BOOTTIME at which the guardian ends all processes, even if the agent is suspended."""
        self._spawner.lease(until_s)

    def send_logs(self, last: bool = False) -> None:
        """Put new bytes of logs into the outbox, unless bytes of an earlier call wait there and ``last`` is False."""
        if self._outbox.waits("logs") and not last:
            return
        for path in sorted((self._run_dir / "logs").glob("*.log")):
            for data in self._new_bytes(path):
                self._outbox.put("logs", LogChunk(path.name, data))

    def sections(self) -> list[tuple[int, list[int]]]:
        """Return the index of each living process, and the nanoseconds that it has spent in each section."""
        rows = [start.index for start in self.node.living]
        return [(row, self.node.section_ns[row].tolist()) for row in rows]

    @property
    def trainers(self) -> list[ProcessId]:
        """Ids of living trainers."""
        return [start.process for start in self.node.living if ROLES.spec(start.process.role).learns]

    def drain(self) -> None:
        """Send SIGTERM to all trainers, which finish their update, save and end."""
        for trainer in self.trainers:
            self.node.do(ev.Kill(trainer.name, trainer.incarnation, signal.SIGTERM))

    def end(self) -> dict[int, LearnerSteps]:
        """End all processes, and return the steps of all learners; logs and checkpoints stay."""
        self.node.end()
        return self.node.learner_steps()

    def close(self) -> None:
        """End all processes and remove memory and sockets."""
        self._stack.close()

    def _start(self, start: Start) -> ev.Event | None:
        """Start a process; the first process of a learner also makes the learner's segments."""
        own = start.process
        try:
            if ROLES.spec(own.role).scope == "learner" and own.learner not in self.node.learners:
                if own.incarnation:  # the learner was on another node before, and has newer checkpoints
                    self._goes_on_from.pop(own.learner, None)
                self.node.add_learners([own.learner])
        except OSError as error:
            return ev.NotSpawned(own.name, own.incarnation, f"cannot be started: {error}")
        return self.node.do(start)

    def _copy(self, event: ev.Received, saved: Saved) -> None:
        """Copy a checkpoint to the head.

        The trainer's message Saved, and its later messages, are sent after the copy.
        """
        folder = Path(saved.path)
        try:
            copy = Outgoing(self._run_dir, folder, steps_beside(folder), event)
        except (OSError, ValueError) as error:
            self._outbox.put(event.name, NodeWarning(f"{saved.path} cannot be copied: {error}"))
        else:
            if earlier := self._copied.get(event.name):  # on a slow link copies would accumulate
                earlier.withdraw()
            self._copied[event.name] = copy
            self._outbox.put(event.name, copy.messages())

    def _copy_films(self, evaluator: str, env_steps: int) -> None:
        """Copy the films of an evaluation to the head, if there are any; later messages of the evaluator wait."""
        for folder in folders(self._run_dir / FILMS):
            if steps_of(folder) == env_steps:
                try:
                    self._outbox.put(evaluator, Outgoing(self._run_dir, folder).messages())
                except OSError as error:
                    self._outbox.put(evaluator, NodeWarning(f"{folder} cannot be copied: {error}"))

    def _new_bytes(self, path: Path) -> Iterator[bytes]:
        """Yield the new bytes of a log since the last call; if they are too many, a note and only the last of them."""
        sent = self._sent_bytes.get(path, 0)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size - sent > MOST_LOG_CHUNKS * CHUNK_BYTES:
                yield _OMITTED % (size - sent - CHUNK_BYTES)
                sent = size - CHUNK_BYTES
            file.seek(sent)
            while data := file.read(min(CHUNK_BYTES, size - sent)):
                sent += len(data)
                yield data
        self._sent_bytes[path] = sent


def _lane(event: ev.OfProcess) -> str:
    """Return the lane of the outbox for an event of a process.

    A copy of a checkpoint delays all messages behind it in its lane. In mode sync, other learners wait for a trainer's
    message that it takes part or has left, so such messages have a lane of their own.
    """
    message = event.message if isinstance(event, ev.Received) else None
    waited_for = isinstance(message, Left) or (isinstance(message, Listens) and message.generation > 0)
    return f"generation of {event.name}" if waited_for else event.name
