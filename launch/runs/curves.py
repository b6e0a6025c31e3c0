"""Learning curves of runs, read from their reports, and runs of several seeds as one group.

Reads the reports and the topology of each run, finished or still running, imported ones too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorlearn.metrics.writer import METRICS_FILE
from launch.errors import RunError
from launch.reports.checks import is_number
from launch.reports.compare import find_differences, group_alike, said
from launch.runs.find import Run
from launch.runs.view import identify

SCORE = "episode_return_mean"


@dataclass(frozen=True, slots=True)
class Curve:
    """One run: points of its learning curve, cut into stretches where a restore took it back."""

    label: str
    game: str
    frames_per_step: float | None
    steps_per_s: float | None
    stretches: list[list[tuple[float, float, float]]]
    """Per stretch, points of (environment steps, minutes, number of that column); NaN minutes where none are known."""
    column: str = SCORE

    @property
    def final(self) -> float:
        """The number of the last point."""
        return self.stretches[-1][-1][2]

    @property
    def newest(self) -> list[tuple[float, float]]:
        """Points of (environment steps, number) without those that a restore took back: steps grow."""
        points: list[tuple[float, float]] = []
        for stretch in self.stretches:
            points = [point for point in points if point[0] < stretch[0][0]]
            for steps, _, number in stretch:
                if not points or steps > points[-1][0]:
                    points.append((steps, number))
        return points

    @property
    def over_time(self) -> list[tuple[float, float]]:
        """Points of (minutes, number), also those that a restore took back: time goes on; none where none is known."""
        return [(minutes, number) for its in self.stretches for _, minutes, number in its if not math.isnan(minutes)]


@dataclass(frozen=True)
class Group:
    """Runs that differ in name and seed alone, with their curves of one column."""

    runs: Sequence[Run]
    seeds: Sequence[Any]
    keys: Mapping[str, Any]
    """Keys by which it differs from other groups, with its values."""
    curves: Sequence[Curve]

    @property
    def name(self) -> str:
        """Its differing keys, as they are written on the command line."""
        return said(self.keys)

    @property
    def apart(self) -> list[Group]:
        """Each run as a group."""
        members = zip(self.runs, self.seeds, self.curves, strict=True)
        return [Group([run], [seed], self.keys, [curve]) for run, seed, curve in members]


def group_runs(runs: Sequence[Run], column: str = SCORE) -> list[Group]:
    """Read the runs' curves and group them; raises RunError for a run given twice, ValueError for one without a curve.

    A run whose topology cannot be read is a group of its own.
    """
    folders = [run.path for run in runs]
    if again := next((run for run in runs if folders.count(run.path) > 1), None):
        raise RunError(f"{again.name} is given twice: name each run once")
    topologies = [run.topology() for run in runs]
    read = [number for number, topology in enumerate(topologies) if topology]
    alike = [[read[index] for index in indices] for indices in group_alike([topologies[number] for number in read])]
    differing = find_differences([topologies[indices[0]] for indices in alike])
    alone: list[tuple[list[int], dict[str, Any]]] = [
        ([number], {}) for number, topology in enumerate(topologies) if not topology
    ]
    return [
        Group(
            [runs[number] for number in indices],
            [topologies[number].get("seed") for number in indices],
            keys,
            [read_curve(runs[number], column) for number in indices],
        )
        for indices, keys in sorted([*zip(alike, differing, strict=True), *alone], key=lambda group: group[0])
    ]


def read_curve(run: Run, column: str = SCORE) -> Curve:
    """Read a curve of one run folder; raises ValueError when it has none."""
    rows = _read_rows(run)
    stretches = _stretches(rows, column)
    if not stretches and column != SCORE:
        there = ", ".join(sorted({name for row in rows for name in row if _value(row, name) is not None}))
        raise ValueError(f"{run.path}: no numbers in a column {column!r}; there are {there}")
    if not stretches:
        raise ValueError(f"{run.path}: no whole game finished in {len(rows)} reports; let the run go on and plot again")
    view = identify(run)
    name, last = view.topology.get("name"), rows[-1]
    steps, frames = _value(last, "env_steps"), _value(last, "frames")
    return Curve(
        label=name if name and isinstance(name, str) else run.name,
        game=view.env_id,
        frames_per_step=frames / steps if steps and frames else None,
        steps_per_s=_steps_per_s(rows),
        stretches=stretches,
        column=column,
    )


def _read_rows(run: Run) -> list[dict[str, Any]]:
    """The reports of a run, those that can be read; raises ValueError when there are none."""
    path = run.path / METRICS_FILE
    if not path.is_file():
        raise ValueError(f"{run.path}: no {path.name} there; give the folder of a run, as `actorlearn ps` shows it")
    rows = list(run.metrics().new())
    if not rows:
        raise ValueError(f"{path}: no report in it, so there is nothing to plot; let the run go on")
    return rows


def _value(row: dict[str, Any], name: str) -> float | None:
    """The number of that name; None for null, text or nothing."""
    value = row.get(name)
    return float(value) if is_number(value) and not isinstance(value, bool) else None


def _stretches(rows: list[dict[str, Any]], column: str) -> list[list[tuple[float, float, float]]]:
    """Points with a number; a new stretch starts where steps fall back. Time never does: it is the whole run's."""
    stretches: list[list[tuple[float, float, float]]] = []
    steps_before, restored = -1.0, True
    for row in rows:
        steps, clock_s, number = (_value(row, name) for name in ("env_steps", "time_s", column))
        if steps is None:
            continue
        restored |= steps < steps_before
        steps_before = steps
        if number is None:
            continue
        if restored:
            stretches.append([])
            restored = False
        stretches[-1].append((steps, math.nan if clock_s is None else clock_s / 60.0, number))
    return stretches


def _steps_per_s(rows: list[dict[str, Any]]) -> float | None:
    """The median over reports, which a slow start or a pause does not move."""
    speeds = sorted(speed for row in rows if (speed := _value(row, "env_steps_per_s")) is not None)
    return speeds[len(speeds) // 2] if speeds else None
