"""Snapshots of runs, living or ended, from which all screens, tables and reports are made.

A snapshot, ``RunView``, is made in two ways. Other programs use a ``RunReader``, which reads the folder of the run and
asks its supervisor for the processes. ``actorlearn run`` itself starts with an empty snapshot, and adds metrics and
events to it. A file that cannot be read causes no error; the snapshot then lacks its content.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import expm1, isnan
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.metrics.registry import ENV_CHANGES, HEALTH, STATISTICS_MADE, STATISTICS_NEEDED
from actorlearn.metrics.writer import METRICS_FILE
from actorlearn.parameters.checkpoint_folders import steps_of
from launch.errors import FailedError
from launch.reports import evaluations
from launch.reports.checks import MOST, is_number, keep_usable, section_of
from launch.reports.format import as_rate, as_span, as_whole
from launch.runs.client import ask
from launch.runs.find import RunFolder
from launch.runs.jsonl import Decoded, numbers_of
from launch.runs.lives import count_env_changes, time_of

EVENTS_KEPT = 100
"""Number of newest events in a view; events.jsonl has all."""
ALARMS = frozenset({"died", "failed", "refused", "warned", "gave up", "slow", "silent", "ill"})
"""Kinds of events that report a problem."""
ENDS = frozenset({"finished", "stopped", "failed", "died"})
"""Kinds of the events with which a run ends; the status of the run is then the same word."""
ANSWER_S = 2.0
"""Seconds to wait for the supervisor's list of processes. If none comes, the view shows the list before."""
TREND_PARTS = 256
"""Number of equal parts into which ``total_steps`` is divided; ``RunView.trend`` has one score for each part."""
_ABSENT_IF_NONE = frozenset({STATISTICS_MADE, STATISTICS_NEEDED, HEALTH, "update_in_s"})
"""Metrics that a report lacks only if they have no value now, so they are not copied from the report before."""
RATE_S = 120.0
"""Time constant, in seconds, of the moving average of the steps per second that gives the time left.

The rates of single reports may differ by half, because few updates are made between two reports.
"""


@dataclass(frozen=True, slots=True)
class RunView:
    """A snapshot of a run: its newest metrics, its events, its processes and more."""

    name: str
    env_id: str = ""
    total_steps: int | None = None
    folder: Path | None = None
    status: str = "starting"
    """starting, running, finished, stopped, failed or died; imported for a run of another program."""
    elapsed_s: float | None = None
    """Seconds that the run has taken so far, in all its lives."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Content of meta.json: run_id, version, commit, machine and others; see ``launch/runtime/metadata.py``."""
    topology: Mapping[str, Any] = field(default_factory=dict)
    """The topology of the run with all its defaults."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The newest report: metrics by name."""
    processes: Sequence[Mapping[str, Any]] | None = ()
    """name, state, incarnation, pid and busy of each process; None: unknown, as the supervisor did not answer."""
    events: tuple[Mapping[str, Any], ...] = ()
    """The newest ``EVENTS_KEPT`` events, oldest first, except those in ``choices``."""
    choices: tuple[Mapping[str, Any], ...] = ()
    """Events of kind "chosen": key, value and why of each value that actorlearn chose for a key you left out."""
    alarm: Mapping[str, Any] | None = None
    """The newest event of a kind in ``ALARMS``."""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    """Results of all evaluations, oldest first: mean, std, episodes, env_steps, policy_version."""
    checkpoints: tuple[Path, ...] = ()
    """Folders of all learners' checkpoints, the fewest steps first."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Content of summary.json; {} while the run is alive, or if its supervisor was killed."""
    best_return: float | None = None
    """Highest score (mean of the last games) in any report.

    Reports from before a resume that has changed the environment do not count, as for ``trend``.
    """
    trend: tuple[tuple[int, float], ...] = ()
    """Points (part, score) of a curve: the newest score in each part of ``total_steps``, from 0 to ``TREND_PARTS``."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Number of events of each kind in ``ALARMS``, by kind."""
    steps_per_s: float | None = None
    """Environment steps per second: an exponential moving average over ``RATE_S``.

    Until rates were measured for so long, it is their mean.
    """
    rated_s: float = 0.0
    """Seconds over which the rates in ``steps_per_s`` were measured; 0.0 if this is unknown."""
    stop_at_steps: int | None = None

    @property
    def env_steps(self) -> int:
        """Steps learned from so far."""
        return int(self.row.get("env_steps") or 0)

    @property
    def end_steps(self) -> int | None:
        """Steps at which the run ends unless a score ends it earlier; None if unknown."""
        known = [steps for steps in (self.total_steps, self.stop_at_steps) if steps is not None]
        return min(known, default=None)

    @property
    def share_done(self) -> float:
        """Share of ``end_steps`` that is done, 0 to 1."""
        return min(1.0, self.env_steps / self.end_steps) if self.end_steps else 0.0

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended; it may be resumed."""
        return self.status not in ("starting", "running")

    @property
    def left_s(self) -> float | None:
        """Estimated seconds to the end; None if there is no estimate yet."""
        rate = self.steps_per_s
        if _waits(self.row) and rate:  # the rollout may be played more slowly than those before
            rate += self._share_of_rollout * min(0.0, (self.row.get("env_steps_per_s") or 0.0) - rate)
        if self.end_steps is None or not rate or self.row.get("env_steps") is None:
            return None
        return max(0.0, (self.end_steps - self.env_steps) / rate)

    @property
    def _share_of_rollout(self) -> float:
        """Weight, 0 to 1, that the rate of the rollout being played has in the moving average."""
        made, rate = self.row.get("update_steps_made") or 0, self.row.get("steps_made_per_s")
        return -expm1(-max(0.0, made / rate) / RATE_S) if rate else 1.0

    @property
    def awaited(self) -> str:
        """A line on the progress towards the next update, if there was none since the last report; else "".

        Until learning begins, it is about the progress of the statistics of observations.
        """
        steps, rate = self.row.get("update_steps"), self.row.get("steps_made_per_s")
        if self.has_ended:
            return ""
        if (needed := self.row.get(STATISTICS_NEEDED)) is not None:
            collected = f"{as_whole(self.row.get(STATISTICS_MADE))} of {as_whole(needed)}"
            return f"collecting statistics of observations before learning begins: {collected}"
        if steps is None:
            return ""
        in_s, made = self.row.get("update_in_s"), self.row.get("update_steps_made")
        when = "" if in_s is None else f" in about {as_span(in_s)}"
        speed = f" at {as_rate(rate)} steps/s" if rate else ""
        update = "next update" if self.row.get("updates") else "first update"
        return f"{update}{when}: {as_whole(made)} of {as_whole(steps)} steps made{speed}"

    @property
    def awaits_learning(self) -> bool:
        """Whether the run is alive and no update has learned yet, so that there is no progress except ``awaited``."""
        return bool(self.awaited) and (STATISTICS_NEEDED in self.row or not self.row.get("updates"))

    def final(self, name: str) -> Any:
        """Return the last value of a metric: from summary.json, or else from the newest report."""
        return self.summary.get(name, self.row.get(name))

    def with_row(self, row: Mapping[str, Any]) -> RunView:
        """Return the snapshot with another report: the metrics of a line of metrics.jsonl."""
        waits = _waits(row)
        best, trend, score = self.best_return, self.trend, row.get("episode_return_mean")
        if row.get(ENV_CHANGES) != self.row.get(ENV_CHANGES):
            best, trend = None, ()
        if waits:  # sent while a rollout is played: metrics of learning are copied from the report before
            kept = {name: value for name, value in self.row.items() if name not in _ABSENT_IF_NONE}
            row = _at_the_rate_of_steps_made({**kept, **row})
        if score is not None:
            best, trend = _with_score(best, trend, score, row.get("env_steps") or 0, self.total_steps)
        view = self if waits and self.steps_per_s else self._with_rate(row)
        status = "running" if self.status == "starting" else self.status
        return replace(view, row=row, status=status, best_return=best, trend=trend)

    def _with_rate(self, row: Mapping[str, Any]) -> RunView:
        """Return the snapshot with the rate of a report, weighted by the time over which it was measured."""
        if not (rate := row.get("env_steps_per_s")):
            return self
        known = self.row.get("env_steps") is not None  # else it is unknown for how long the rate was measured
        measured_s = max(0.0, ((row.get("env_steps") or 0) - self.env_steps) / rate) if known else 0.0
        if self.steps_per_s is None:
            return replace(self, steps_per_s=rate, rated_s=measured_s)
        rated_s = (self.rated_s or measured_s) + measured_s  # a first rate of unknown duration weighs the same
        share = max(-expm1(-measured_s / RATE_S), measured_s / rated_s if rated_s else 0.0)
        return replace(self, steps_per_s=self.steps_per_s + share * (rate - self.steps_per_s), rated_s=rated_s)

    def with_event(self, event: Mapping[str, Any]) -> RunView:
        """Return the snapshot with another event, which may set the status."""
        kind = event.get("kind")
        if kind == "chosen":
            return replace(self, choices=(*self.choices, event))
        ended = not event.get("process") and kind in ENDS
        problems = {**self.problems, kind: self.problems.get(kind, 0) + 1} if kind in ALARMS else self.problems
        return replace(
            self,
            problems=problems,
            events=(*self.events[1 - EVENTS_KEPT :], event),
            alarm=event if kind in ALARMS else self.alarm,
            status=str(kind) if ended else self.status,
            evaluations=(*self.evaluations, *evaluations.results([event])),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the snapshot as plain values."""
        return {
            "run": self.name,
            "folder": str(self.folder),
            "env": self.env_id,
            "status": self.status,
            "elapsed_s": None if self.elapsed_s is None else round(self.elapsed_s, 3),
            "left_s": None if self.has_ended else self.left_s,
            "total_steps": self.total_steps,
            "row": dict(self.row),
            "processes": None if self.processes is None else [dict(process) for process in self.processes],
            "events": list(self.events),
            "chosen": list(self.choices),
            "evaluations": list(self.evaluations),
            "checkpoints": [{"path": str(path), "env_steps": steps_of(path)} for path in self.checkpoints],
            "summary": dict(self.summary),
        }


def _waits(row: Mapping[str, Any]) -> bool:
    """Whether a report was sent while a rollout was played, so that it has no metrics of learning."""
    return "update_steps" in row


def _with_score(
    best: float | None, trend: tuple[tuple[int, float], ...], score: float, env_steps: int, total_steps: int | None
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Return ``best_return`` and ``trend`` with another score."""
    best = score if best is None else max(best, score)
    if not total_steps:
        return best, ()
    part = TREND_PARTS * env_steps // total_steps
    while trend and trend[-1][0] >= part:  # the trainer was restored
        trend = trend[:-1]
    return best, (*trend, (part, score))


def _at_the_rate_of_steps_made(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a report without a new update, with its rates lowered to the rate at which steps are made now."""
    made, learned = row.get("steps_made_per_s"), row.get("env_steps_per_s")
    if made is None or not learned or made >= learned:
        return row
    frames = row.get("frames_per_s")
    slower = {} if frames is None else {"frames_per_s": frames * made / learned}
    return {**row, "env_steps_per_s": made, **slower}


class RunReader:
    """Makes snapshots of a run from its folder; ``look`` reads only what was added to the files since the last call."""

    def __init__(
        self,
        run: RunFolder,
        noted: Callable[[Mapping[str, Any]], object] = lambda _: None,
        newest: bool = False,
    ) -> None:
        """``noted``: called with each event.

        ``newest``: whether only the newest of the existing reports is read, with the metrics of learning from the
        newest report that has them. The time for it does not depend on the number of reports.
        """
        self.run = run
        self.knows_best = not newest
        """Whether the reports that give ``best_return`` were all read; otherwise it is None."""
        self._noted = noted
        self._metrics, self._events = run.metrics(), run.events()
        self._earlier = self._metrics.newest(lambda row: not _waits(row)) if newest else []
        self._view = identify(run)

    def look(self, processes: bool = True, best: bool = False) -> RunView:
        """Read the new metrics and events, and return the snapshot.

        ``processes``: whether to ask the supervisor of a living run for its processes. ``best``: whether to read the
        scores of all reports, if ``best_return`` is not known yet.
        """
        view, alive = self._view, self.run.alive  # found out first: the files of an ended run are complete
        for row in chain(self._earlier, self._metrics.new()):
            view = view.with_row(row)
        self._earlier.clear()
        if best and not self.knows_best:
            view, self.knows_best = replace(view, best_return=self._best()), True
        elif not self.knows_best:
            view = replace(view, best_return=None)
        for event in self._events.new():
            self._noted(event)
            view = view.with_event(event)
        self._view = _as_it_stands(self.run, view, alive, processes)
        return self._view

    def _best(self) -> float | None:
        best = changes = None
        for row in Decoded(self.run.path / METRICS_FILE, _score_of).new():
            if row.env_changes != changes:
                best, changes = None, row.env_changes
            if is_number(score := row.episode_return_mean):
                best = score if best is None else max(best, score)
        return best


class _Score(msgspec.Struct):
    """The metrics of a report that give the best score; decoding them takes a fifth of the time of the whole report."""

    episode_return_mean: Any = None
    env_changes: Any = None


_SCORES = msgspec.json.Decoder(_Score)


def _score_of(line: bytes) -> _Score | None:
    try:
        return _SCORES.decode(line)
    except (ValueError, RecursionError):
        return None


def with_earlier_scores(view: RunView, run: RunFolder) -> RunView:
    """Return ``view``, a snapshot without reports, with the best score and the trend of a run that is resumed."""
    best: float | None = None
    trend: tuple[tuple[int, float], ...] = ()
    changes = 0.0
    scores = numbers_of(("episode_return_mean", "env_steps", ENV_CHANGES))
    for score, *others in Decoded(run.path / METRICS_FILE, scores).new():
        env_steps, changed = (0 if isnan(number) else number for number in others)
        if changed != changes:
            best, trend, changes = None, (), changed
        if not isnan(score):
            best, trend = _with_score(best, trend, score, int(env_steps), view.total_steps)
    now = count_env_changes(run.meta)
    if changes != now:  # there is no report of this environment yet
        best, trend = None, ()
    # With this number in ``row``, the next report of the same environment does not clear the scores.
    return replace(view, row={ENV_CHANGES: now} if now else {}, best_return=best, trend=trend)


def glance(run: RunFolder) -> RunView:
    """Return a snapshot with the newest report, quickly: without events and topology, for lists of many runs."""
    view, alive = RunView(run.name, folder=run.path, meta=run.meta, processes=None), run.alive
    return _as_it_stands(run, view.with_row(run.metrics().last() or {}), alive)


def identify(run: RunFolder) -> RunView:
    """Return a snapshot with the name, folder, meta.json and topology of a run, without reports and events."""
    topology = run.topology()
    env_id = section_of(topology, "env").get("id")
    return RunView(
        name=run.name,
        env_id=env_id if isinstance(env_id, str) else "",
        total_steps=_steps(topology, "total_steps"),
        folder=run.path,
        meta=run.meta,
        topology=topology,
        stop_at_steps=_steps(topology, "stop_at_steps"),
    )


def _steps(topology: Mapping[str, Any], key: str) -> int | None:
    """Return the value of a key that is a number of steps; None if it is not set or unusable."""
    value = topology.get(key)
    return value if isinstance(value, int) and abs(value) <= MOST else None


def _as_it_stands(run: RunFolder, view: RunView, alive: bool, ask_processes: bool = True) -> RunView:
    """Return ``view`` with the present status, processes, summary, checkpoints and elapsed time of the run.

    ``alive``: whether the run was alive before its files were read; it may have ended since. If the supervisor does not
    answer, or is not asked (``ask_processes``), the processes stay as they are.
    """
    summary = {} if alive else run.summary()
    processes = (_processes(run) if ask_processes else None) if alive else ()
    if count_env_changes(run.meta) != (view.row.get(ENV_CHANGES) or 0):  # there is no report of this environment yet
        view = replace(view, best_return=None, trend=())
    return replace(
        view,
        status="running" if alive else run.status,
        summary=summary,
        processes=view.processes if processes is None else processes,
        elapsed_s=_elapsed_s(run, view.row, alive, summary),
        checkpoints=tuple(run.checkpoints()),
    )


def _processes(run: RunFolder) -> Sequence[Mapping[str, Any]] | None:
    """Return the processes of a living run, as its supervisor reports them; None if it does not answer in time."""
    try:
        found = ask(run, "status", timeout_s=ANSWER_S).data.get("processes")
    except FailedError:
        return None
    return [keep_usable(process) for process in found if isinstance(process, dict)] if isinstance(found, list) else []


def _elapsed_s(run: RunFolder, row: Mapping[str, Any], alive: bool, summary: Mapping[str, Any]) -> float | None:
    """Return the seconds that a run has taken; if it is alive, with the time since its newest report or resume."""
    reported_s: float | None = row.get("time_s")
    if not alive:
        return summary.get("wall_time_s") or reported_s
    try:
        since_s = (run.path / METRICS_FILE).stat().st_mtime
    except OSError:
        return reported_s
    if started := time_of(run.meta.get("started")):  # the newest report may be of an earlier life
        since_s = max(since_s, started.timestamp())
    return None if reported_s is None else reported_s + max(0.0, time.time() - since_s)
