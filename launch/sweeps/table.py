"""The result of a sweep as a table: its trials, the best first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import stdev
from typing import Any

from rich.table import Table

from launch.reports.format import DASH, as_number, as_whole, printable
from launch.sweeps.decisions import Population, Search
from launch.sweeps.history import History, Trial
from launch.sweeps.keys import SweepKeys
from launch.topology.load import literal


@dataclass(frozen=True)
class TrialRow:
    """One trial; for a population, a member of the last generation."""

    trial: int
    values: Mapping[str, Any]
    runs: int
    """Number of runs of the trial."""
    finished: int
    scores: list[float]
    status: str
    """whole if all its runs are finished; else dropped, failed or open."""
    env_steps: int
    """Steps of its ended runs together."""
    error: str = ""

    @property
    def score(self) -> float | None:
        """The mean over seeds."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds; None for fewer than two."""
        return stdev(self.scores) if len(self.scores) > 1 else None


def rows(search: Search, history: History, sign: int) -> list[TrialRow]:
    """Return the trials: whole ones first, the best first; for a population only the last generation."""
    trials = [*history.trials.values()]
    if isinstance(search, Population):
        last = max((search.generation(trial.number) for trial in trials), default=0)
        trials = [trial for trial in trials if search.generation(trial.number) == last]
    found = [_row(search, history, trial) for trial in trials]

    def rank(row: TrialRow) -> tuple[bool, bool, float, int]:
        return row.status != "whole", row.score is None, -sign * (row.score or 0.0), row.trial

    return sorted(found, key=rank)


def lineage(history: History, trial: int) -> list[Trial]:
    """Return a trial and the trials from whose checkpoints it continued, the earliest first."""
    found = [history.trials[trial]]
    while (parent := found[-1].parent) is not None:
        found.append(history.trials[parent])
    return found[::-1]


def table(found: list[TrialRow], keys: SweepKeys) -> Table:
    """Return the rows as a table for the terminal."""
    made = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    names = list(dict.fromkeys(key for row in found for key in row.values))
    made.add_column("trial", justify="right")
    for name in names:
        made.add_column(name.rpartition(".")[2], justify="right", overflow="fold")
    for heading in (keys.goal.metric, "deviation", "lowest", "highest", "runs", "steps"):
        made.add_column(heading, justify="right", overflow="fold")
    made.add_column("")
    for row in found:
        ends = (min(row.scores), max(row.scores)) if row.scores else (None, None)
        numbers = [DASH if number is None else as_number(number) for number in (row.score, row.deviation, *ends)]
        said = "" if row.status == "whole" else printable(f"{row.status}: {row.error}" if row.error else row.status)
        values = [printable(literal(row.values[name])) if name in row.values else DASH for name in names]
        count = f"{row.finished}/{row.runs}"
        made.add_row(str(row.trial), *values, *numbers, count, as_whole(row.env_steps), said)
    return made


def as_json(found: list[TrialRow]) -> list[dict[str, Any]]:
    """Return the rows as plain values."""
    return [
        {
            "trial": row.trial,
            "values": dict(row.values),
            "status": row.status,
            "score": row.score,
            "deviation": row.deviation,
            "scores": row.scores,
            "runs": row.runs,
            "finished": row.finished,
            "env_steps": row.env_steps,
            "error": row.error or None,
        }
        for row in found
    ]


def _row(search: Search, history: History, trial: Trial) -> TrialRow:
    runs = search.runs(trial)
    ends = [history.ended[run] for run in runs if run in history.ended]
    finished = sum(end.status == "finished" for end in ends)
    failed = next((end.error for end in ends if end.status == "failed"), None)
    if trial.number in history.dropped:
        status = "dropped"
    elif failed is not None:
        status = "failed"
    else:
        status = "whole" if finished == len(runs) else "open"
    return TrialRow(
        trial=trial.number,
        values=trial.values,
        runs=len(runs),
        finished=finished,
        scores=history.scores(trial.number),
        status=status,
        env_steps=sum(end.env_steps for end in ends),
        error=failed or "",
    )
