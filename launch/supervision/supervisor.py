"""The supervisor of a run: takes events with their times and returns actions (``launch/supervision/events.py``).

It has no other input or output: it uses no processes, sockets, files or clocks. Any history of a run can therefore be
replayed as a list of events. After every event it derives what the processes should do (``desired.py``).
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from actorlearn.metrics.episodes import RECENT_GAMES
from actorlearn.parameters.chosen_checkpoints import Best
from actorlearn.parameters.modes import SYNC, ModeSpec
from actorlearn.wire.messages import (
    Applied,
    Evaluated,
    Failed,
    Finished,
    Hello,
    Left,
    Listens,
    Order,
    Released,
    Report,
    Saved,
    Warned,
)
from launch.plan.plan import PlannedProcess
from launch.reports import evaluations
from launch.reports.checks import check_row
from launch.reports.format import unlearned
from launch.reports.merge import merge_rows
from launch.supervision import events as ev
from launch.supervision.child import Child, ChildState, Jitter, cause_of, spread
from launch.supervision.children import Children
from launch.supervision.desired import Orders
from launch.supervision.requests import OPEN, Requests
from launch.topology.schema import BUDGET, Budget

SCORE_LIMIT_S = 1800.0
"""Time limit of the final evaluation, in seconds. 30 games of 27,000 steps, the longest of Atari, take 10 minutes at
1,400 steps a second; the weights of several learners are played one after the other. Ctrl-C ends it earlier."""

TERMINATE_LIMIT_S = 5.0
"""Seconds from SIGTERM to SIGKILL at the end of a run."""


class Ending(NamedTuple):
    """Conditions that end a run, besides its number of steps."""

    drain_s: float
    """Longest time for trainers to finish their update and save, in seconds."""
    stop_at_score: float | None = None
    """Mean score of an evaluation at which the run ends; None: at no score."""
    stop_at_training_score: float | None = None
    """Mean score of the last RECENT_GAMES training games at which the run ends; None: at no score."""
    quorum: int = 0
    """Number of learners whose gradients parameter servers wait for (``learners.quorum``); 0 = they wait for none."""


class Supervisor:
    """Decides what happens in one run; ``handle`` takes the events in order of time."""

    def __init__(
        self,
        processes: Iterable[PlannedProcess],
        expected_shape: Mapping[str, str],
        run_id: str,
        *,
        ending: Ending,
        mode: ModeSpec = SYNC,
        resume: bool = False,
        budget: Budget = BUDGET,
        jitter: Jitter = spread,
    ) -> None:
        """``processes``: all processes of the plan, in the order of their start; ``mode``: how learners exchange.

        ``expected_shape``: name -> value that simulators must report of their observations and actions. ``resume``:
        whether trainers continue from checkpoints. ``budget``: limits on restarts. ``jitter``: varies their delays.
        """
        self._mode, self._children = mode, Children(processes, run_id, expected_shape, resume, jitter, budget, self._do)
        self._requests = Requests(
            self._children, mode, self._do, lambda now: self._stop(0, "requested by a command", now)
        )
        self._orders = Orders(self._children, self._do)
        self.phase = "starting"
        """starting (simulators connect), running, draining (trainers save), scoring (evaluators play), ending, over."""
        trainers = self._children.trainers()
        first = (*self._children.simulators(), *(trainers if trainers[1:] else ()))
        self._awaited = [child.name for child in first]
        """Names of the processes that must be admitted or given up before phase ``running``, without a sole trainer."""
        self._outcome = ev.Done("failed", 1)
        self._interrupts, self._skip_scoring, self._unscored = 0, False, False
        """Number of interrupts; whether the final evaluation is skipped; whether a user's stop is the reason."""
        self._killed = self._abandoned = False
        """Whether SIGKILL was sent to all processes; whether the run ends without waiting for their ends."""
        self.best: Best | None = None
        """Best score of the run. In a resumed run, the caller sets that of earlier lives before the first event."""
        self.left_before: Sequence[Mapping[str, Any]] = ()
        """Counters of learners that are not resumed. In a resumed run, the caller sets them before the first event."""
        self.newest_rows: dict[str, Mapping[str, Any]] = {}
        """Trainer -> its newest report, or its summary if it has finished. Totals include trainers that have left. In a
        resumed run, the caller sets the rows of their checkpoints before the first event."""
        self._training_score: float | None = None
        """Mean score of the last RECENT_GAMES training games in the newest report; None before that many."""
        self._ending, self._deadline_s, self._now_s = ending, inf, 0.0
        self._actions: list[ev.Action] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.Begin: self._begin,
            ev.CannotRun: self._cannot_run,
            ev.Lost: self._children.lost,
            ev.Uneven: self._uneven,
            ev.ClientRequest: lambda event: self._requests.asked(
                event.client, event.request, self.phase, self.order.version
            ),
            ev.Enlarged: lambda event: self._requests.enlarged(event.client, event.processes, self.phase),
            ev.NotEnlarged: lambda event: self._requests.answer(event.client, False, event.reason),
            ev.Tick: self._tick,
            ev.Interrupted: self._interrupted,
            ev.Reported: self._reported,
        }
        self._listeners: dict[type, Callable[[Child, Any], None]] = {
            ev.Spawned: self._children.spawned,
            ev.NotSpawned: self._children.not_spawned,
            ev.Exited: lambda child, exited: self._children.gone(child, cause_of(exited.returncode)),
            ev.Silent: self._children.silent,
            ev.Stalled: self._stalled,
            Hello: self._hello,
            Listens: self._children.listens,
            Left: self._children.left,
            Applied: self._orders.applied,
            Report: self._report,
            Evaluated: self._evaluated,
            Saved: self._saved,
            Released: self._children.released,
            Failed: self._failed,
            Finished: self._finished,
            Warned: lambda child, warned: self._children.note("warned", child, warned.text),
        }
        """Type of an event or a message of a living process -> function of the child and this event or message."""

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Action]:
        """Return the actions that follow from an event at the time ``now_s``; none after Done.

        Raises ValueError for a message with impossible values; the next call returns what was decided before the error.
        """
        self._now_s = self._children.now_s = now_s
        if self.phase != "over":
            if isinstance(event, ev.OfProcess):
                self._listen(event)
            else:
                self._handlers[type(event)](event)
            self._follow_up()
        actions, self._actions = self._actions, []
        return actions

    @property
    def order(self) -> Order:
        """The newest message that tells all processes the wanted state of the run."""
        return self._orders.newest

    def processes(self) -> list[dict[str, Any]]:
        """Return the state of each process, for users; see `Children.list_processes`."""
        return self._children.list_processes()

    def _do(self, action: ev.Action) -> None:
        self._actions.append(action)

    # Events -----------------------------------------------------------------------------------------------------

    def _begin(self, _event: ev.Begin) -> None:
        self._requests.begun = True
        for child in self._children.named.values():
            self._children.spawn(child)

    def _listen(self, event: ev.OfProcess) -> None:
        """Handle an event of a process; it has no effect if the process has ended or was restarted since."""
        child = self._children.current(event.name, event.incarnation)
        said = event.message if isinstance(event, ev.Received) else event
        if child is not None and (listener := self._listeners.get(type(said))):
            listener(child, said)
        elif isinstance(event, ev.Spawned):  # the child was given up in the meantime
            self._do(ev.Kill(event.name, event.incarnation, signal.SIGKILL))

    def _uneven(self, event: ev.Uneven) -> None:
        """Let a learner move to another node, if it is at work."""
        at_work = [trainer for trainer in self._children.trainers() if trainer.state is ChildState.RUNNING]
        mover = next((trainer for trainer in at_work if trainer.learner == event.learner and not trainer.leaving), None)
        if self.phase == "running" and mover is not None:
            self._children.note("moving", mover, f"to node {event.to}, because {event.why}", node=event.to)
            self._do(ev.Move(event.learner, event.to))

    def _stalled(self, child: Child, event: ev.Stalled) -> None:
        if child.admitted:
            child.failed(child.silence, self._now_s)
            self._children.kill_for(child, "hang")
        elif child.state is ChildState.STARTING:
            self._children.kill_for(
                child, f"the process did not report that it runs, and showed no sign of life for {event.seconds:.0f} s"
            )

    def _interrupted(self, event: ev.Interrupted) -> None:
        self._interrupts += not event.hangup
        self._stop(130, "the terminal was closed (SIGHUP)" if event.hangup else "interrupted", now=self._interrupts > 1)

    def _hello(self, child: Child, hello: Hello) -> None:
        self._children.hello(child, hello)
        if child.admitted:
            self._orders.send(child)

    def _report(self, child: Child, message: Report) -> None:
        row = check_row(message.row)
        if child.role.learns and not child.finished:
            self.newest_rows[child.name] = row
        self._do(ev.MetricsRow(child.name, row, child.role.learns, child.incarnation))

    def _evaluated(self, child: Child, message: Evaluated) -> None:
        found = evaluations.event_fields(message)
        self._children.note("evaluated", child, evaluations.event_cause(found), **found)
        self._scored(Best(found["env_steps"], found["mean"], "evaluation"))
        enough = self._ending.stop_at_score
        if enough is not None and found["mean"] >= enough and self.phase in OPEN:
            self._skip_scoring = True
            self._finish(f"the mean score {found['mean']:g} has reached evaluator.stop_at_score: {enough:g}")

    def _reported(self, event: ev.Reported) -> None:
        """End the run when training games reach ``stop_at_training_score``; the final weights are still evaluated."""
        score, games = event.row.get("episode_return_mean"), event.row.get("episodes_in_mean") or 0
        self._training_score = score if games >= RECENT_GAMES else None
        enough, score = self._ending.stop_at_training_score, self._training_score
        if enough is None or score is None or score < enough or self.phase not in OPEN:
            return
        steps = event.row.get("env_steps") or 0
        self._finish(
            f"the mean score {score:.2f} of the last {RECENT_GAMES} training games has reached "
            f"stop_at_training_score: {enough:g} at {steps:,} steps"
        )

    def _finish(self, cause: str) -> None:
        self._do(ev.Note("stopping", cause=cause))
        self._drain_or_end(ev.Done("finished", 0, cause=cause))

    def _saved(self, child: Child, saved: Saved) -> None:
        child.saved(saved.env_steps)
        self._children.note("saved", child, path=saved.path, env_steps=saved.env_steps)
        self._requests.saved(child.name, saved)
        evaluated = bool(self._children.evaluators())
        if child.learner == 0 and not evaluated and self._training_score is not None:
            self._scored(Best(saved.env_steps, self._training_score, "training"))

    def _scored(self, score: Best) -> None:
        """Record a score if it is the best so far; trainers are then told to keep the checkpoint."""
        if score.beats(self.best):
            self.best = score
            self._do(ev.NewBest(score))

    def _failed(self, child: Child, failed: Failed) -> None:
        last_line = (failed.error.strip().splitlines() or ["no error message"])[-1]
        child.failed(last_line, self._now_s)
        self._children.note("failed", child, last_line)

    def _finished(self, child: Child, finished: Finished) -> None:
        child.finished = True
        if child.state in (ChildState.STARTING, ChildState.RUNNING):
            child.to(ChildState.DRAINING, self._now_s)
        if not child.role.learns:
            return
        self.newest_rows.setdefault(child.name, {})
        if finished.reason == "total_steps" and self.phase in (*OPEN, "draining"):
            self._drain(ev.Done("finished", 0))
        self.newest_rows[child.name] = check_row(finished.summary)

    # The end of the run -----------------------------------------------------------------------------------------

    def _stop(self, exit_code: int, why: str, now: bool) -> str:
        """Tell the trainers to finish their update and save, or end everything ``now``; returns a reply in words."""
        if not self._skip_scoring and self.phase != "ending":
            self._skip_scoring = self._unscored = True
        if now:
            if self.phase not in ("scoring", "ending"):
                self._outcome = ev.Done("stopped", exit_code)
            self._children.end(kill_for="killed, because the run was told to end at once")
            self.phase, self._abandoned = "ending", True
            return "all processes of the run are being ended"
        if self.phase == "scoring":
            self._do(ev.Note("stopping", cause=why))
            return "the run has finished training, and ends without its last evaluation"
        if self.phase not in OPEN:
            return f"already stopping: the run is {self.phase}"
        self._do(ev.Note("stopping", cause=why))
        if self._drain_or_end(ev.Done("stopped", exit_code)):
            return "the trainers finish their updates and save, and then the run ends"
        return (
            "no trainer is running, so the run ends now; resume continues from the newest checkpoint, if there is one"
        )

    def _drain_or_end(self, outcome: ev.Done) -> bool:
        """Tell the trainers to finish and save, or end everything if none can save; returns whether one can.

        If all trainers are dead, but the weights are in a parameter store, a trainer is restarted to save them.
        """
        saving = self._is_saving() or (self._mode.central and self._children.restart_one_trainer())
        if saving:
            self._drain(outcome)
        else:
            self._end(outcome)
        return saving

    def _cannot_run(self, event: ev.CannotRun) -> None:
        """End a run that lacks nodes; a run that is already scoring or ending keeps its outcome."""
        if self.phase not in ("scoring", "ending"):
            self._outcome = ev.Done("failed", 1, event.reason, lacks_nodes=True)
        self._end(self._outcome)

    def _is_saving(self) -> bool:
        """Whether a trainer can save what the run has learned, or has saved it."""
        return any(trainer.state is ChildState.RUNNING or trainer.finished for trainer in self._children.trainers())

    def _drain(self, outcome: ev.Done) -> None:
        """Wait for the trainers to finish. Dead processes are not restarted, except evaluators afterwards."""
        self._outcome, self.phase = outcome, "draining"
        self._deadline_s = self._now_s + self._ending.drain_s
        self._children.restarting = False
        if self._is_saving():
            self._children.end_unstarted_trainers()

    def _conclude(self) -> None:
        """End the run when every trainer has finished or died; if training was completed, evaluators play first."""
        trainers = self._children.trainers()
        if self._mode.central and self._children.lacks_for_all():
            self._children.end_running_trainers()
        if any(trainer.alive and not trainer.finished for trainer in trainers):
            return
        outcome = self._outcome_of(trainers)
        if outcome.status == "finished" and not self._skip_scoring:
            self._children.start_waiting_evaluators()
            if evaluators := self._children.scoring_evaluators():
                self._score(outcome, evaluators)
                return
            self._warn_if_unscored()
        self._end(outcome)

    def _outcome_of(self, trainers: list[Child]) -> ev.Done:
        """Return the outcome of the run after its trainers ended: a failure if some died and none has finished."""
        finished = {trainer.name: self.newest_rows[trainer.name] for trainer in trainers if trainer.finished}
        left = [*self.left_before, *(row for name, row in self.newest_rows.items() if name not in finished)]
        dead = [trainer for trainer in trainers if not trainer.finished and trainer.cause not in ("", "exit 0")]
        if finished or not dead:
            return dataclasses.replace(self._outcome, summary=merge_rows(finished, left) if finished else {})
        reason = f"{dead[0].name} ended before it finished its work: {dead[0].error or dead[0].cause}"
        return ev.Done("failed", 1, reason, lacks_nodes=dead[0].went_with_node)

    def _score(self, outcome: ev.Done, evaluators: list[str]) -> None:
        self._outcome, self.phase = outcome, "scoring"
        self._deadline_s = self._now_s + SCORE_LIMIT_S
        self._requests.close()
        self._children.end(scoring=True)
        limit = f"for at most {SCORE_LIMIT_S / 60:g} minutes; Ctrl-C ends the run without their score"
        self._do(ev.Note("scoring", cause=f"the final weights, by {', '.join(evaluators)}, {limit}"))

    def _warn_if_unscored(self) -> None:
        """Warn if all evaluators have ended, and none of them has played the final weights."""
        evaluators = self._children.evaluators()
        if evaluators and not any(child.finished for child in evaluators):
            why = ", ".join(f"{child.name} has ended: {child.error or child.cause}" for child in evaluators)
            unscored = f"the final weights were not evaluated, because {why}; `actorlearn eval RUN` evaluates them"
            self._do(ev.Note("warned", cause=unscored))

    def _tick(self, _event: ev.Tick) -> None:
        self._children.tick()
        self._orders.tick()
        if self._now_s < self._deadline_s:
            return
        if self.phase == "draining":
            limit_s = self._ending.drain_s
            for trainer in self._children.trainers():
                if trainer.alive:
                    self._children.kill_for(trainer, f"did not finish within supervision.drain_s: {limit_s:g}")
            error = f"the trainer did not finish within supervision.drain_s: {limit_s:g}, and was killed"
            self._end(ev.Done("failed", 1, error))
        elif self.phase == "scoring":
            late = f"the final weights were not evaluated within {SCORE_LIMIT_S:g} s; the run has no final score"
            self._do(ev.Note("warned", cause=late))
            self._end(self._outcome)
        elif self._killed:  # do not wait for a process that even the kernel cannot end
            self._abandoned = True
        else:
            self._killed = True
            self._deadline_s = self._now_s + TERMINATE_LIMIT_S
            self._children.end(
                kill_for=f"killed, because it had not ended {TERMINATE_LIMIT_S:g} s after it was told to"
            )

    def _follow_up(self) -> None:
        """Update the phase, the messages to the processes, and the waiting requests after an event."""
        if self.phase == "starting" and all(self._has_started(name) for name in self._awaited):
            self.phase = "running"
        if self.phase in OPEN:
            self._check_learners()
        elif self.phase == "draining":
            self._conclude()
        elif self.phase == "scoring" and (self._skip_scoring or not self._children.scoring_evaluators()):
            if not self._skip_scoring:
                self._warn_if_unscored()
            self._end(self._outcome)
        if self.phase in (*OPEN, "draining", "scoring"):
            self._orders.renew(self.phase, self._requests.saves, self.best.env_steps if self.best else None)
            self._requests.settle()
        if self.phase == "ending" and (
            self._abandoned or not any(child.alive for child in self._children.named.values())
        ):
            self._over()

    def _has_started(self, name: str) -> bool:
        child = self._children.named.get(name)
        return child is None or child.state in (ChildState.RUNNING, ChildState.FATAL, ChildState.DRAINING)

    def _check_learners(self) -> None:
        """End a run that cannot continue, because trainers, or processes that they need, were given up.

        In a mode in which learners can leave (elastic), only the affected learners are detached if others can continue.
        """
        trainers = self._children.trainers()
        lost = [trainer for trainer in trainers if trainer.state is ChildState.FATAL]
        at_work = [trainer for trainer in trainers if not trainer.leaving and trainer not in lost]
        stuck = [(trainer, lacking) for trainer in at_work if (lacking := self._children.fatal_worker(trainer.learner))]
        others_go_on = len(stuck) < len(at_work)
        if others_go_on and self._mode.elastic and self.phase == "running":
            for trainer, lacking in stuck:
                self._children.remove_learner(trainer, lacking)
            return
        # After the start, lost trainers do not end the run while one is left, which continues to learn.
        causes = lost if self.phase == "starting" or len(lost) == len(trainers) else []
        # One stuck learner of several ends the run if the others wait for its batches, or if it has lost a server.
        others_wait = self._mode.in_step or self._ending.quorum > len(at_work) - len(stuck)
        ends_all = [lacking for _, lacking in stuck if others_wait or lacking.role.needed == "each"]
        causes = [*causes, *(ends_all if others_go_on else [lacking for _, lacking in stuck])]
        causes += self._children.fatal_for_all()
        if causes:
            first = causes[0]
            self._end(ev.Done("failed", 1, f"{first.name}: {first.error}", lacks_nodes=first.went_with_node))

    def _end(self, outcome: ev.Done) -> None:
        self._outcome, self.phase = outcome, "ending"
        self._deadline_s = self._now_s + TERMINATE_LIMIT_S
        self._requests.close()
        self._children.end()

    def _over(self) -> None:
        self._requests.close()
        self._do(ev.Note(self._outcome.status, cause=self._outcome.error or unlearned(self._outcome.summary)))
        unscored = self._unscored and self._outcome.status == "finished" and bool(self._children.evaluators())
        self._do(dataclasses.replace(self._outcome, unscored=unscored))
        self.phase = "over"
