"""Learning curves of runs, grouped by topology: runs that differ only in name and seed form a group.

Reads ``metrics.jsonl`` and the topology of each run. A run may be alive, ended, or imported from another program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high
from typing import Any

from actorlearn.files import is_regular
from actorlearn.metrics.writer import METRICS_FILE
from actorlearn.nearest import ROUGHLY, nearest_few
from launch.errors import RunError
from launch.reports.checks import number
from launch.reports.compare import find_differences, group_alike, group_name
from launch.runs.find import RunFolder, short
from launch.runs.view import identify

SCORE = "episode_return_mean"
"""Column of the score: the mean raw return of the last games."""


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """One metric of a run (a column of metrics.jsonl), over environment steps and over time.

    When a trainer is restored from a checkpoint, the number of steps decreases, and a new stretch of the curve begins.
    """

    label: str
    game: str
    frames_per_step: float | None
    steps_per_s: float | None
    stretches: list[list[tuple[float, float, float]]]
    """Points of each stretch: (environment steps, minutes, value of the column); minutes are NaN if unknown."""
    column: str = SCORE
    restores: Mapping[int, float] = field(default_factory=dict)
    """Number of stretches before a restore -> steps of the first report after it; of several restores, the least."""

    @property
    def points(self) -> list[tuple[float, float, float]]:
        """All points, in the order of the reports, including those that a restore has undone."""
        return [point for stretch in self.stretches for point in stretch]

    @property
    def final(self) -> float:
        """The newest value of the metric that no restore has undone."""
        return self.newest[-1][1]

    @property
    def newest(self) -> list[tuple[float, float]]:
        """Points (environment steps, value) in the order of steps, without those that a restore has undone.

        Of several points at the same steps, only the newest is there.
        """
        points: list[tuple[float, float]] = []
        for place, stretch in enumerate([*self.stretches, []]):
            begin = self.restores.get(place, stretch[0][0] if stretch else math.inf)
            points = [point for point in points if point[0] <= begin]
            for steps, _, value in stretch:
                if points and points[-1][0] == steps:
                    del points[-1]
                points.append((steps, value))
        return points

    @property
    def over_time(self) -> list[tuple[float, float]]:
        """Points (minutes, value) whose time is known, including those that a restore has undone."""
        return [(minutes, value) for _, minutes, value in self.points if not math.isnan(minutes)]


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in name and seed, with their curves of one metric."""

    runs: Sequence[RunFolder]
    seeds: Sequence[Any]
    keys: Mapping[str, Any]
    """Keys in which the topologies of the compared groups differ -> their values in this group."""
    curves: Sequence[LearningCurve]

    @property
    def name(self) -> str:
        """The first few of ``keys``, for example ``algorithm.name=ppo algorithm.horizon=5``."""
        return group_name(self.keys)

    @property
    def apart(self) -> list[RunGroup]:
        """Each run as a group of its own."""
        members = zip(self.runs, self.seeds, self.curves, strict=True)
        return [RunGroup([run], [seed], self.keys, [curve]) for run, seed, curve in members]

    def each_seed_once(self) -> tuple[RunGroup, list[str]]:
        """Keep one run of each seed, the one with the most steps; return the group, and a reason for each other run.

        Runs with the same keys and the same seed learn the same weights, as a rule, so they are no independent
        evidence. All runs without a seed are kept.
        """
        kept: dict[str, int] = {}
        reasons = []
        for place in sorted(range(len(self.runs)), key=lambda place: -self.curves[place].newest[-1][0]):
            seed = self.seeds[place]
            first = kept.setdefault(f"run {place}" if seed is None else repr(seed), place)
            if first != place:
                run, other = (short(self.runs[its].path) for its in (place, first))
                reasons.append(
                    f"{run}: has the keys and the seed {seed!r:.50} of {other}, so it is not independent; train it "
                    "with another seed"
                )
        places = sorted(kept.values())
        runs, seeds = [self.runs[place] for place in places], [self.seeds[place] for place in places]
        return RunGroup(runs, seeds, self.keys, [self.curves[place] for place in places]), reasons


def names_of(groups: Sequence[RunGroup]) -> list[str]:
    """Return a different name for each group, made of the first few keys in which it differs from others.

    If that does not tell two groups apart, the name of the group's first run follows in brackets.
    """
    names = [group.name for group in groups]
    for name in {name for name in names if names.count(name) > 1}:
        alike = [index for index, own in enumerate(names) if own == name]
        for index in alike:
            keys = groups[index].keys
            apart = {key: keys[key] for key in keys if any(groups[other].keys[key] != keys[key] for other in alike)}
            names[index] = group_name(apart)
    return [
        f"{name} ({group.runs[0].name})" if names.count(name) > 1 else name
        for name, group in zip(names, groups, strict=True)
    ]


def leave_out_empty(runs: Sequence[RunFolder], column: str = SCORE) -> tuple[list[RunFolder], list[str]]:
    """Return the runs that have a curve of the metric, and a reason for each of the others.

    Raises ValueError, with the first reason, if no run has one.
    """
    there, reasons = [], []
    for run in runs:
        try:
            read_curve(run, column)
            there.append(run)
        except ValueError as error:
            reasons.append(str(error))
    if runs and not there:
        raise ValueError(reasons[0])
    return there, reasons


def group_runs(runs: Sequence[RunFolder], column: str = SCORE) -> list[RunGroup]:
    """Read a curve of each run, and group the runs that differ only in name and seed.

    A run whose topology cannot be read is a group of its own. Raises RunError if a run is given twice, and ValueError
    if a run has no curve.
    """
    folders = [run.path for run in runs]
    if again := next((run for run in runs if folders.count(run.path) > 1), None):
        raise RunError(f"{again.name} is given twice: name each run once")
    topologies = [run.topology() for run in runs]
    read = [place for place, topology in enumerate(topologies) if topology]
    alike = [[read[index] for index in indices] for indices in group_alike([topologies[place] for place in read])]
    differing = find_differences([topologies[indices[0]] for indices in alike])
    alone: list[tuple[list[int], dict[str, Any]]] = [
        ([place], {}) for place, topology in enumerate(topologies) if not topology
    ]
    return [
        RunGroup(
            [runs[place] for place in indices],
            [topologies[place].get("seed") for place in indices],
            keys,
            [read_curve(runs[place], column) for place in indices],
        )
        for indices, keys in sorted([*zip(alike, differing, strict=True), *alone], key=lambda group: group[0])
    ]


def read_curve(run: RunFolder, column: str = SCORE) -> LearningCurve:
    """Return the curve of a metric of a run; raises ValueError if metrics.jsonl has no number in this column."""
    rows = _read_rows(run)
    stretches, restores = _stretches(rows, column)
    if not stretches and column != SCORE:
        there = sorted({name for row in rows for name in row if number(row, name) is not None})
        close = " or ".join(nearest_few(column, there, 3, ROUGHLY))
        way_out = (
            f"did you mean {close}?" if close else f"name one that its {METRICS_FILE} has, such as env_steps_per_s"
        )
        raise ValueError(f"{short(run.path)}: no report has a number in column {column!r}; {way_out}")
    if not stretches:
        raise ValueError(f"{short(run.path)}: no game has finished in {len(rows)} reports; try again later in the run")
    view = identify(run)
    name, last = view.topology.get("name"), rows[-1]
    steps, frames = number(last, "env_steps"), number(last, "frames")
    curve = LearningCurve(
        label=name if name and isinstance(name, str) else run.name,
        game=view.env_id,
        frames_per_step=frames / steps if steps and frames else None,
        steps_per_s=_steps_per_s(rows),
        stretches=stretches,
        column=column,
        restores=restores,
    )
    if not curve.newest:
        what = "score" if column == SCORE else f"number in column {column!r}"
        raise ValueError(
            f"{short(run.path)}: no report since the run was restored has a {what}; try again later in the run"
        )
    return curve


def _read_rows(run: RunFolder) -> list[dict[str, Any]]:
    path = run.path / METRICS_FILE
    if not is_regular(path):
        raise ValueError(
            f"{short(run.path)}: there is no {path.name}; name the folder of a run, as `actorlearn ps` lists it"
        )
    rows = list(run.metrics().new())
    if not rows:
        raise ValueError(f"{short(path)}: the file has no reports yet; try again later in the run")
    return rows


def _stretches(
    rows: list[dict[str, Any]], column: str
) -> tuple[list[list[tuple[float, float, float]]], dict[int, float]]:
    """Return points (steps, minutes, value), without those that have no value, in stretches of increasing steps.

    Also return the restores between them, as in `LearningCurve`; rows without a value show restores too.
    """
    stretches: list[list[tuple[float, float, float]]] = []
    restores: dict[int, float] = {}
    steps_before = -1.0
    for row in rows:
        steps, clock_s, value = (number(row, name) for name in ("env_steps", "time_s", column))
        if steps is None:
            continue
        if steps < steps_before:
            restores[len(stretches)] = min(steps, restores.get(len(stretches), steps))
        steps_before = steps
        if value is None:
            continue
        if not stretches or len(stretches) in restores:
            stretches.append([])
        stretches[-1].append((steps, math.nan if clock_s is None else clock_s / 60.0, value))
    return stretches, restores


def _steps_per_s(rows: list[dict[str, Any]]) -> float | None:
    """Return the median of the reported rates; unlike the mean, it hardly depends on a slow start or a pause."""
    speeds = [speed for row in rows if (speed := number(row, "env_steps_per_s")) is not None]
    return median_high(speeds) if speeds else None
