"""``actorlearn compare``: runs grouped by all keys but name and seed, the groups beside one another, and a picture."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from launch.display.plot import draw_bands, read_curve
from launch.errors import RunError
from launch.reports.compare import Numbers, find_differences, group_alike, permutation_p, resample
from launch.reports.format import DASH, as_number, as_whole, printable
from launch.runs.find import Run, find

_SHOWN = 3
"""Most differing keys in the name of a group; ``--json`` has all."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in name and seed alone."""

    runs: Sequence[str]
    seeds: Sequence[Any]
    keys: dict[str, Any]
    """Keys by which it differs from other groups, with its values."""
    numbers: Numbers
    """The column of each run at the steps that all runs cover: [runs, steps]."""

    @property
    def last(self) -> Numbers:
        """Number of each run at the last of these steps."""
        return self.numbers[:, -1]

    @property
    def deviation(self) -> float | None:
        """Standard deviation over runs at the last step; None of one run."""
        return float(self.last.std(ddof=1)) if len(self.last) > 1 else None

    @property
    def name(self) -> str:
        """Its differing keys, as they are written on the command line."""
        said = [printable(f"{key}={_written(value)}") for key, value in self.keys.items()]
        more = [f"and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
        return " ".join([*said[:_SHOWN], *more]) or "all runs"


def compare(words: Sequence[str], column: str, output: Path | None, json: bool) -> int:
    """Print the groups, that of the highest mean first; returns the exit status. Raises ValueError, in one line."""
    runs = [find(word) for word in words]
    steps, groups = _read(runs, column)
    if output:
        draw_bands(steps, [(group.name, group.numbers) for group in groups], column, output)
    ps = [permutation_p(groups[0].last, group.last) for group in groups[1:]]
    if json:
        print(json_format.dumps(_as_json(column, steps, groups, ps)))
        return 0
    _show(column, steps, groups, ps)
    if output:
        print(f"wrote {output}")
    return 0


def _read(runs: Sequence[Run], column: str) -> tuple[Numbers, list[Group]]:
    """Read the runs' curves and group them; raises RunError where runs cannot be compared."""
    folders = [run.path for run in runs]
    if again := next((run for run in runs if folders.count(run.path) > 1), None):
        raise RunError(f"{again.name} is given twice: name each run once")
    topologies = [run.topology() for run in runs]
    if unread := next((run for run, read in zip(runs, topologies, strict=True) if not read), None):
        raise RunError(f"{unread.name} has no topology.yaml that can be read: its keys are what runs are grouped by")
    curves = [read_curve(run, column).newest for run in runs]
    steps, numbers = resample(curves)
    alike = group_alike(topologies)
    differing = find_differences([topologies[indices[0]] for indices in alike])
    groups = [
        Group([runs[i].name for i in indices], [topologies[i].get("seed") for i in indices], keys, numbers[indices])
        for indices, keys in zip(alike, differing, strict=True)
    ]
    return steps, sorted(groups, key=lambda group: -float(group.last.mean()))


def _show(column: str, steps: Numbers, groups: Sequence[Group], ps: Sequence[float]) -> None:
    print(f"{column} at {as_whole(float(steps[-1]))} steps, the most that all runs have")
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("runs that have", "seeds", "mean", "deviation", "lowest", "highest", "all steps", "p"):
        text = heading in ("runs that have", "seeds")
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    for group, p in zip(groups, (None, *ps), strict=True):
        last = (group.last.mean(), group.deviation, group.last.min(), group.last.max(), group.numbers.mean())
        seeds = " ".join(str(seed) for seed in group.seeds)
        said = DASH if p is None else f"{p:.2f}" if p >= 0.01 else f"{p:.1g}"
        table.add_row(group.name, seeds, *map(as_number, last), said)
    Console(soft_wrap=not os.isatty(1), highlight=False, markup=False).print(table)
    print("all steps: mean over the whole curve; deviation, lowest and highest: over runs")
    if ps:
        runs = [len(group.runs) for group in groups[:2]]
        smallest = permutation_p(np.zeros(runs[0]), np.ones(runs[1]))
        print(
            "p: how probable means as far apart as this row's and the first's are if the keys make no difference,\n"
            f"by a permutation test; with {runs[0]} runs and {runs[1]} it cannot be less than {smallest:.2g}"
        )


def _as_json(column: str, steps: Numbers, groups: Sequence[Group], ps: Sequence[float]) -> dict[str, Any]:
    rows = [
        {
            "keys": group.keys,
            "runs": list(group.runs),
            "seeds": list(group.seeds),
            "last": group.last.tolist(),
            "mean": float(group.last.mean()),
            "deviation": group.deviation,
            "mean_of_all_steps": float(group.numbers.mean()),
            "p": p,
        }
        for group, p in zip(groups, (None, *ps), strict=True)
    ]
    return {"column": column, "env_steps": float(steps[-1]), "groups": rows}


def _written(value: Any) -> str:
    """Return a value as the command line takes it."""
    return value if isinstance(value, str) else json_format.dumps(value)
