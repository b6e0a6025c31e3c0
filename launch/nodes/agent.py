"""The agent of a node: joins the head of a run, carries out its actions, and reports events of its machine.

It sends five heartbeats within a lease (``nodes.lease_s``), also between two actions of the head, because on a busy
machine each start of a process may take seconds. The lease counts from the time at which the newest answered heartbeat
was sent, by this machine's clock, which also advances while the machine sleeps. An agent that was suspended or is cut
off therefore finds its lease over before the head treats the node as lost. It then ends its processes, and joins again
when the head can be reached. If the agent is killed, its processes end at once; if it is suspended, they end with the
lease (``launch/spawning/guardian.py``).
"""

from __future__ import annotations

import secrets
import select
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from actorlearn import __version__
from actorlearn.memory.account import LearnerSteps
from actorlearn.memory.shared import SHM_ROOT, free_bytes
from actorlearn.wire.channel import ChannelError, Dealer
from actorlearn.wire.messages import MessageError
from launch.errors import RunError
from launch.machine.cores import boot_id, cores_word, usable_cores
from launch.machine.gpus import visible_gpus
from launch.machine.signals import Signals
from launch.nodes import messages
from launch.nodes.copies import CopyError
from launch.nodes.messages import (
    PROTOCOL_VERSION,
    End,
    Fenced,
    Join,
    JoinRefused,
    NodeEnded,
    NodeHeartbeat,
    NodeHeartbeatAck,
    NodeLeaving,
    NodeLeft,
    NodeWarning,
    Prepare,
    Welcome,
)
from launch.nodes.outbox import Outbox
from launch.nodes.stream import Numbered, Stream, StreamError
from launch.nodes.workspace import NodeWorkspace
from launch.plan.nodes import NodeResources
from launch.plan.plan import Start
from launch.supervision import events as ev
from launch.topology.load import TopologyError

TURN_S = 0.1
"""Longest time, in seconds, that a turn of the agent waits for messages and events."""
JOIN_S = 1.0
"""Seconds between two requests to join."""
TROUBLE_S = 5.0
"""Seconds without contact to the head after which the user is told the reason."""
BEATS = 5
"""Number of heartbeats within a lease."""
LAST_S = 10.0
"""Longest time to send the remaining messages at the end of a run, in seconds."""
MOST_MESSAGES = 1000
"""Most messages of the head that are read in one turn."""


def clock_s() -> float:
    """Return seconds of CLOCK_BOOTTIME, which cannot be set and also advances while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine() -> NodeResources:
    """Return the resources of this machine."""
    boot = boot_id()
    return NodeResources(
        cores=usable_cores(),
        shm_bytes=free_bytes(),
        gpus=len(visible_gpus()),
        cores_id=f"{boot} {cores_word()}",
        shm_id=f"{boot} {SHM_ROOT.stat().st_dev}",
    )


class Epoch:
    """The state of an agent from its admission to the run until its node leaves or is lost (``messages.py``)."""

    def __init__(self, welcome: Welcome, sent_s: float) -> None:
        self.number, self.run_id, self.lease_s = welcome.epoch, welcome.run_id, welcome.lease_s
        self.stream = Stream(welcome.epoch)
        self.outbox = Outbox(self.stream)
        self.frames: deque[Numbered] = deque()
        """Frames of the head that were received, and whose actions are not carried out yet."""
        self.alive_s, self.beat_s = sent_s, 0.0
        """Times at which the newest answered heartbeat, and the newest heartbeat, were sent; seconds of ``clock_s``."""
        self.ready_s = sent_s
        """Time at which Prepare was carried out, which may take long: it imports the plug-ins of the topology."""
        self.workspace: NodeWorkspace | None = None
        self.trouble = "the head has not prepared this node"
        """Reason why ``workspace`` is None."""
        self.ending_s: float | None = None
        """Time at which the head ended the run; None before."""
        self.leaves_s: float | None = None
        """Latest time at which this node leaves; None until its agent is told to stop."""

    @property
    def at_work(self) -> NodeWorkspace | None:
        """The workspace while the node may have processes: from Prepare until the head ends the run; else None."""
        return self.workspace if self.ending_s is None else None

    @property
    def over(self) -> bool:
        """Whether the lease has run out; False after the head has ended the run, because no processes are left.

        The lease lasts at least ``lease_s`` from the end of Prepare, which may itself take longer than a lease.
        """
        return self.ending_s is None and clock_s() - max(self.alive_s, self.ready_s) >= self.lease_s

    @property
    def may_act(self) -> bool:
        """Whether actions of the head are carried out: during the first half of the lease, and at the end of the run.

        After the lease, the head may have declared this node lost. Shortly before the lease ends, the guardian might
        end a process while it is being started.
        """
        return self.ending_s is not None or clock_s() - self.alive_s < self.lease_s / 2

    @property
    def beat_due(self) -> bool:
        """Whether it is time for the next heartbeat."""
        return clock_s() - self.beat_s >= self.lease_s / BEATS

    @property
    def left(self) -> bool:
        """Whether a stopped node can leave: its trainers' checkpoints are at the head, or the time limit is over."""
        saved = self.workspace is None or not self.workspace.trainers
        return self.leaves_s is not None and ((saved and self.outbox.empty) or clock_s() >= self.leaves_s)

    def answered(self, sent_s: float) -> None:
        """Renew the lease after an answered heartbeat; ``sent_s``: when the heartbeat was sent, by ``clock_s``."""
        self.alive_s = max(self.alive_s, sent_s)
        if self.at_work is not None:
            self.at_work.lease(self.alive_s + self.lease_s)

    def close(self) -> None:
        """End the processes of the epoch."""
        if self.workspace is not None:
            self.workspace.close()


class Agent:
    """Carries out the head's actions on one node; it ends with the run, or after ``patience_s`` without a head."""

    def __init__(self, line: Dealer, head: str, folder: Path, patience_s: float, show: Callable[[str], None]) -> None:
        """Prepare the agent; `run` joins.

        ``line``: socket that is connected to the host ``head``. ``folder``: for the node's files. ``patience_s``:
        seconds without a head after which the agent gives up. ``show``: prints a message for the user.
        """
        self._line, self._head, self._folder, self._patience_s, self._show = line, head, folder, patience_s, show
        self._agent_id = secrets.token_hex(8)
        self._session, self._joined_s, self._since_s = secrets.token_hex(8), -JOIN_S, clock_s()
        """Id of this attempt to join; time at which Join was last sent; time since which there is no epoch."""
        self._reason, self._stopping = "", False
        """Newest reason why this node has not joined; whether the agent was told to stop."""
        self._troubles: set[str] = set()
        """Reasons why the head could not be reached; each is shown once."""
        self._troubled_s: float | None = None
        """Time since which the head cannot be reached; None if it can, or if that is not known yet."""
        self.epoch: Epoch | None = None
        """The current epoch; None while this agent is no node of a run."""
        self.exit_status: int | None = None
        """Exit status; None while the agent continues."""
        self._turn_s = time.monotonic()

    def run(self, signals: Signals) -> int:
        """Join the run, and carry out the head's actions until the run is over; return the exit status."""
        try:
            while self.exit_status is None:
                self._wait(signals.fd)
                if signals.read():
                    self.asked_to_stop()
                else:
                    self.turn()
            return self.exit_status
        finally:
            self.leave()

    def _wait(self, signals_fd: int) -> None:
        """Wait at most TURN_S for signals, messages and events; if actions of the head are pending, do not wait."""
        workspace, ready = self.epoch and self.epoch.at_work, select.poll()
        for fd in (signals_fd, int(self._line.socket.fd), *(workspace.node.fds if workspace else ())):
            ready.register(fd, select.POLLIN)
        ready.poll(0 if self.epoch and self.epoch.frames and self.epoch.may_act else TURN_S * 1000)

    def asked_to_stop(self) -> None:
        """Let the learners of this node save, then leave. Without learners, or at the second call, leave at once."""
        epoch = self.epoch
        if self._stopping or epoch is None or epoch.at_work is None:
            self._stop_now()
            return
        limit_s = epoch.at_work.drain_s
        self._show(f"stopping: the learners of this node have {limit_s:g} s to save; interrupt again to end them")
        self._stopping, epoch.leaves_s = True, clock_s() + limit_s
        epoch.outbox.put("", NodeLeaving())
        epoch.at_work.drain()

    def _stop_now(self) -> None:
        self._show("stopping: this node ends its processes")
        self.stop()
        self.exit_status = 130

    def stop(self) -> None:
        """End all processes, and send NodeLeft, so that the head need not wait for the lease."""
        if (epoch := self.epoch) is not None:
            accounts = self._end_processes(epoch)
            self.leave()
            self._line.send(messages.encode(NodeLeft(epoch=epoch.number, accounts=accounts)))

    def turn(self) -> None:
        """Receive messages of the head, carry out its actions, collect events of the processes, and send messages."""
        for _ in range(MOST_MESSAGES):
            if (body := self._line.recv()) is None:
                break
            self._receive(body)
        if self.epoch is not None and self.epoch.over:
            self._end_epoch(f"the head has not answered for {self.epoch.lease_s:g} s")
        while self.epoch is not None and self.epoch.frames and self.epoch.may_act:
            self._carry_out(self.epoch, self.epoch.frames.popleft())
            if self.epoch.beat_due:  # the other actions follow in the next turns
                break
        if self._stopping and (self.epoch is None or self.epoch.left):
            self._stop_now()
        elif self.epoch is None:
            self._join()
        else:
            self._serve(self.epoch)

    # Joining ----------------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        now_s = clock_s()
        if now_s - self._since_s >= self._patience_s:
            reason = self._reason or "nothing answers at its address; check the address, and whether the run is alive"
            self._show(f"no contact with the head for {self._patience_s:g} s, so this node gives up: {reason}")
            self.exit_status = 1
        elif now_s - self._joined_s >= JOIN_S:
            self._joined_s = now_s
            join = Join(
                protocol=PROTOCOL_VERSION,
                version=__version__,
                agent=self._agent_id,
                session=self._session,
                machine=machine(),
            )
            self._line.send(messages.encode(join))
            self._note_trouble(self._line.trouble, now_s)

    def _note_trouble(self, trouble: str | None, now_s: float) -> None:
        """Tell the user why the head does not answer: a refusal at once, other reasons after TROUBLE_S."""
        if trouble is None:
            self._troubled_s = None
            return
        self._troubled_s = now_s if self._troubled_s is None else self._troubled_s
        self._reason = trouble
        is_sure = self._line.answered or now_s - self._troubled_s >= TROUBLE_S
        if is_sure and trouble not in self._troubles:
            self._troubles.add(trouble)
            self._show(trouble)

    def leave(self) -> None:
        """End the epoch and its processes, and prepare to join again."""
        if self.epoch is not None:
            self.epoch.close()
        self.epoch = None
        self._session, self._since_s = secrets.token_hex(8), clock_s()

    def _end_epoch(self, why: str) -> None:
        self._show(f"{why}: this node ends its processes and joins again")
        self.leave()

    # Receiving ------------------------------------------------------------------------------------------------------

    def _receive(self, body: bytes) -> None:
        try:
            message = messages.decode(body, "agent")
        except MessageError as error:
            self._show(f"a message from the head cannot be read: {error}")
            return
        epoch = self.epoch
        if isinstance(message, Welcome) and epoch is None and message.session == self._session:
            self.epoch = Epoch(message, self._joined_s)
            self._show(f"joined run {message.run_id}")
        elif isinstance(message, JoinRefused) and epoch is None and message.session == self._session:
            if message.reason != self._reason:
                self._reason = message.reason
                self._show(f"the head refused this node: {message.reason}")
            self.exit_status = 1 if message.final else self.exit_status
        elif (
            epoch is not None
            and isinstance(message, NodeHeartbeatAck | Fenced | Numbered)
            and message.epoch == epoch.number
        ):
            if isinstance(message, NodeHeartbeatAck):
                epoch.answered(message.sent_s)
            elif isinstance(message, Fenced):
                self._end_epoch("the head has declared this node lost, or was restarted")
            else:
                epoch.frames.append(message)

    def _carry_out(self, epoch: Epoch, frame: Numbered) -> None:
        try:
            action = epoch.stream.take(frame, time.monotonic())
        except StreamError as error:
            self._show(f"a message from the head is refused: {error}")
            return
        if action is None:
            return
        try:
            self._do(epoch, messages.decode(action, "node"))
        except (OSError, MessageError, CopyError, ChannelError, TopologyError, RunError) as error:
            text = f"{type(error).__name__}: {error}"
            self._show(text)
            epoch.outbox.put("", NodeWarning(text[:8000]))

    def _do(self, epoch: Epoch, action: messages.ToNode) -> None:
        if isinstance(action, Prepare):
            try:
                epoch.workspace = NodeWorkspace(action, epoch.run_id, self._folder, epoch.outbox, self._head)
            except (OSError, ChannelError, TopologyError, RunError) as error:
                epoch.trouble = str(error)
                raise
            finally:
                epoch.ready_s = clock_s()
            epoch.answered(epoch.alive_s)
        elif isinstance(action, NodeWarning):
            raise MessageError(action.text)
        elif isinstance(action, End) and epoch.workspace is None:
            epoch.outbox.put("logs", NodeEnded())
            epoch.ending_s = clock_s()
        elif isinstance(action, Start) and (epoch.leaves_s is not None or epoch.ending_s is not None):
            pass  # when this node has left, the head reports the process as lost; after `End` it expects no answer
        elif isinstance(action, Start) and epoch.workspace is None:
            own = action.process
            epoch.outbox.put(own.name, ev.NotSpawned(own.name, own.incarnation, f"cannot be started: {epoch.trouble}"))
        elif isinstance(action, ev.DropMembers) and epoch.workspace is None:
            pass  # there are no segments on this node
        elif epoch.workspace is None:
            raise MessageError(f"{type(action).__name__}: {epoch.trouble}")
        elif isinstance(action, End):
            accounts = self._end_processes(epoch)
            epoch.workspace.send_logs(last=True)
            epoch.outbox.put("logs", NodeEnded(accounts))
        else:
            epoch.workspace.do(action)

    def _end_processes(self, epoch: Epoch) -> dict[int, LearnerSteps]:
        """End all processes, and return the step counts of the node's learners; {} if an earlier call returned them."""
        if (workspace := epoch.at_work) is None:
            return {}
        epoch.ending_s = clock_s()
        return workspace.end()

    # Sending --------------------------------------------------------------------------------------------------------

    def _serve(self, epoch: Epoch) -> None:
        now_s, last_s = time.monotonic(), self._turn_s
        self._turn_s = now_s
        workspace = epoch.at_work
        if workspace is not None:
            workspace.listen(now_s, gap_s=now_s - last_s if now_s - last_s > 1.0 else 0.0)
        if epoch.beat_due:
            beat_s = clock_s()
            sections = workspace.sections() if workspace else []
            if self._line.send(messages.encode(NodeHeartbeat(epoch=epoch.number, sent_s=beat_s, sections=sections))):
                epoch.beat_s = beat_s  # without a connection the next turn tries again
            if workspace is not None:
                workspace.send_logs()
        epoch.outbox.send(now_s, self._line.send)
        if epoch.ending_s is not None and (epoch.outbox.empty or clock_s() - epoch.ending_s >= LAST_S):
            self._show("the run is over")
            self.exit_status = 0
