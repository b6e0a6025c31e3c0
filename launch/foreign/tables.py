"""Reads CSV files as logs: those of Stable-Baselines3 (Monitor and ``progress.csv``), and tables of several runs.

A table of several runs, as openrlbenchmark and W&B export it, has a row for each report. Its columns are the steps
(``global_step``), the seconds (``_runtime``), numbers (such as ``charts/episodic_return``), and the names of the run
(``env_id``, ``exp_name``, ``seed``).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from launch.foreign.log import MOST_SEED, SB3, Log, Point, refusal, sb3_algorithm

SB3_STEPS = "time/total_timesteps"
"""Column of steps of Stable-Baselines3; no other program is known to have it."""
STEPS = ("global_step", SB3_STEPS, "total_timesteps", "env_steps", "timesteps", "Step", "step", "_step")
TIMES = ("time/time_elapsed", "_runtime", "time_elapsed", "relative_time", "time_s")
ENVIRONMENTS = ("env_id", "env")
ALGORITHMS = ("exp_name", "algorithm", "algo")
SEEDS = ("seed",)
RUNS = ("run", "run_id", "run_name", "name", "id")
"""Names that the column of a run's identity may have. As in the lists above, the first one that is present is used."""


def read_table(path: Path) -> list[Log]:
    """Return a log for each run in a CSV file; raises RunError if it has no valid column of steps, and OSError."""
    try:
        return _read_table(path)
    except (csv.Error, UnicodeDecodeError) as error:
        raise refusal(path, f"not a table: {error}; a table is CSV in UTF-8") from None


def _read_table(path: Path) -> list[Log]:
    runs: dict[tuple[str, ...], dict[str, list[Point]]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        columns = list(dict.fromkeys(reader.fieldnames or []))
        steps_in = _first(STEPS, columns)
        if steps_in is None:
            there = ", ".join(columns) or "none"
            rule = f"no column of steps; one of {', '.join(STEPS)} is needed, but the columns are {there}"
            raise refusal(path, rule)
        time_in = _first(TIMES, columns)
        whose_in = [_first(names, columns) for names in (ENVIRONMENTS, ALGORITHMS, SEEDS, RUNS)]
        read = [name for name in columns if name not in (steps_in, time_in, *whose_in)]
        for number, row in enumerate(reader, start=2):
            steps = _number(row[steps_in])
            if steps is None:
                said = f"{steps_in} is {row[steps_in]!r:.60}"
                raise refusal(path, f"row {number}: {said}; it must be a number of steps")
            points = runs.setdefault(tuple(row[name] or "" if name else "" for name in whose_in), {})
            time_s = _number(row[time_in]) if time_in else None
            for name in read:
                if (value := _number(row[name])) is not None:
                    points.setdefault(name, []).append((steps, time_s, value))
    found = [_log(path, whose, points, alone=len(runs) == 1) for whose, points in runs.items()]
    if steps_in != SB3_STEPS:
        return found
    return [replace(log, program=SB3, algorithm=log.algorithm or sb3_algorithm(path.parent)) for log in found]


def read_monitors(paths: Iterable[Path]) -> Log:
    """Return the log of a run from its Monitor files, one of each environment.

    Environment steps are the steps of all games that have ended so far, as in the plots of Stable-Baselines3. Raises
    RunError for a file of another kind, and OSError.
    """
    found = sorted(paths)
    games: list[tuple[float, float, float]] = []  # end time, score and steps of each
    starts: list[float] = []
    env_id = None
    for path in found:
        try:
            began_s, env, rows = _read_monitor(path)
        except (csv.Error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            rule = f"not a file of Monitor: {error!r:.200}; the first line must be JSON, and the second r,l,t"
            raise refusal(path, rule) from None
        env_id = env or env_id
        starts.append(began_s)
        games += rows
    points: list[Point] = []
    steps = 0.0
    for ended_s, score, length in sorted(games):
        steps += length
        points.append((steps, ended_s - min(starts), score))
    folder = found[0].parent
    return Log(folder, {"episodic_return": points}, env_id, program=SB3, algorithm=sb3_algorithm(folder))


def _read_monitor(path: Path) -> tuple[float, str | None, list[tuple[float, float, float]]]:
    """Return start time, environment id, and (end time, score, steps) of each game; times in seconds."""
    with path.open(encoding="utf-8", newline="") as file:
        head = json.loads(file.readline().removeprefix("#"))
        began_s, env_id = float(head["t_start"]), head.get("env_id")
        rows = [(began_s + float(row["t"]), float(row["r"]), float(row["l"])) for row in csv.DictReader(file)]
    if not all(map(math.isfinite, (began_s, *chain.from_iterable(rows)))):
        raise ValueError("a number that is not finite")
    if not (env_id is None or isinstance(env_id, str)):
        raise ValueError("env_id is not text")
    if any(length < 0 for *_, length in rows):
        raise ValueError("l is negative")
    return began_s, env_id, rows


def _first(names: Sequence[str], columns: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _number(cell: str | None) -> float | None:
    try:
        number = float(cell) if cell else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _log(path: Path, whose: tuple[str, ...], points: dict[str, list[Point]], alone: bool) -> Log:
    env_id, algorithm, seed, run = whose
    name = "" if alone else "-".join(filter(None, (algorithm, env_id, seed, run)))
    return Log(path, points, env_id or None, algorithm=algorithm or None, seed=_seed(seed), name=name)


def _seed(cell: str) -> int | None:
    """Return the seed in a cell, also one written as 1.0 (by pandas); None if it is not valid."""
    number = _number(cell)
    return int(number) if number is not None and number.is_integer() and 0 <= number <= MOST_SEED else None
