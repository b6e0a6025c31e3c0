"""``actorlearn compare``: groups runs that differ only in name and seed, and compares the groups in a table."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from launch.display.plot import draw_groups
from launch.errors import RunError
from launch.reports.compare import permutation_p, resample
from launch.reports.format import DASH, as_number, as_whole
from launch.reports.statistics import (
    ONE_RUN,
    Interval,
    Numbers,
    interquartile_mean,
    interval,
    probability_of_improvement,
)
from launch.runs.curves import RunGroup, group_runs, leave_out_empty, names_of
from launch.runs.find import RunFolder, describe_found, find_all

WIDE = 200
"""Columns of the table if the output is not a terminal."""


@dataclass(frozen=True)
class Compared:
    """A group of runs that differ only in name and seed, and their values of a metric at steps that all reached."""

    group: RunGroup
    numbers: Numbers
    """The values of the column, [runs, steps]."""

    @property
    def last(self) -> Numbers:
        """The value of each run at the last of the steps, [runs]."""
        return self.numbers[:, -1]

    @property
    def deviation(self) -> float | None:
        """Standard deviation over runs at the last step; None for a single run."""
        return float(self.last.std(ddof=1)) if len(self.last) > 1 else None

    @property
    def middle(self) -> Interval:
        """Interquartile mean over runs at the last step, with its confidence interval; for one run, its width is 0."""
        return interval(interquartile_mean, [self.last.tolist()])

    def better_than(self, other: Compared) -> Interval:
        """Return the probability that at the last step a run of this group has a higher value than one of ``other``."""
        return interval(probability_of_improvement, [self.last.tolist()], [other.last.tolist()])


def compare(words: Sequence[str], column: str, output: Path | None, json: bool) -> int:
    """Compare the runs that ``words`` name, and print the groups, highest mean first; return the exit status.

    ``column``: the column of metrics.jsonl. ``output``: file for a picture. Raises ValueError if no run has values.
    """
    found, others = find_all(words)
    runs, empty = leave_out_empty(found, column)
    steps, groups, again = _read(runs, column)
    names = names_of([its.group for its in groups])
    left_out = [others] if others else []
    left_out += [f"left out: {reason}" for reason in (*empty, *again)]
    said = [*left_out, *_other_environments(groups)]
    if output:
        draw_groups([(name, its.group.curves) for name, its in zip(names, groups, strict=True)], output)
    if json:
        print(json_format.dumps({**_as_json(column, steps, groups), "warnings": said}))
        return 0
    for line in filter(None, [describe_found(words, found), *said]):
        print(line)
    _show(column, steps, groups, names)
    if output:
        print(f"wrote {output}")
    return 0


def _read(runs: Sequence[RunFolder], column: str) -> tuple[Numbers, list[Compared], list[str]]:
    """Return the steps at which runs are compared, the groups, and for each run left out the reason.

    Raises RunError for a run without a topology.
    """
    if unread := next((run for run in runs if not run.topology()), None):
        raise RunError(f"{unread.name} has no readable topology.yaml, whose keys group the runs; leave it out")
    counted = [group.each_seed_once() for group in group_runs(runs, column)]
    groups = [group for group, _ in counted]
    again = [reason for _, reasons in counted for reason in reasons]
    steps, numbers = resample([curve.newest for group in groups for curve in group.curves])
    ends = np.cumsum([len(group.runs) for group in groups])[:-1]
    compared = [Compared(group, its) for group, its in zip(groups, np.split(numbers, ends), strict=True)]
    return steps, sorted(compared, key=lambda its: -float(its.last.mean())), again


def _other_environments(groups: Sequence[Compared]) -> Iterator[str]:
    games = sorted({curve.game for its in groups for curve in its.group.curves if curve.game})
    if len(games) > 1:
        yield (
            f"warning: the runs play different environments ({', '.join(games)}), whose scores have different scales: "
            "IQM, better and p do not say which settings are better; compare the runs of one environment at a time"
        )


def _show(column: str, steps: Numbers, groups: Sequence[Compared], names: Sequence[str]) -> None:
    print(f"{column} at {as_whole(float(steps[-1]))} steps, the last step that all runs have reached")
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("runs with", "seeds", "IQM", "interval", "mean", "all steps", "better", "p"):
        text = heading in ("runs with", "seeds")
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    first = groups[0]
    for name, its in zip(names, groups, strict=True):
        middle = its.middle
        around = f"{as_number(middle.low)} to {as_number(middle.high)}" if len(its.last) > 1 else ONE_RUN
        said = (as_number(middle.estimate), around)
        numbers = map(as_number, (its.last.mean(), its.numbers.mean()))
        against = (DASH, DASH)
        if its is not first:
            p = permutation_p(first.last, its.last)
            against = (f"{its.better_than(first).estimate:.2f}", f"{p:.2f}" if p >= 0.01 else f"{p:.1g}")
        seeds = " ".join(DASH if seed is None else str(seed) for seed in its.group.seeds)
        table.add_row(name, seeds, *said, *numbers, *against)
    Console(width=None if os.isatty(1) else WIDE, highlight=False, markup=False).print(table)
    print(
        "IQM: mean of the middle half of the runs; interval: its 95 % bootstrap interval; "
        "all steps: mean over the whole curve"
    )
    if len(groups) > 1:
        smallest = permutation_p(np.zeros(len(first.last)), np.ones(len(groups[1].last)))
        print(
            "better: probability that a run of this row has a higher value than a run of the first row\n"
            "p: probability of a difference from the first row's mean at least this large if the keys have no effect,\n"
            f"by a permutation test; with {len(first.last)} and {len(groups[1].last)} runs p is at least {smallest:.2g}"
        )


def _interval(found: Interval, *groups: Compared) -> dict[str, float | None]:
    """Return an interval as plain values; if one of the groups has a single run, low and high are None."""
    alone = any(len(its.last) == 1 for its in groups)
    return {**found._asdict(), **({"low": None, "high": None} if alone else {})}


def _as_json(column: str, steps: Numbers, groups: Sequence[Compared]) -> dict[str, Any]:
    first = groups[0]
    rows = [
        {
            "keys": dict(its.group.keys),
            "runs": [run.name for run in its.group.runs],
            "folders": [str(run.path) for run in its.group.runs],
            "seeds": list(its.group.seeds),
            "last": its.last.tolist(),
            "interquartile_mean": _interval(its.middle, its),
            "mean": float(its.last.mean()),
            "deviation": its.deviation,
            "mean_of_all_steps": float(its.numbers.mean()),
            "better_than_first": None if its is first else _interval(its.better_than(first), its, first),
            "p": None if its is first else permutation_p(first.last, its.last),
        }
        for its in groups
    ]
    return {"column": column, "env_steps": float(steps[-1]), "groups": rows}
