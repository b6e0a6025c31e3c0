"""The comparison ``peers scores``: minutes until actorlearn and Stable-Baselines3 reach a score on the same task.

``scores.yaml`` has the rows. Each repetition of a row draws a seed from the clock. With it both programs run
one after the other, in alternating order. Both are timed from the start of their command, including all imports.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache, partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from actorlearn.envs.specs import GymnasiumSettings
from actorlearn.nearest import did_you_mean
from benchmarks.peers.compare import PeerProgram, answer, environment, packages
from benchmarks.request import BenchmarkRequest
from launch.bench import zoo
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport
from launch.bench.seed_table import Moment, draw
from launch.bench.time_to_score import run_to_score
from launch.errors import FailedError, RunError
from launch.topology.load import load

FILE = Path(__file__).with_name("scores.yaml")
OURS, THEIRS = "actorlearn", "Stable-Baselines3"
HEADINGS = ("row", "score", "program", "reached", "minutes: median", "range", "steps: median", "times as fast")
_LIMIT_S = 4 * 3_600.0
"""Longest time that Stable-Baselines3 may take for a row."""


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of ``scores.yaml``, whose head explains the fields."""

    score: float
    steps: int
    threads: int
    algorithm: str
    envs: int
    normalize: bool = False
    arguments: dict[str, int | float]
    linear: list[str] = []
    policy: dict[str, Any] = {}


@cache
def rows() -> dict[str, ScoreRow]:
    """Return the rows by name."""
    return msgspec.yaml.decode(FILE.read_bytes(), type=dict[str, ScoreRow])


def scores(request: BenchmarkRequest) -> SuiteReport:
    """Minutes until actorlearn and Stable-Baselines3 reach a score, with seeds drawn from the clock; ROW … or all."""
    names = request.names or tuple(rows())
    for name in names:
        if name not in rows():
            way_out = did_you_mean(name, rows(), f"its rows are {', '.join(rows())}")
            raise RunError(f"peers scores has no row {name!r}; {way_out}")
    python = environment("sb3")
    found: dict[str, dict[str, list[Moment | None]]] = {name: {OURS: [], THEIRS: []} for name in names}
    seeds = {name: draw(request.repetitions) for name in names}
    with progress_bar() as progress:
        task = progress.add_task("", total=2 * request.repetitions * len(names))
        for repetition in range(request.repetitions):
            for name in names:
                seed = seeds[name][repetition]
                programs = [(OURS, partial(ours, name, seed)), (THEIRS, partial(theirs, name, seed, python))]
                for program, train in programs if repetition % 2 == 0 else reversed(programs):
                    progress.update(task, description=f"{name}, seed {seed}: {program}")
                    moment = train()
                    found[name][program].append(moment)
                    told = f"{moment.minutes:.2f} minutes, {moment.steps:,} steps" if moment else "never"
                    print(f"{name}, seed {seed}, {program}: {told}", file=sys.stderr)
                    progress.advance(task)
    return report(found, seeds, packages(python))


def ours(name: str, seed: int) -> Moment | None:
    """Train actorlearn on a row until its score; return that moment, or None if the run ended without the score."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-scores-") as folder:
        topology, keys = _topology(name, Path(folder))
        record = run_to_score(topology, keys, seed, rows()[name].score, Path(folder) / "run")
    if record.error:
        raise FailedError(f"{name}, seed {seed}: {record.error}")
    return record.reached


def theirs(name: str, seed: int, python: Path) -> Moment | None:
    """Train Stable-Baselines3 on a row until its score; return as `ours`. ``python``: that of its environment."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-scores-") as folder:
        env = load(*_topology(name, Path(folder))).env
    assert isinstance(env, GymnasiumSettings)
    work = {**msgspec.to_builtins(rows()[name]), "env": env.id, "kwargs": env.kwargs, "seed": seed}
    began = time.time()
    told = answer(python, PeerProgram("sb3", "sb3_score.py", (json.dumps(work),), OURS), _LIMIT_S)
    if told["reached_at"] is None:
        return None
    return Moment(minutes=(told["reached_at"] - began) / 60, steps=told["steps"], score=told["score"])


def report(
    found: dict[str, dict[str, list[Moment | None]]], seeds: dict[str, list[int]], versions: Sequence[str]
) -> SuiteReport:
    """Return the table of the moments at which each row's seeds reached the score; None: a seed did not."""
    table, bars = [], {}
    for name, programs in found.items():
        middle = {
            program: median(moment.minutes if moment else inf for moment in moments)
            for program, moments in programs.items()
        }
        for program, moments in programs.items():
            reached = [moment for moment in moments if moment]
            minutes = [moment.minutes for moment in reached]
            if minutes:
                bars[f"{name}: {program}"] = Spread(tuple(minutes))
            both = program == OURS and max(middle.values()) < inf
            table.append(
                (
                    name,
                    f"{rows()[name].score:g}",
                    program,
                    f"{len(reached)} of {len(moments)}",
                    f"{middle[program]:.2f}" if middle[program] < inf else "never",
                    f"{min(minutes):.2f} to {max(minutes):.2f}" if minutes else "-",
                    f"{median(moment.steps for moment in reached):,.0f}" if reached else "-",
                    f"{middle[THEIRS] / middle[OURS]:.2f}" if both else "-",
                )
            )
    notes = [
        "minutes: since the start of the command; score: mean of the last 100 training games; range: of the seeds that "
        "reached it; the median counts a seed that did not as the longest",
        *(f"{name}: seeds drawn from the clock {', '.join(map(str, drawn))}" for name, drawn in seeds.items()),
    ]
    figures = {"moments": msgspec.to_builtins(found), "seeds": seeds, "peers": {"sb3": list(versions)}}
    return SuiteReport("peers-scores", HEADINGS, table, bars, "minutes", notes, figures)


def _topology(name: str, folder: Path) -> tuple[str, list[str]]:
    """Write the topology of a row into a folder; return its path and the overrides."""
    path = folder / "topology.yaml"
    path.write_bytes(zoo.rows()[name].source)
    return str(path), [*zoo.rows()[name].overrides, f"total_steps={rows()[name].steps}"]
