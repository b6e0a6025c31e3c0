"""The result of a sweep as a table of its trials, the best first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import stdev
from typing import Any

from rich.table import Table

from launch.reports.format import DASH, as_number, as_whole, printable
from launch.sweeps.decisions import Population, Search
from launch.sweeps.history import History, Trial
from launch.sweeps.keys import SweepKeys
from launch.topology.load import literal

_DROPPED_FIRST = ("lowest", "highest", "deviation", "steps")
"""Columns of the table that are left out if the terminal is too narrow, in this order."""
_PADDING = 2
_NARROWEST = 4
"""Least width of a column in letters, so that its heading can be broken into lines."""


@dataclass(frozen=True)
class TrialRow:
    """The results of one trial over its seeds. In a population, a trial is a member of the last generation."""

    trial: int
    values: Mapping[str, Any]
    runs: int
    """Number of runs of the trial, one for each seed."""
    finished: int
    """Number of its runs that have finished."""
    scores: list[float]
    """Scores of its finished runs."""
    status: str
    """whole: all its runs have finished; dropped: the stopping rule ended it; failed: a run has failed; else open."""
    env_steps: int
    """Environment steps of its ended runs together."""
    error: str = ""
    """Error of the first run that has failed."""

    @property
    def score(self) -> float | None:
        """Mean score over seeds; None if there are no scores."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds; None for fewer than two."""
        return stdev(self.scores) if len(self.scores) > 1 else None


def rows(search: Search, history: History, sign: int) -> list[TrialRow]:
    """Return the results of all trials, best first; trials with unfinished or failed runs come last.

    For a population, return only the last generation. ``sign``: 1 if a higher score is better, -1 if a lower one is.
    """
    trials = [*history.trials.values()]
    if isinstance(search, Population):
        last = max((search.generation(trial.number) for trial in trials), default=0)
        trials = [trial for trial in trials if search.generation(trial.number) == last]
    found = [_row(search, history, trial) for trial in trials]

    def rank(row: TrialRow) -> tuple[bool, bool, float, int]:
        return row.status != "whole", row.score is None, -sign * (row.score or 0.0), row.trial

    return sorted(found, key=rank)


def lineage(history: History, trial: int) -> list[Trial]:
    """Return the ancestors of a trial of a population, earliest first, and the trial itself last.

    Each trial continued from the checkpoint of the previous one.
    """
    found = [history.trials[trial]]
    while (parent := found[-1].parent) is not None:
        found.append(history.trials[parent])
    return found[::-1]


def table(found: list[TrialRow], keys: SweepKeys, width: int) -> Table:
    """Return the rows as a table for a terminal that is ``width`` letters wide.

    Numbers are never broken into two lines. Headings are, and columns are left out if the terminal is too narrow.
    """
    names = list(dict.fromkeys(key for row in found for key in row.values))
    columns: dict[str, list[str]] = {"trial": [str(row.trial) for row in found]}
    for name in names:
        columns[name] = [printable(literal(row.values[name])) if name in row.values else DASH for row in found]
    ends = [(min(row.scores), max(row.scores)) if row.scores else (None, None) for row in found]
    for heading, numbers in (
        (keys.goal.metric, [row.score for row in found]),
        ("deviation", [row.deviation for row in found]),
        ("lowest", [low for low, _ in ends]),
        ("highest", [high for _, high in ends]),
    ):
        columns[heading] = [as_number(number) for number in numbers]
    columns["runs"] = [f"{row.finished}/{row.runs}" for row in found]
    columns["steps"] = [as_whole(row.env_steps) for row in found]
    for heading in _DROPPED_FIRST:
        if sum(_widest(cells) + _PADDING for cells in columns.values()) > width:
            del columns[heading]
    made = Table(box=None, header_style="bold", padding=(0, _PADDING, 0, 0))
    for heading, cells in columns.items():
        shown = heading.rpartition(".")[2] if heading in names else heading
        made.add_column(shown, justify="right", overflow="fold", min_width=_widest(cells))
    made.add_column("")
    errors = [printable(f"{row.status}: {row.error}" if row.error else row.status) for row in found]
    said = ["" if row.status == "whole" else error for row, error in zip(found, errors, strict=True)]
    for line in zip(*columns.values(), said, strict=True):
        made.add_row(*line)
    return made


def _widest(cells: list[str]) -> int:
    return max([_NARROWEST, *map(len, cells)])


def as_json(found: list[TrialRow]) -> list[dict[str, Any]]:
    """Return the results as plain values for JSON."""
    return [
        {**asdict(row), "score": row.score, "deviation": row.deviation, "error": row.error or None} for row in found
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
