"""Starts, admits, restarts, gives up and removes the processes of a run (*children*, ``child.py``).

Methods take events; ``now_s`` is the time of the event. The resulting actions are passed to ``do``. The supervisor sets
whether dead children are restarted (``restarting``) and whether exits are expected (``ending``).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from actorlearn import __version__
from actorlearn.wire.identity import ProcessId
from actorlearn.wire.messages import PROTOCOL_VERSION, Endpoint, Hello, Left, Listens, Member, Refused, Released
from launch.plan.plan import PlannedProcess
from launch.supervision import events as ev
from launch.supervision.child import Child, ChildState, Jitter, cause_of
from launch.topology.schema import Budget

REFUSED_LIMIT_S = 2.0
"""Seconds from the refusal of a process to SIGKILL."""
_LEFT_OUT = "and nodes.lost: leave out forbids a restart on another node"
WITH_TRAINER_LIMIT_S = 5.0
"""Seconds from SIGTERM to SIGKILL, for processes of a learner whose trainer was detached and has ended."""


class Children:
    """The processes of a run, by name. Messages to them list simulators and trainers in the order of ``named``."""

    def __init__(
        self,
        processes: Iterable[PlannedProcess],
        run_id: str,
        expected_shape: Mapping[str, str],
        resume: bool,
        jitter: Jitter,
        budget: Budget,
        do: Callable[[ev.Action], None],
    ) -> None:
        self.named = {process.name: Child(process, budget=budget) for process in processes}
        self.failures: dict[str, str] = {}
        """Name -> reason, for processes that have failed and are no longer listed."""
        self._ended: dict[str, Member] = {}
        """Ended simulators whose shared memory their trainers still read, by name.incarnation."""
        self.restarting = True
        self.ending = False
        self._scoring = False
        """Whether evaluators continue to score the final weights while the run is ending."""
        self.now_s = 0.0
        self._run_id = run_id
        self._expected_shape = dict(expected_shape)
        self._resume = resume
        self._jitter = jitter
        self._budget = budget
        self._do = do

    def trainers(self) -> list[Child]:
        """Return the trainers, in the order of ``named``."""
        return [child for child in self.named.values() if child.role.learns]

    def simulators(self) -> list[Child]:
        """Return the simulators, in the order of ``named``."""
        return [child for child in self.named.values() if child.role.makes_rows]

    def current(self, name: str, incarnation: int) -> Child | None:
        """Return the child of this name; None if it has ended, or was restarted since this ``incarnation``."""
        child = self.named.get(name)
        return child if child is not None and child.alive and child.incarnation == incarnation else None

    def members(self) -> list[Member]:
        """Return the admitted simulators, with the addresses of their shared memory."""
        return [child.member for child in self.simulators() if child.admitted and child.member is not None]

    def gone_members(self) -> list[Member]:
        """Return the ended simulators whose shared memory their trainers still read.

        If a trainer has ended for good, the shared memory of its simulators is removed instead.
        """
        over = (ChildState.FATAL, ChildState.EXITED)
        served = {trainer.learner for trainer in self.trainers() if trainer.state not in over}
        self._drop_members([socket_id for socket_id, own in self._ended.items() if own.id.learner not in served])
        return list(self._ended.values())

    def _drop_members(self, ids: Iterable[str]) -> None:
        """Remove the shared memory of ended simulators, but keep it while the run ends, to count its last steps."""
        for socket_id in ids:
            del self._ended[socket_id]
            if not self.ending:
                self._do(ev.DropMembers([socket_id]))

    def released(self, child: Child, released: Released) -> None:
        """Remove the shared memory of ended simulators that their trainer no longer reads."""
        if not child.role.learns:
            return
        own = [socket_id for socket_id, member in self._ended.items() if member.id.learner == child.learner]
        self._drop_members(socket_id for socket_id in own if socket_id in released.peers)

    def leaving(self) -> list[str]:
        """Return the names of the detached trainers and simulators that must finish their work and end."""
        drained = [child for child in self.named.values() if child.role.drains]
        return [child.name for child in drained if child.leaving and child.admitted]

    def learners(self) -> list[ProcessId]:
        """Return the admitted trainers that exchange weights or gradients; empty if the run can only have one."""
        trainers = [child for child in self.trainers() if not child.id.sole]
        return [child.id for child in trainers if child.admitted and not (child.leaving or child.left)]

    def endpoints(self) -> list[Endpoint]:
        """Return the network address and public key of each running process; empty on one machine."""
        return [endpoint for child in self.named.values() if (endpoint := child.endpoint)]

    def finished_trainers(self) -> list[ProcessId]:
        """Return the trainers that have finished and published final weights; their processes may have ended."""
        return [child.id for child in self.trainers() if child.finished and not child.id.sole]

    def evaluators(self) -> list[Child]:
        """Return the evaluators, in the order of ``named``."""
        return [child for child in self.named.values() if child.role.scores]

    def scoring_evaluators(self) -> list[str]:
        """Return the names of the evaluators that are alive and have not finished."""
        return [child.name for child in self.evaluators() if child.alive and not child.finished]

    def workers(self, learner: int) -> list[Child]:
        """Return the processes of a learner except its trainer: inference servers, simulators and plug-in roles."""
        own = [child for child in self.named.values() if child.role.scope == "learner" and not child.role.learns]
        return [child for child in own if child.learner == learner]

    def fatal_worker(self, learner: int) -> Child | None:
        """Return a process that was given up and without which a learner cannot continue; None if there is none.

        A learner needs each of its inference servers, but only one of its simulators.
        """
        workers = self.workers(learner)
        given_up = [worker for worker in workers if worker.state is ChildState.FATAL]
        missed = [worker for worker in given_up if worker.role.needed == "each"]
        for role in {worker.role.name: worker.role for worker in workers if worker.role.needed == "one"}.values():
            own = [worker for worker in workers if worker.role is role]
            missed += own if all(worker in given_up for worker in own) else []
        return next(iter(missed), None)

    def fatal_for_all(self) -> list[Child]:
        """Return the processes that all learners need, such as parameter servers, and that were given up."""
        return [child for child in self._needed_by_all() if child.state is ChildState.FATAL]

    def lacks_for_all(self) -> bool:
        """Whether a process that all learners need, such as a parameter server, is not alive."""
        return any(not child.alive for child in self._needed_by_all())

    def _needed_by_all(self) -> list[Child]:
        return [child for child in self.named.values() if child.role.scope == "run" and child.role.needed == "each"]

    def list_processes(self) -> list[dict[str, Any]]:
        """Return for each process, for users: name, role, learner, state, number of restarts, pid, node."""
        return [
            {
                "name": child.name,
                "role": child.id.role,
                "learner": child.learner,
                "state": str(child.state),
                "incarnation": child.incarnation,
                "pid": child.pid,
                **({"node": child.node} if child.node else {}),
            }
            for child in self.named.values()
        ]

    # Starts -----------------------------------------------------------------------------------------------------

    def attach(self, process: PlannedProcess, with_trainer: str = "") -> None:
        """Start a new process for an attach request; ``with_trainer``: name of the trainer that is attached with it."""
        child = Child(process, True, with_trainer, self._budget)
        self.named[process.name] = child
        self.spawn(child)

    def spawn(self, child: Child) -> None:
        """Start the process, for the first time or again."""
        child.begin(self.now_s)
        resume = child.role.learns and (child.ever_said_hello or (self._resume and not child.attaching))
        self._do(child.planned.start(child.incarnation, resume))

    def restart_one_trainer(self) -> bool:
        """Restart one dead trainer at once, unless one is starting; returns False if there is neither."""
        known = [trainer for trainer in self.trainers() if trainer.ever_said_hello]
        if any(trainer.state is ChildState.STARTING for trainer in known):
            return True
        waiting = next((trainer for trainer in known if trainer.state is ChildState.BACKOFF), None)
        if waiting is not None:
            self.spawn(waiting)
        return waiting is not None

    def start_waiting_evaluators(self) -> None:
        """Restart the dead evaluators at once, also if other processes are no longer restarted."""
        for child in self.evaluators():
            if child.state is ChildState.BACKOFF:
                self.spawn(child)

    def end_unstarted_trainers(self) -> None:
        """Cancel the start of trainers that still wait for a node; they have nothing to save."""
        for trainer in self.trainers():
            if trainer.state is ChildState.STARTING and trainer.pid is None:
                trainer.to(ChildState.DRAINING, self.now_s)
                self.kill(trainer, signal.SIGTERM)

    def end_running_trainers(self) -> None:
        """Let the trainers save and end now: they would wait for a process that is not restarted."""
        for trainer in self.trainers():
            if trainer.state is ChildState.RUNNING:
                trainer.to(ChildState.DRAINING, self.now_s)
                self.kill(trainer, signal.SIGTERM)

    def spawned(self, child: Child, event: ev.Spawned) -> None:
        """Record that a process has been started."""
        child.pid, child.member, child.postponed, child.node = event.pid, event.member, 0, event.node
        about: dict[str, Any] = {"role": child.id.role, "learner": child.learner, "pid": event.pid}
        self.note("spawned", child, **about, **({"node": event.node} if event.node else {}))
        if child.state is ChildState.DRAINING:
            self.kill(child, signal.SIGTERM)

    def not_spawned(self, child: Child, event: ev.NotSpawned) -> None:
        """Handle a failed start: retry it later if the cause may pass (a full disk), else handle it as a death.

        If an attach or detach command waits for the process, the start is not retried.
        """
        retried = event.passing and self.restarting and child.state is ChildState.STARTING
        if not retried or child.attaching or child.leaving:
            self.gone(child, event.reason)
            return
        if not child.postponed:
            self.note("warned", child, f"{event.reason}; the start is retried until it succeeds")
        child.postpone(self.now_s, self._jitter)

    def hello(self, child: Child, hello: Hello) -> None:
        """Accept a process, or refuse it if its first message, Hello, does not fit the run."""
        if child.state is not ChildState.STARTING:
            return
        reason = self._refusal(hello, child)
        if reason:
            child.refusal = reason
            child.to(ChildState.DRAINING, self.now_s)
            self._do(ev.Send(child.name, child.incarnation, Refused(reason=reason)))
            self.note("refused", child, reason)
            return
        kind = "restarted" if child.incarnation else "attached" if child.attaching else "ready"
        self.note(kind, child, f"with {child.with_trainer}" if child.attaching and child.with_trainer else "")
        child.admit(self.now_s)

    def _refusal(self, hello: Hello, child: Child) -> str:
        """Return an error about the first field that does not fit the run, with a remedy; "" if all fit."""
        for field, said, expected, way_out in self._compared(hello, child):
            if said != expected:
                return f"{child.name}: its {field} is {said}, but the run needs {expected}; {way_out}"
        return ""

    def _compared(self, hello: Hello, child: Child) -> Iterator[tuple[str, object, object, str]]:
        """Yield name, value and expected value of each field of a Hello, and a remedy for a difference."""
        way_out = "start all processes of a run from one installation of actorlearn"
        yield "protocol", hello.protocol, PROTOCOL_VERSION, way_out
        yield "version", hello.version, __version__, way_out
        yield (
            "run_id",
            hello.run_id,
            self._run_id,
            "the process belongs to another run; start it with this run's settings",
        )
        yield "name", hello.id.socket_id, child.id.socket_id, "start the process with its own settings file"
        if child.role.makes_rows:
            way_out = "attach the simulator without this change, or start another run with it"
            for field in [*self._expected_shape, *sorted(hello.shape.keys() - self._expected_shape.keys())]:
                yield (
                    field,
                    hello.shape.get(field, "missing"),
                    self._expected_shape.get(field, "no such field"),
                    way_out,
                )

    def listens(self, child: Child, listens: Listens) -> None:
        """Record the network address and public key of a process; the next `Order` sends them to the others."""
        child.listens = listens

    def left(self, child: Child, _left: Left) -> None:
        """Record that a trainer does not exchange any more, so that the other trainers do not wait for it."""
        child.left = True

    def tick(self) -> None:
        """Start the processes whose delay is over, and kill those that have not ended within their time limit."""
        for child in list(self.named.values()):
            waited_s = self.now_s - child.since_s
            if child.state is ChildState.BACKOFF and waited_s >= 0 and self.restarting:
                self.spawn(child)
            elif child.alive and child.refusal and waited_s >= REFUSED_LIMIT_S:
                self.kill_for(child, "refused")
            elif child.alive and child.leaving and child.with_trainer and waited_s >= WITH_TRAINER_LIMIT_S:
                self.kill_for(child, f"did not end in {WITH_TRAINER_LIMIT_S:g} s")

    # Ends -------------------------------------------------------------------------------------------------------

    def gone(self, child: Child, cause: str) -> None:
        """Handle the end of a process: restart it, give it up, or do nothing if it was expected to end."""
        child.cause = cause = child.killed_for or cause
        if child.member is not None:
            self._ended[child.member.id.socket_id] = child.member
            if not child.admitted:  # no trainer uses its segment
                self._drop_members([child.member.id.socket_id])
        by_term = cause_of(-signal.SIGTERM)
        told = child.state is ChildState.DRAINING and not (self.restarting or child.leaving or child.refusal)
        done = told and cause == ("exit 0" if child.finished else by_term)
        if done or (self.ending and not (self._scoring and child.role.scores)):
            child.cause = "" if done else cause  # an expected end is no death
            self.note("ended", child, "as told, by SIGTERM" if cause == by_term else cause)
            child.to(ChildState.EXITED, self.now_s)
        elif child.refusal:
            self._give_up(child, child.refusal)
        elif child.leaving:
            self._detached(child, cause)
        else:
            self.note("died", child, cause, **({"error": child.error} if child.error else {}))
            # At the end, an evaluator plays the final weights, but not if no node is left that could start it.
            if self.restarting or (child.role.scores and not self.ending and self._can_start(child)):
                self._restart(child)
            else:
                child.to(ChildState.EXITED, self.now_s)

    def lost(self, event: ev.Lost) -> None:
        """Handle the end of all processes of a lost node, or of a learner that moves: restart them or give them up."""
        why = f"node {event.node} was lost"
        found = (self.current(name, incarnation) for name, incarnation in event.processes)
        children = [child for child in found if child is not None]
        without = {child.learner for child in children if child.role.learns}  # their segments are lost too
        self._ended = {own: member for own, member in self._ended.items() if member.id.learner not in without}
        for child in children:
            child.member, child.went_with_node = None, True  # its segment is lost too
        for child in children:
            needed = child.role.scope == "run" and child.role.needed == "each"
            if event.moved_to:
                self._ended_to_move(child, event)
            elif event.elsewhere or needed or not self.restarting or child.leaving:
                self.gone(child, why)
            else:
                child.cause = why
                self.note("died", child, child.cause)
                self._give_up(child, f"{why}, {_LEFT_OUT}")
        if self.restarting and not event.elsewhere:
            for child in self._waiting_on(event.node):
                child.went_with_node = True
                self._give_up(child, f"{why}, {_LEFT_OUT}")

    def _can_start(self, child: Child) -> bool:
        """Return whether a node is left for a process that has ended: its own, or another one that has a trainer."""
        elsewhere = (trainer for trainer in self.trainers() if trainer.node != child.node)
        return not child.went_with_node or any(not trainer.went_with_node for trainer in elsewhere)

    def _waiting_on(self, node: str) -> list[Child]:
        """Return the processes of learners that died on ``node`` and wait for a restart."""
        waiting = [child for child in self.named.values() if child.state is ChildState.BACKOFF and not child.moved]
        return [child for child in waiting if child.node == node and child.role.scope == "learner"]

    def _ended_to_move(self, child: Child, event: ev.Lost) -> None:
        """Handle the end of a process whose learner moves to another node: restart it, unless it was to end anyway."""
        why = f"ended to move from node {event.node}"
        if self.restarting and not child.leaving:
            moved = event.moved_to != event.node
            self.note("ended", child, f"{'moved to' if moved else 'restarts on'} node {event.moved_to}")
            child.moved = True
            child.to(ChildState.BACKOFF, self.now_s)
        elif child.finished or (child.leaving and child.with_trainer):
            self.gone(child, "exit 0")
        elif child.leaving or child.role.learns:
            self.gone(child, why)
        else:
            self.note("ended", child, why)
            child.to(ChildState.EXITED, self.now_s)

    def _restart(self, child: Child) -> None:
        """Start a dead child again after its delay, or give it up."""
        delay_s = child.restart_delay_s(self.now_s, self._jitter)
        # A trainer that dies before it is ready would die again, unless its node was lost. An attach request must be
        # answered soon.
        unready = child.role.learns and not child.ever_said_hello and not child.went_with_node
        if child.attaching or unready:
            self._give_up(child, f"{child.name} died before it was ready: {child.error or _in_log(child)}")
        elif delay_s is None:
            often = f"died more often than supervision.restarts ({self._budget.restarts}) allows"
            if child.without_progress:
                most = self._budget.unsaved_restarts
                often = f"died more often than supervision.unsaved_restarts ({most}) allows without a newer checkpoint"
            self._give_up(child, f"{often}; {child.error or _in_log(child)}")
        else:
            child.to(ChildState.BACKOFF, self.now_s)
            child.since_s += delay_s

    def _give_up(self, child: Child, reason: str) -> None:
        """Do not start a process again; if it is being attached or detached, forget it."""
        child.to(ChildState.FATAL, self.now_s)
        child.error = child.error or child.refusal or _in_log(child)
        if not child.refusal:  # a refusal was noted before
            self.note("gave up", child, reason)
        if child.attaching or child.leaving:
            self._drop(child, reason)

    def _detached(self, child: Child, cause: str) -> None:
        """Record the end of a process that is being detached, and forget it."""
        drained = child.finished and cause == "exit 0"
        bad_end = child.admitted and not drained and not (child.with_trainer and cause == "exit 0")
        if bad_end:
            self.note("died", child, cause)
        child.to(ChildState.EXITED, self.now_s)
        ended = f"with {child.with_trainer}" if child.with_trainer and not bad_end else cause
        self.note("detached", child, "drained" if drained else ended)
        self._drop(child, f"{child.name} died before it was drained: {cause}" if bad_end else "")

    def _drop(self, child: Child, failure: str = "") -> None:
        """Forget a process; if it is a trainer, detach the other processes of its learner."""
        del self.named[child.name]
        if failure:
            self.failures[child.name] = failure
        if child.role.learns:
            for worker in self.workers(child.learner):
                self.detach(worker, child.name)

    def detach(self, child: Child, with_trainer: str = "") -> None:
        """Begin to remove a process from the run.

        A running process finishes its work first. One that has not sent Hello yet gets SIGTERM.

        ``with_trainer``: name of the process's trainer, if that has ended; the process then gets SIGTERM.
        """
        child.leaving, child.with_trainer = True, with_trainer
        if not child.alive:
            self.note("detached", child, f"with {with_trainer}" if with_trainer else str(child.state))
            self._drop(child)
            return
        by_signal = with_trainer or child.state is ChildState.STARTING
        if child.state is not ChildState.DRAINING:
            child.to(ChildState.DRAINING, self.now_s)
        if by_signal:
            child.since_s = self.now_s
            self.kill(child, signal.SIGTERM)

    def remove_learner(self, trainer: Child, lacking: Child) -> None:
        """Detach a learner that has lost the process ``lacking``; its trainer saves, and other learners continue."""
        self.note("gave up", trainer, f"the learner is removed, because {lacking.name} has failed")
        self.detach(trainer)

    def detach_now(self, child: Child, cause: str) -> None:
        """Remove a process from the run and kill it; it does not finish its work."""
        if not child.leaving:
            self.detach(child)
        if child.alive:
            self.kill_for(child, cause)

    def silent(self, child: Child, event: ev.Silent) -> None:
        """Report a process that shows no sign of life, and let it write its stack to its log."""
        if child.killed_for or child.refusal:
            return
        where = f"; its stack is in logs/{child.name}.log" if event.stack else ""
        said = f"no sign of life for {event.seconds:.0f} s: {event.why}"
        child.silence = said + where
        self.note("silent" if event.hangs else "slow", child, child.silence)
        if event.stack:
            self._do(ev.ShowStack(child.name, child.incarnation, said))

    def kill_for(self, child: Child, cause: str) -> None:
        """Kill a process and record the cause; further calls have no effect."""
        if not child.killed_for:
            child.killed_for = cause
            self.kill(child, signal.SIGKILL)

    def end(self, scoring: bool = False, kill_for: str = "") -> None:
        """Send SIGTERM to all processes that have not finished, or SIGKILL to all if ``kill_for`` gives a reason.

        ``scoring``: whether evaluators get no signal, and continue to score the final weights until the next call.
        """
        self.restarting, self.ending, self._scoring = False, True, scoring
        for child in self.named.values():
            if scoring and child.role.scores:
                continue
            if child.state is ChildState.BACKOFF:
                child.to(ChildState.EXITED, self.now_s)
            elif child.alive and (kill_for or not child.finished):
                if child.state is not ChildState.DRAINING:
                    child.to(ChildState.DRAINING, self.now_s)
                if kill_for:
                    self.kill_for(child, kill_for)
                else:
                    self.kill(child, signal.SIGTERM)

    def kill(self, child: Child, sent: int) -> None:
        """Send the signal with the number ``sent``."""
        self._do(ev.Kill(child.name, child.incarnation, sent))

    def note(self, kind: str, child: Child, cause: str = "", **fields: Any) -> None:
        """Write an event of a process to events.jsonl; ``fields``: its details."""
        self._do(ev.Note(kind, child.name, child.incarnation, cause, fields))


def _in_log(child: Child) -> str:
    """Return the cause of a death that the process could not explain, and where its last output is."""
    if child.went_with_node:
        return child.cause
    why = ", by SIGTERM or because its code called os._exit" if child.cause == "exit 0" else ""
    return f"{child.cause}{why}; its last output is in logs/{child.name}.log"
