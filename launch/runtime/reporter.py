"""Writes events, metrics and the summary of a run to its folder, and shows them on a console.

The metrics of all learners and of other processes are merged into one *row* (a line of metrics.jsonl).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.energy import Energy
from actorlearn.metrics.registry import ENV_CHANGES, HEALTH
from actorlearn.metrics.writer import METRICS_FILE
from actorlearn.wire.messages import brief
from launch.plan.memory_order import disorder
from launch.plan.plan import Plan, Resumption
from launch.reports import evaluations
from launch.reports.accounting import Accounting
from launch.reports.health import REWARD_COLUMNS, Facts, Health, HealthChange, rewards_in
from launch.reports.merge import LearnerRows, merge
from launch.runs.jsonl import Decoded, Lines, read_object, values_of
from launch.runs.lives import count_env_changes
from launch.runtime import metadata
from launch.runtime.clock import TimeShares
from launch.runtime.journal import Journal
from launch.supervision import events as ev
from launch.topology.changes import say
from launch.topology.load import Topology, tree
from launch.topology.modes import mode

QUIET = frozenset({"spawned", "ended", "failed"})
"""Kinds of notes about a process that are written to events.jsonl but not shown, because other notes say the same."""

COMPLAINTS_TOLD = 10
"""Number of complaints (problems that do not stop the run) that are all reported.

Afterwards only the 100th, the 1,000th and so on are reported, so that they do not fill the disk.
"""

ROWS_REMEMBERED = 2_000
"""Maximum number of earlier rows that a resumed run reads whole to judge its health."""


class Reporter:
    """Writes and shows the events and metrics of one run, and counts deaths and warnings for its summary."""

    def __init__(
        self,
        topology: Topology,
        resumption: Resumption,
        run_dir: Path,
        section_ns: NDArray[np.int64],
        console: ev.Console | None,
    ) -> None:
        """Open the files of the run; ``resumption``: from where it continues. Raises OSError and RunError.

        ``section_ns`` [processes, sections]: shared memory in which processes count the time of their sections.
        """
        resumed = resumption.resumed
        changes = count_env_changes(read_object(run_dir / "meta.json")) if resumed else 0
        self._env_changes = {ENV_CHANGES: changes} if changes else {}
        self._console = console
        """The console; None without one, and after it has failed."""
        report = topology.report
        self._journal = Journal(run_dir, self._tell, report.writers, resumption.began_s)
        self._events = Lines(run_dir / "events.jsonl")
        self._learners = LearnerRows(report.every_s, resumption.left, resumption.rows)
        metrics = run_dir / METRICS_FILE
        rewarded = rewards_in(Decoded(metrics, values_of(REWARD_COLUMNS)).new()) if resumed else {}
        self._health = Health(Facts.of(tree(topology)), rewarded)
        begun = {"env_steps": resumption.env_steps} if resumed else {}
        self.last_row: dict[str, Any] = begun
        """Newest row of this life; before there is one, the row of an earlier life at the checkpoint of the resume."""
        for row in Lines(metrics).sample(ROWS_REMEMBERED) if resumed else ():
            self._health.add(row)
            if (row.get("env_steps") or 0) <= resumption.env_steps:
                self.last_row = {**row, **begun}
        self._energy = Energy()
        self._row_shares, self._shown_shares = (TimeShares(section_ns) for _ in range(2))
        self._shares: dict[str, Any] = {}
        """Energy and shares of time in the newest row."""
        self._evaluation: dict[str, Any] = {}
        """Metrics of the newest evaluation."""
        self._measured: dict[str, Mapping[str, Any]] = {}
        """Newest metrics of each process other than a trainer, by name."""
        self._busy: dict[str, float | None] = {}
        """Share of time in which each process did not wait, by name, from when processes were last shown."""
        self._failed: ev.Note | None = None
        """Note that says why the run has failed; shown as the last line."""
        self._deaths = sum(event.get("kind") == "died" for event in Lines(run_dir / "events.jsonl").new() if resumed)
        """Number of deaths in all lives of the run."""
        self._rolls_back = topology.learners.count == 1 and not mode(topology).outlived
        """Whether a trainer that is restarted continues with the weights of its newest checkpoint."""
        self._saved_steps: dict[str, int] = {}
        """Environment steps of the newest checkpoint of each trainer, by name."""
        self._row_is_new = False
        """Whether a row was written since a trainer was last restarted."""
        self._complaints = 0
        """Number of complaints in this life, also those that were not reported."""
        self._warnings = 0
        """Number of warnings in this life, with all complaints."""

    def begin(self, notes: Iterator[ev.Note]) -> None:
        """Remove the summary of an earlier life of the run; write and show the first events, ``notes``."""
        self._journal.begin()
        for note in notes:
            self.note(note)

    def note(self, note: ev.Note) -> None:
        """Write an event, and show it; events of processes with a kind in QUIET are not shown."""
        self._deaths += note.kind == "died"
        if note.kind == "saved":
            self._saved_steps[note.process] = note.fields["env_steps"]
        if note.kind == "restarted" and self._rolls_back and [*self._saved_steps] == [note.process]:
            note = replace(note, cause=self._rolled_back(self._saved_steps[note.process]))
        if note.kind == "evaluated":
            self._evaluation = evaluations.metrics(note.fields)
        self._journal.event(note)
        if note.kind == "failed" and not note.process:  # the last line of the run
            self._failed = note
        else:
            self._tell(note)

    def _tell(self, note: ev.Note) -> None:
        """Show an event that was written, and count it if it is a warning."""
        self._warnings += note.kind == "warned"
        if note.kind not in QUIET or not note.process:
            self._show(lambda console: console.event(note))

    def _rolled_back(self, saved_steps: int) -> str:
        """Return from where a restarted trainer continues, and how many steps its weights have lost, if it is known."""
        lost = (self.last_row.get("env_steps") or 0) - saved_steps if self._row_is_new else 0
        self._row_is_new = False
        said = f"from its checkpoint at {saved_steps:,} steps"
        return f"{said}; at least {lost:,} steps are rolled back" if lost > 0 else said

    def complaint(self, said: str) -> None:
        """Count a problem that does not stop the run, and report it; after COMPLAINTS_TOLD, only a few are reported."""
        self._complaints += 1
        if self._complaints <= COMPLAINTS_TOLD:
            self.note(ev.Note("warned", cause=said))
        elif str(self._complaints).strip("0") == "1":
            self.note(
                ev.Note("warned", cause=f"{said} (warning number {self._complaints:,}; most are no longer shown)")
            )
        else:
            self._warnings += 1

    def row(
        self, action: ev.MetricsRow, now_s: float, rows: list[int], simulators: list[int]
    ) -> Mapping[str, Any] | None:
        """Take the metrics of one process; if it is the first learner, write, show and return the row of all learners.

        Otherwise return None. ``rows``: rows of all processes in ``section_ns``; ``simulators``: those of simulators.
        """
        if not action.learner:
            self._measured[action.name] = action.values
            return None
        merged = self._learners.add(action.name, action.values, now_s, action.incarnation)
        if merged is None:
            return None
        self._shares = {**self._energy.row(merged.get("frames")), **self._row_shares.together(rows, simulators)}
        self._write_row(merged)
        return self.last_row

    def forget_learner(self, name: str) -> None:
        """Leave a detached learner out of later rows; only its counters, such as games played, are still added."""
        self._learners.leave(name)

    def processes(self, listed: Sequence[Mapping[str, Any]], rows: Mapping[str, int]) -> None:
        """Show the processes, with the share of time that each was busy since the last call.

        ``rows``: name of each process -> its row in ``section_ns``.
        """
        busy = self._shown_shares.busy()
        self._busy = {process["name"]: busy[rows[process["name"]]] for process in listed}
        shown = self._with_busy(listed)
        self._show(lambda console: console.processes(shown))

    def complete(self, answer: ev.Answer) -> ev.Answer:
        """Add to an answer that lists processes the share of time in which each was busy, as last shown."""
        listed = answer.reply.data.get("processes")
        if listed is None:
            return answer
        data = {**answer.reply.data, "processes": self._with_busy(listed)}
        return replace(answer, reply=msgspec.structs.replace(answer.reply, data=data))

    def _with_busy(self, listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**process, "busy": self._busy.get(process["name"])} for process in listed]

    def end(self, done: ev.Done, accounting: Accounting, now_s: float) -> None:
        """Write the last rows and the summary, and show the best and the last evaluation, then why the run failed."""
        try:
            if (merged := self._learners.merge_rest()) is not None:
                self._write_row(merged)
            row = {**self.last_row, **self._evaluation, **(self._env_changes if self._evaluation else {})}
            if self.last_row and row != self.last_row:  # the final weights were evaluated after the last report
                self._journal.row(row)
                self.last_row = row
        except Exception as error:  # the row is invalid, but the summary must be written
            self.complaint(brief(f"the last report was not written to metrics.jsonl: {type(error).__name__}: {error}"))
        found = evaluations.best_and_last(self._events.new())
        if accounting.said:
            self.note(ev.Note("warned", cause=accounting.said))
        summary = metadata.summary(done, self._deaths, self._warnings, self.last_row, now_s, found)
        summary |= {**self._evaluation, **accounting.row}
        self._journal.summary(summary)
        if found:
            said = ev.Note("evaluated", cause=evaluations.best_and_last_line(found))
            self._show(lambda console: console.event(said))
        if (failed := self._failed) is not None:
            self._show(lambda console: console.event(failed))

    def close(self) -> None:
        """Write what could not be written before, if possible, and close the files."""
        self._journal.close()

    def _write_row(self, merged: Mapping[str, Any]) -> None:
        """Write and show a row, after adding shares of time, health, and the metrics of other processes."""
        measured = merge([self._measured[name] for name in sorted(self._measured)])
        row = {**merged, **self._env_changes, **self._shares, **self._evaluation, **measured}
        for change in self._health.add(row):
            self.note(_note_of(change))
        if ill := self._health.ill():
            row[HEALTH] = ill
        self._journal.row(row)
        self.last_row, self._row_is_new = row, True
        self._show(lambda console: console.row(row))

    def _show(self, call: Callable[[ev.Console], None]) -> None:
        """Call the console; after a failure (a closed terminal, a full disk, an error) it is not used again."""
        if self._console is None:
            return
        try:
            call(self._console)
        except Exception as error:
            self._console = None
            self.note(ev.Note("warned", cause=f"the display has failed: {error}; the run continues without it"))


def _note_of(change: HealthChange) -> ev.Note:
    """Return the event for a health rule that has found a problem ("ill"), or no longer finds it ("well again")."""
    rule = change.rule
    if not change.ill:
        return ev.Note("well again", change.learner, cause=rule.name, fields={"rule": rule.name})
    cause = f"{rule.name}: {change.says}; try: {rule.remedy}"
    fields = {"rule": rule.name, "says": change.says, "try": rule.remedy}
    return ev.Note("ill", change.learner, cause=cause, fields=fields)


def _ends_at_once(plan: Plan) -> str:
    """Return a warning, with a remedy, if a resumed run has already reached its ``stop_at_steps``; else empty."""
    end = plan.topology.stop_at_steps
    if not plan.resumption.resumed or end is None or plan.resumption.env_steps < end:
        return ""
    way_out = "resume with stop_at_steps=null to go on"
    return f"stop_at_steps: {end:,}: the run has already learned from this many steps, and ends at once; {way_out}"


def initial_notes(plan: Plan, attached: Sequence[str]) -> Iterator[ev.Note]:
    """Yield the events to report before the first process starts: a resume, values that were chosen, warnings.

    ``attached``: names of processes that were attached before the resume, and are not started again.
    """
    before = plan.resumption
    if before.resumed:
        taken = " and ".join(before.checkpoints)
        anew = before.begins_anew
        how = f"simulators begin new games, because {anew}" if anew else "the run continues exactly"
        said = [f"at {before.env_steps:,} steps, from {taken}", how, *filter(None, [before.stretched])]
        yield ev.Note("resumed", cause="; ".join(said), fields={"env_steps": before.env_steps})
    if said_changes := say(before.changed):
        yield ev.Note("resumed", cause=f"with changed keys: {said_changes}", fields={"changed": before.changed})
    algorithm = before.changed.get("algorithm.name", {})
    if "was" in algorithm:
        cause = f"{algorithm['is']} continues with the weights and the state of the optimizer of {algorithm['was']}"
        yield ev.Note("resumed", cause=cause)
    if before.other_task:
        yield ev.Note("resumed", cause="the best score and the mean of training games start anew: env.* has changed")
    for choice in plan.choices:
        yield ev.Note("chosen", cause=str(choice), fields=asdict(choice))
    for how, names in (("attached", attached), ("detached or removed", before.left_out.values())):
        if names:
            cause = (
                f"{', '.join(names)}: {how} before the resume, and not started now; attach as many again if "
                "you need them"
            )
            yield ev.Note("resumed", cause=cause)
    for warning in (
        _ends_at_once(plan),
        *plan.misfits,
        plan.description.unseen,
        disorder(),
        *before.damaged,
    ):
        if warning:
            yield ev.Note("warned", cause=warning)
