"""Snapshots of runs, living or ended; every screen, table and report reads these.

A ``RunView`` is made in two ways: a ``RunReader`` reads a run's folder from outside and asks its supervisor for
processes; the process that runs it starts with an empty one and adds rows and events as they come. Unreadable
parts are absent from a view and never an error: a damaged file hides its own content only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from actorlearn.metrics.writer import METRICS_FILE
from actorlearn.parameters.checkpoint_folders import steps_of
from launch.errors import FailedError
from launch.reports import evaluations
from launch.reports.checks import MOST, keep_usable
from launch.runs.client import ask
from launch.runs.find import Run

EVENTS_KEPT = 100
"""Number of newest events in a view; events.jsonl has all."""
ALARMS = frozenset({"died", "failed", "refused", "warned", "gave up", "slow", "silent", "ill"})
"""Kinds of events that report a problem."""
ENDS = frozenset({"finished", "stopped", "failed", "died"})
"""Kinds of events of the run itself after which it has ended; its status is then the same word."""
ANSWER_S = 2.0
"""Longest wait for a supervisor, in seconds; a busy one answers the next time."""
TREND_PARTS = 256
"""Equal parts of a run's steps, of each of which a view's trend has the newest score."""
_RATE_MEMORY = 0.8
"""Weight of earlier reports in the smoothed rate; reports are a few seconds apart."""

Hearer = Callable[[Mapping[str, Any]], object]
"""Function that is called with an event."""


def pass_over(_: Mapping[str, Any]) -> None:
    """Do nothing with an event."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A snapshot of a run. Its rows and events have passed ``launch/reports/checks.py``."""

    name: str
    env_id: str = ""
    total_steps: int | None = None
    folder: Path | None = None
    status: str = "starting"
    """starting, running, or how it has ended: finished, stopped, failed, died; imported, of another program."""
    elapsed_s: float | None = None
    """Time of the newest report, plus its age while the run is alive; of an ended one its wall time."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Identity: run_id, version, commit, machine, command, supervisor_pid; see ``launch/runtime/metadata.py``."""
    topology: Mapping[str, Any] = field(default_factory=dict)
    """As resolved when the run began, by whatever version."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The newest report: metrics by name."""
    processes: Sequence[Mapping[str, Any]] | None = ()
    """name, state, incarnation, pid and busy of each; None: the supervisor did not answer."""
    events: tuple[Mapping[str, Any], ...] = ()
    """The newest ``EVENTS_KEPT``, oldest first, but for choices."""
    choices: tuple[Mapping[str, Any], ...] = ()
    """Events about choices that were left to the machine: key, value, why."""
    alarm: Mapping[str, Any] | None = None
    """The newest event of a kind in ``ALARMS``."""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    """Results of all evaluations, oldest first: mean, std, episodes, env_steps, policy_version."""
    checkpoints: tuple[Path, ...] = ()
    """Folders of all learners' checkpoints, those of the fewest steps first."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """Contents of summary.json; empty while the run is alive, or if it was killed."""
    best_return: float | None = None
    """Highest mean score of the last games in any report."""
    trend: tuple[tuple[int, float], ...] = ()
    """Part of ``total_steps``, of ``TREND_PARTS``, and the newest mean score of the last games in it."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Number of events of each kind in ``ALARMS`` that there were, by kind."""
    steps_per_s: float | None = None
    """Environment steps per second, smoothed over reports."""

    @property
    def env_steps(self) -> int:
        """Steps learned from so far."""
        return int(self.row.get("env_steps") or 0)

    @property
    def share_done(self) -> float:
        """Part of ``total_steps`` that is done, 0 to 1."""
        return min(1.0, self.env_steps / self.total_steps) if self.total_steps else 0.0

    @property
    def has_ended(self) -> bool:
        """Whether it is over; it may be resumed."""
        return self.status not in ("starting", "running")

    @property
    def left_s(self) -> float | None:
        """Estimated seconds to the end; None while nothing is known to estimate it from."""
        if self.total_steps is None or not self.steps_per_s or self.row.get("env_steps") is None:
            return None
        return max(0.0, (self.total_steps - self.env_steps) / self.steps_per_s)

    def final(self, name: str) -> Any:
        """A metric as the summary has it, which is over the whole run, or else as the newest report has it."""
        return self.summary.get(name, self.row.get(name))

    def with_row(self, row: Mapping[str, Any]) -> RunView:
        """Return the view after another report."""
        best, trend, score = self.best_return, self.trend, row.get("episode_return_mean")
        if score is not None:
            best = score if best is None else max(best, score)
            part = TREND_PARTS * (row.get("env_steps") or 0) // (self.total_steps or 1)
            while trend and trend[-1][0] >= part:  # several: the trainer was restored
                trend = trend[:-1]
            trend = (*trend, (part, score)) if self.total_steps else ()
        smoothed, rate = self.steps_per_s, row.get("env_steps_per_s")
        if rate:
            smoothed = _RATE_MEMORY * (rate if smoothed is None else smoothed) + (1 - _RATE_MEMORY) * rate
        status = "running" if self.status == "starting" else self.status
        return replace(self, row=row, status=status, best_return=best, trend=trend, steps_per_s=smoothed)

    def with_event(self, event: Mapping[str, Any]) -> RunView:
        """Return the view after another event; one of the run itself may say how it has ended."""
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
        """All of it in plain values."""
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


class RunReader:
    """Reader of a run from outside; each look reads only the new part of its growing files."""

    def __init__(self, run: Run, noted: Hearer = pass_over, most_reports: int | None = None) -> None:
        """Read the topology, which never changes; ``noted`` is called with each event.

        ``most_reports``: of a long run that was there before, about so many reports are read, spread over all: its
        view then knows no better score than these had.
        """
        self.run = run
        self._noted = noted
        self._metrics, self._events = run.metrics(), run.events()
        self._earlier = self._metrics.sample(most_reports) if most_reports else iter(())
        self._view = identify(run)

    def look(self, processes: bool = True) -> RunView:
        """Read new rows and events; with ``processes`` request those of a living run from its supervisor."""
        view = self._view
        for row in chain(self._earlier, self._metrics.new()):
            view = view.with_row(row)
        for event in self._events.new():
            self._noted(event)
            view = view.with_event(event)
        self._view = _as_it_stands(self.run, view, processes)
        return self._view


def glance(run: Run) -> RunView:
    """Return a view with the newest report alone, no events and no topology: cheap enough for lists of many runs."""
    view = RunView(run.name, folder=run.path, meta=run.meta, processes=None)
    return _as_it_stands(run, view.with_row(run.metrics().last() or {}))


def identify(run: Run) -> RunView:
    """Return a view with a run's identity only: its name, folder, meta.json and topology."""
    topology = run.topology()
    env, total_steps = topology.get("env"), topology.get("total_steps")
    env_id = env.get("id") if isinstance(env, dict) else None
    return RunView(
        name=run.name,
        env_id=env_id if isinstance(env_id, str) else "",
        total_steps=total_steps if isinstance(total_steps, int) and abs(total_steps) <= MOST else None,
        folder=run.path,
        meta=run.meta,
        topology=topology,
    )


def _as_it_stands(run: Run, view: RunView, ask_processes: bool = True) -> RunView:
    """Return the view with all that is not in rows and events; processes as before where the supervisor is busy."""
    alive = run.alive
    summary = {} if alive else run.summary()
    processes = (_processes(run) if ask_processes else None) if alive else ()
    return replace(
        view,
        status=run.status,
        summary=summary,
        processes=view.processes if processes is None else processes,
        elapsed_s=_elapsed_s(run, view.row, alive, summary),
        checkpoints=tuple(run.checkpoints()),
    )


def _processes(run: Run) -> Sequence[Mapping[str, Any]] | None:
    """Processes of a living run, by its supervisor; None when it does not answer in time."""
    try:
        found = ask(run, "status", timeout_s=ANSWER_S).data.get("processes")
    except FailedError:
        return None
    return [keep_usable(process) for process in found if isinstance(process, dict)] if isinstance(found, list) else []


def _elapsed_s(run: Run, row: Mapping[str, Any], alive: bool, summary: Mapping[str, Any]) -> float | None:
    reported_s: float | None = row.get("time_s")
    if not alive:
        return summary.get("wall_time_s") or reported_s
    try:
        age_s = time.time() - (run.path / METRICS_FILE).stat().st_mtime
    except OSError:
        return reported_s
    return None if reported_s is None else reported_s + max(0.0, age_s)
