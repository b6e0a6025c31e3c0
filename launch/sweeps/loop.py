"""The loop of a sweep: starts runs when there is room, watches them, and records how they end.

``decisions.py`` decides which run is next, and ``stopping.py`` which trials end early. If the process of `actorlearn
sweep` is killed, the runs continue, and the next `actorlearn sweep` of the same file finds them.
"""

from __future__ import annotations

import select
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from launch.errors import FailedError
from launch.machine.locks import last_line
from launch.machine.signals import Signals
from launch.reports.format import as_duration, as_number
from launch.runs import find
from launch.sweeps import folders, stopping
from launch.sweeps.decisions import OVER, Population, next_step, open_runs
from launch.sweeps.file import Sweep, in_words
from launch.sweeps.folders import RunOutcome
from launch.sweeps.history import Ended, Retried, RunId, Started, Status, Trial
from launch.sweeps.processes import Processes, log_of
from launch.sweeps.slots import Slot, Slots
from launch.sweeps.state import State
from launch.topology.load import literal

TURN_S = 0.2
"""Seconds between two checks of the living runs."""
JUDGE_EVERY_S = 5.0
"""Seconds between two applications of the stopping rule to the learning curves."""
ASK_EVERY_S = 2.0
"""Seconds after which a run that is asked to stop is asked again."""
MOST_STARTS = 3
"""Most starts of a run from the same checkpoint in one execution; if it dies again, it counts as failed."""
REFUSED = (1, 2)
"""Exit statuses of a run that was refused, or failed, before it could write a summary."""
INTERRUPTED = 130
"""Exit status of a sweep that a signal has ended."""


class Loop:
    """One execution of a sweep, which first finds the runs that an earlier one has left alive."""

    def __init__(self, sweep: Sweep, state: State, topology: Path, slots: Slots, say: Callable[[str], None]) -> None:
        """Start nothing yet; ``topology``: the file from which all runs start; ``say``: prints a line."""
        self._sweep, self._state, self._topology, self._slots = sweep, state, topology, slots
        self._search = sweep.search()
        self._history = state.history
        self._processes = Processes()
        self._began_s = time.monotonic()
        self._tell = say
        self._alive: set[RunId] = set()
        self._set_aside: set[RunId] = set()
        """Runs that a user has stopped; the next execution of the sweep continues them."""
        self._left_out: set[str] = set()
        """Hosts on which the node of a run did not start; only the next execution of the sweep uses them again."""
        self._stranded = False
        """Whether the sweep ends with runs left to start, because no host is left for them."""
        self._starts: Counter[tuple[RunId, int]] = Counter()
        """Number of starts in this execution, by run and the steps from which it continued."""
        self._asked_s: dict[RunId, float] = {}
        """When each run was last asked to stop."""
        self._judged_s = self._began_s
        """When the stopping rule was last applied."""
        self._whole: dict[int, stopping.TrialCurve] = {}
        """Curves of the trials whose runs have all finished, by number."""
        self._stopping = 0
        """Number of signals so far: with 1 all runs save and end, with 2 or more they end at once."""

    def retry(self) -> None:
        """Allow failed runs to be started again.

        In a population, only the newest generation is retried, because no later one depends on it yet.
        """
        search, newest = self._search, len(self._history.trials) - 1
        for run in [run for run, ended in self._history.ended.items() if ended.status == "failed"]:
            if isinstance(search, Population) and search.generation(run.trial) < search.generation(newest):
                continue
            (self.folder(run) / find.SUMMARY_FILE).unlink(missing_ok=True)
            self._state.add(Retried(trial=run.trial, seed=run.seed))

    def run(self) -> int:
        """Start and watch runs until nothing is left to do, or a signal has stopped all; return the exit status."""
        signals = Signals()
        try:
            self._find_living()
            while not self._turn():
                if select.select([signals.fd], [], [], TURN_S)[0]:
                    self._interrupt(signals.read())
        finally:
            signals.close()
        if self._stopping:
            return INTERRUPTED
        failed = any(ended.status == "failed" for ended in self._history.ended.values())
        return int(failed or self._stranded or bool(self._set_aside))

    def folder(self, run: RunId) -> Path:
        """Return the folder of a run."""
        return self._state.path.parent / self.name(run)

    def name(self, run: RunId) -> str:
        """Return the name of a run's folder."""
        if isinstance(self._search, Population):
            return f"{self._sweep.name}-g{self._search.generation(run.trial):03}-s{run.seed}"
        return f"{self._sweep.name}-{run.trial:03}-s{run.seed}"

    # One turn -----------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Handle the runs that have ended, and start others; return True when the sweep is over."""
        for run in sorted(self._alive):
            if not self._processes.alive(self.folder(run)):
                self._alive.remove(run)
                self._gone(run)
        if self._stopping:
            self._stop(self._alive)
            return not self._alive
        self._drop_trials()
        self._stop({run for run in self._alive if run.trial in self._history.dropped})
        while (slot := self._free_slot()) is not None:
            step = next_step(self._search, self._history, self._alive, self._set_aside)
            if step is OVER:
                return True
            if isinstance(step, RunId):
                self._begin(step, slot)
            elif isinstance(step, Trial):
                self._state.add(step)
            else:
                return False
        if self._alive:
            return False
        self._stranded = next_step(self._search, self._history, self._alive, self._set_aside) is not OVER
        return True

    def _find_living(self) -> None:
        for run in open_runs(self._search, self._history):
            if run not in self._history.starts:
                continue
            if self._processes.alive(self.folder(run)):
                self._alive.add(run)
                self._say(run, "is running and continues")
            else:
                self._settle(run)

    def _interrupt(self, signals: Sequence[int]) -> None:
        self._stopping = max(1, self._stopping + sum(number != signal.SIGHUP for number in signals))
        self._asked_s.clear()
        said = "end now" if self._stopping > 1 else "save and end (a second signal ends them now)"
        self._tell(f"{self._clock()}  all runs {said}; the same command continues the sweep")

    def _stop(self, runs: set[RunId]) -> None:
        now_s = time.monotonic()
        for run in runs:
            if now_s - self._asked_s.get(run, -ASK_EVERY_S) >= ASK_EVERY_S:
                self._asked_s[run] = now_s
                self._processes.stop(self.folder(run), now=self._stopping > 1)

    # Starts and ends of runs --------------------------------------------------------------------------------------

    def _begin(self, run: RunId, slot: Slot) -> None:
        folder, trial = self.folder(run), self._history.trials[run.trial]
        if run in self._history.starts and self._settle(run):
            return
        found = find.read(folder)
        own = found is not None and bool(found.checkpoints())
        from_steps = folders.saved_steps(found) if found is not None else 0
        if self._starts[run, from_steps] == MOST_STARTS:
            ended = f"ended {MOST_STARTS} times without a newer checkpoint; {last_line(log_of(folder))}"
            self._end(run, RunOutcome("failed", env_steps=from_steps, error=ended), "failed")
            return
        if not own:
            shutil.rmtree(folder, ignore_errors=True)  # left by a run that died before its first checkpoint
            if trial.parent is not None:
                (parent,) = self._search.runs(self._history.trials[trial.parent])
                try:
                    folders.go_on_from(self.folder(parent), folder)
                except (OSError, shutil.Error) as error:
                    raise FailedError(
                        f"{folder.name} cannot continue from a checkpoint of {self.folder(parent)}: {error}; "
                        "restore that checkpoint, or start the sweep in another --folder"
                    ) from None
        self._starts[run, from_steps] += 1
        words = self._words(run, trial, slot.hosts, resumed=own)
        self._state.add(Started(trial=run.trial, seed=run.seed, from_steps=from_steps, gpu=slot.gpu, hosts=slot.hosts))
        if self._processes.start(folder, words, slot.gpu):
            on = f" on {', '.join(slot.hosts)}" if slot.hosts else ""
            said = f"continues{on} from {from_steps:,} steps" if own else f"started{on}: {in_words(trial.values)}"
            self._say(run, said)
        self._alive.add(run)
        self._asked_s.pop(run, None)

    def _words(self, run: RunId, trial: Trial, hosts: Sequence[str], resumed: bool) -> list[str]:
        folder, own = str(self.folder(run)), [f"nodes.hosts={literal([*hosts])}"] if hosts else []
        overrides = [override.text for override in self._sweep.overrides(trial.values, saved=trial.parent is not None)]
        keys = [*overrides, *own, f"seed={run.seed}", f"name={self.name(run)}"]
        if (end := self._stop_at(run)) is not None:
            keys.append(f"stop_at_steps={end}")
        if trial.parent is not None:
            return ["resume", folder, *keys, *self._slots.words]
        if resumed:
            return ["resume", folder, *self._sweep.overrides_of_nodes(), *own, *self._slots.words]
        return ["run", str(self._topology), *keys, "--run-dir", folder, *self._slots.words]

    def _free_slot(self) -> Slot | None:
        return self._slots.free([self._history.starts[run][-1] for run in self._alive], self._left_out)

    def _gone(self, run: RunId) -> None:
        """Handle a run that is no longer alive: if it has finished, failed or been refused, record its end.

        If it died or its nodes did not start, it will be started again. If a user has stopped it, the next execution
        of the sweep continues it.
        """
        if self._settle(run) or self._stopping:
            return
        folder = self.folder(run)
        outcome = self._outcome(run)
        if outcome.lacks_nodes:
            self._leave_out(run, outcome)
        elif self._processes.returncode(folder) in REFUSED:
            self._end(run, RunOutcome("failed", env_steps=outcome.env_steps, error=last_line(log_of(folder))), "failed")
        elif outcome.status == "stopped":
            self._set_aside.add(run)
            self._say(
                run, f"was stopped by a user at {outcome.env_steps:,} steps; the next sweep of this file continues it"
            )
        else:
            self._say(run, f"died; its newest checkpoint has {outcome.env_steps:,} steps")

    def _leave_out(self, run: RunId, outcome: RunOutcome) -> None:
        """Stop using the hosts of a run whose nodes did not start there, because other runs would fail there too."""
        started = self._history.starts[run][-1]
        if started.hosts:
            self._left_out |= {*started.hosts}
            self._starts[run, started.from_steps] -= 1  # the hosts are to blame; each repeat uses up hosts
        said = f"; {', '.join(started.hosts)} will not be used for other runs until the sweep is started again"
        self._say(run, f"lacks nodes at {outcome.env_steps:,} steps: {outcome.error}{said if started.hosts else ''}")

    def _outcome(self, run: RunId) -> RunOutcome:
        end_steps = self._stop_at(run) or self._end_steps(self._history.trials[run.trial])
        return folders.read_outcome(self.folder(run), self._sweep.keys.goal.metric, end_steps)

    def _end_steps(self, trial: Trial) -> int:
        return int(trial.values.get("total_steps", self._sweep.base.total_steps))

    def _stop_at(self, run: RunId) -> int | None:
        """Return the steps at which a population's run ends; None for other searches, whose runs end at total_steps."""
        if not isinstance(self._search, Population):
            return None
        end = (self._search.generation(run.trial) + 1) * self._search.keys.every_steps
        return min(end, self._sweep.base.total_steps)

    def _settle(self, run: RunId) -> bool:
        """Record the end of a run that is not alive, if it finished, failed or was dropped; return whether it did."""
        outcome = self._outcome(run)
        status: Status
        if outcome.status == "finished":
            status = "finished"
        elif outcome.status == "failed" and not outcome.lacks_nodes:
            status = "failed"
        elif run.trial in self._history.dropped:
            status = "dropped"
        else:
            return False
        self._end(run, outcome, status)
        return True

    def _end(self, run: RunId, outcome: RunOutcome, status: Status) -> None:
        ended = Ended(
            trial=run.trial,
            seed=run.seed,
            status=status,
            score=outcome.score,
            env_steps=outcome.env_steps,
            wall_time_s=outcome.wall_time_s,
            error=outcome.error if status == "failed" else "",
        )
        self._state.add(ended)
        said = f": {ended.error}" if ended.error else f": {self._sweep.keys.goal.metric} {as_number(ended.score)}"
        self._say(run, f"{status}{said} · {len(self._history.ended)} ended, {len(self._alive)} alive")

    # Trials that end early ----------------------------------------------------------------------------------------

    def _drop_trials(self) -> None:
        rule, now_s = self._sweep.keys.stopping, time.monotonic()
        if rule is None or now_s - self._judged_s < JUDGE_EVERY_S:
            return
        self._judged_s = now_s
        for trial in self._history.trials.values():
            if trial.number not in self._whole and self._is_whole(trial) and (curve := self._curve(trial)):
                self._whole[trial.number] = curve
        for number in sorted({run.trial for run in self._alive} - self._history.dropped.keys()):
            curve = self._curve(self._history.trials[number])
            dropped = curve and stopping.judge(rule, self._sweep.sign, number, curve, self._whole)
            if dropped:
                self._state.add(dropped)
                said = (
                    f"its best score {as_number(dropped.score)} is worse than {as_number(dropped.bound)}, "
                    "the median of the other trials"
                )
                self._tell(f"{self._clock()}  trial {number} is dropped at {dropped.env_steps:,} steps: {said}")

    def _is_whole(self, trial: Trial) -> bool:
        runs = self._search.runs(trial)
        return self._history.has_ended(runs) and all(self._history.ended[run].status == "finished" for run in runs)

    def _curve(self, trial: Trial) -> stopping.TrialCurve | None:
        """Return the mean curve over a trial's runs that have started."""
        runs = [run for run in self._search.runs(trial) if run in self._history.starts]
        return stopping.mean_curve(
            [folders.read_points(self.folder(run), self._sweep.keys.goal.metric) for run in runs]
        )

    # Messages -----------------------------------------------------------------------------------------------------

    def _say(self, run: RunId, what: str) -> None:
        self._tell(f"{self._clock()}  {self.name(run)} {what}")

    def _clock(self) -> str:
        return f"{as_duration(time.monotonic() - self._began_s):>8}"
