"""The suite ``time-to-score``: how many minutes and steps a topology needs until its mean score reaches a given value.

Runs with several seeds are trained one after another, and their results are recorded (``seed_table.py``), so that the
same command continues an interrupted one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from launch.bench import SuiteRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport, machine_line, show
from launch.bench.running import Running
from launch.bench.seed_table import (
    GAMES,
    HEADINGS,
    Moment,
    Question,
    SeedRun,
    SeedTable,
    open_table,
    record,
    write,
)
from launch.errors import FailedError, RunError
from launch.runs.find import RUNS
from launch.runs.jsonl import read_object

DEFAULT_SEEDS = "5"
_TURN_S = 1.0


def time_to_score(request: SuiteRequest) -> SuiteReport:
    """Measure how many minutes and steps training takes until the mean score reaches --score, for several --seeds."""
    if request.score is None:
        raise RunError(
            "time-to-score: needs --score, the mean raw score of the last 100 games to reach, e.g. --score 18"
        )
    question = Question(
        topology=request.file,
        content=request.content,
        overrides=list(request.overrides),
        score=request.score,
        whole=request.whole,
    )
    folder = request.output or _folder(question)
    table = open_table(folder, question, request.seeds_wanted or DEFAULT_SEEDS)
    for seed in table.missing:
        own = folder / str(seed)
        table.runs.append(run_to_score(request.topology, request.overrides, seed, question.score, own, question.whole))
        write(table, folder)
        if table.missing:
            show(_report(table))
    return _report(table)


def _folder(question: Question) -> Path:
    """Return the default folder of a table, the same for the same question."""
    words = " ".join((question.content, *question.overrides, str(question.whole)))
    name = f"{Path(question.topology).stem}-{question.score:g}"
    return RUNS / "time-to-score" / f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:6]}"


def _report(table: SeedTable) -> SuiteReport:
    minutes = tuple(run.reached.minutes for run in table.runs if run.reached)
    return SuiteReport(
        suite="time-to-score",
        headings=HEADINGS,
        rows=table.rows(),
        bars={f"{table.question.topology} to {table.question.score:g}": Spread(minutes)} if minutes else {},
        unit="minutes",
        notes=table.notes(),
        figures={"table": msgspec.to_builtins(table)},
    )


def run_to_score(
    topology: str, overrides: Sequence[str], seed: int, score: float, folder: Path, whole: bool = False
) -> SeedRun:
    """Run a topology until the mean score of its last 100 games has reached ``score``; return the results.

    ``folder``: the folder of the run, whose earlier content is removed. ``whole``: whether to continue the run to its
    end after it has reached the score.
    """
    shutil.rmtree(folder, ignore_errors=True)
    began_s = time.monotonic()
    where, first, rows, error = machine_line(), None, [], ""
    try:
        with Running(topology, (*overrides, f"seed={seed}"), None, run_dir=folder) as run:
            rows = run.seen
            while True:
                ended = run.ended
                run.new_reports()  # adds the new reports to rows
                minutes = (time.monotonic() - began_s) / 60
                if first is None and (row := with_score(rows, score)):
                    first = Moment(minutes=minutes, steps=row["env_steps"], score=row["episode_return_mean"])
                if ended or (first and not whole):
                    break
                time.sleep(_TURN_S)
    except FailedError as failed:
        error, minutes = str(failed), (time.monotonic() - began_s) / 60
    summary = read_object(folder / "summary.json")
    return record(
        seed,
        rows,
        first,
        minutes,
        evaluation=(summary.get("evaluations") or {}).get("last"),
        cause=str(summary.get("cause") or ""),
        error=str(summary.get("error") or error),
        precision=_precision(folder),
        where=where,
    )


def _precision(folder: Path) -> str:
    found = {json.loads(path.read_text())["precision"] for path in (folder / "settings").glob("trainer*.json")}
    return " and ".join(sorted(found))


def with_score(rows: list[dict[str, Any]], score: float) -> dict[str, Any] | None:
    """Return the first report whose mean score, of at least ``GAMES`` games, is at least ``score``; else None."""
    for row in rows:
        mean = row["episode_return_mean"]
        if row["episodes"] >= GAMES and mean is not None and mean >= score:
            return dict(row)
    return None
