"""The table of runs of one topology with several seeds, in the file ``seeds.json``. Starts no run.

Seeds are drawn from the clock, so that they are not chosen by their results, and recorded before the first run. The
file has the question that is measured, the seeds, and a record for each run that has ended. An interrupted command
continues with the first seed that has no record.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from actorlearn.files import write_atomically
from launch.errors import RunError

FILE = "seeds.json"
GAMES = 100
"""Number of whole training games in the mean score."""
MOST_SEEDS = 1_000
LARGEST_SEED = 2**31 - 1
HEADINGS = ("seed", "at the score", "steps", "best", "end", "steps at the end", "evaluation", "steps/s", "precision")


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a run at one time."""

    minutes: float
    """Minutes since the command was given, including the start of the processes."""
    steps: int
    score: float | None
    """Mean score of the last 100 training games."""


class SeedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the run with one seed."""

    seed: int
    reached: Moment | None = None
    """The first report with the score; None if the run ended without it."""
    end: Moment | None = None
    """The last report; None if there was none."""
    best: float | None = None
    """Highest mean score of 100 games in any report."""
    steps_per_s: float | None = None
    """Environment steps per second over the run."""
    evaluation: Mapping[str, Any] | None = None
    """The last evaluation in summary.json: mean, std, episodes, env_steps."""
    cause: str = ""
    """Why the run ended, from summary.json."""
    error: str = ""
    """Why the run failed; empty if it did not."""
    precision: str = ""
    where: str = ""
    """Machine and commit."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a table measures. A command with another question does not continue it."""

    topology: str
    """Name of the topology's file."""
    content: str = ""
    """Digest of the values in this file; empty in tables of earlier versions."""
    overrides: list[str]
    score: float
    whole: bool
    """Whether runs continue to their end after the score."""

    def __str__(self) -> str:
        """Return the question as arguments of a command."""
        options = f"--score {self.score:g}{' --whole' if self.whole else ''}"
        return " ".join((self.topology, *self.overrides, options))


class SeedTable(msgspec.Struct, kw_only=True):
    """A question, its seeds, and the results so far."""

    question: Question
    seeds: list[int]
    drawn_at: str = ""
    """When the seeds were drawn from the clock; empty if they were given."""
    runs: list[SeedRun] = []

    @property
    def missing(self) -> list[int]:
        """The seeds without results, in order."""
        done = {run.seed for run in self.runs}
        return [seed for seed in self.seeds if seed not in done]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: a row for each run, with the columns ``HEADINGS``."""
        return [_row(run) for run in self.runs]

    def notes(self) -> list[str]:
        """Return the lines below the table, such as the median run; runs that did not reach the score are the worst."""
        reached = sum(run.reached is not None for run in self.runs)
        lines = [str(self.question), f"{reached} of {len(self.runs)} runs reached {self.question.score:g}"]
        if self.runs:
            minutes = [run.reached.minutes if run.reached else inf for run in self.runs]
            steps = [run.reached.steps if run.reached else inf for run in self.runs]
            for name, of in (("median", median), ("worst", max)):
                lines.append(f"{name}: {_or_never(of(minutes), '.2f')} minutes, {_or_never(of(steps), ',.0f')} steps")
        lines += [f"seed {run.seed} failed: {run.error}" for run in self.runs if run.error]
        if self.missing:
            lines.append(f"seeds to run: {', '.join(map(str, self.missing))}")
        lines.append(f"seeds drawn from the clock at {self.drawn_at}" if self.drawn_at else "seeds given")
        lines.append("minutes: since the start of the command; score: mean of the last 100 training games")
        return lines + sorted({run.where for run in self.runs if run.where})


def open_table(folder: Path, question: Question, wanted: str) -> SeedTable:
    """Read the table in a folder, or start one there; raises RunError if it has another question or other seeds.

    ``wanted``: a number of seeds to draw, or the seeds themselves separated by commas.
    """
    given = read_seeds(wanted)
    path = folder / FILE
    if not path.exists():
        seeds = draw(given) if isinstance(given, int) else given
        drawn_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()) if isinstance(given, int) else ""
        table = SeedTable(question=question, seeds=seeds, drawn_at=drawn_at)
        write(table, folder)
        return table
    try:
        table = msgspec.json.decode(path.read_bytes(), type=SeedTable)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: {error}; remove it, or name another folder with -o") from None
    if msgspec.structs.replace(table.question, content=question.content) == question != table.question:
        raise RunError(
            f"{path}: {question.topology} has other values than when the table was begun, or an earlier "
            "version of actorlearn began the table and did not record the values; name another folder "
            "with -o"
        )
    if table.question != question:
        raise RunError(f"{path} belongs to another command: {table.question}; name another folder with -o")
    if given not in (len(table.seeds), table.seeds):
        raise RunError(
            f"{path} has the seeds {', '.join(map(str, table.seeds))}, but --seeds is {wanted}; write "
            f"--seeds {len(table.seeds)} to continue with them, or name another folder with -o"
        )
    return table


def write(table: SeedTable, folder: Path) -> None:
    """Write the table into its folder; raises RunError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, msgspec.json.format(msgspec.json.encode(table), indent=1))
    except OSError as error:
        raise RunError(f"-o {folder}: {error}; name another folder") from None


def read_seeds(wanted: str) -> int | list[int]:
    """Return the number of seeds to draw, or the seeds, that the text after --seeds gives; raises RunError."""
    try:
        numbers = [int(word.replace("_", "")) for word in wanted.split(",") if word.strip()]
    except ValueError:
        numbers = []
    if "," in wanted and numbers and len(set(numbers)) == len(numbers) and all(0 <= n <= LARGEST_SEED for n in numbers):
        return numbers
    if "," not in wanted and numbers and 1 <= numbers[0] <= MOST_SEEDS:
        return numbers[0]
    raise RunError(
        f"--seeds {wanted}: must be the number of seeds to draw, from 1 to {MOST_SEEDS}, or different seeds from 0 to "
        f"{LARGEST_SEED} separated by commas (a single seed: '7,')"
    )


def draw(count: int) -> list[int]:
    """Return ``count`` different seeds, drawn from the clock."""
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        digest = hashlib.sha256(f"{time.time_ns()} {len(seeds)}".encode()).digest()
        seeds[int.from_bytes(digest[:4], "big") & LARGEST_SEED] = None
    return list(seeds)


def record(seed: int, rows: Sequence[Mapping[str, Any]], first: Moment | None, minutes: float, **more: Any) -> SeedRun:
    """Return the results of a run that has ended.

    ``rows``: its reports. ``first``: when it reached the score. ``minutes``: from the command to the end of the run.
    ``more``: further fields of the results.
    """
    scores = [row["episode_return_mean"] for row in rows if row["episodes"] >= GAMES]
    if not rows:
        return SeedRun(seed=seed, **more)
    last, span_s = rows[-1], rows[-1]["time_s"] - rows[0]["time_s"]
    end = Moment(minutes=minutes, steps=last["env_steps"], score=last.get("episode_return_mean"))
    rate = (last["env_steps"] - rows[0]["env_steps"]) / span_s if span_s > 0 else None
    return SeedRun(seed=seed, reached=first, end=end, best=max(scores, default=None), steps_per_s=rate, **more)


def _row(run: SeedRun) -> tuple[str, ...]:
    reached = (f"{run.reached.minutes:.2f} min", f"{run.reached.steps:,}") if run.reached else ("-", "-")
    end = (f"{run.end.minutes:.2f} min", f"{run.end.steps:,}") if run.end else ("failed" if run.error else "-", "-")
    best = f"{run.best:.2f}" if run.best is not None else "-"
    played = run.evaluation
    evaluation = f"{played['mean']:.2f} ± {played['std']:.2f} ({played['episodes']} games)" if played else "-"
    rate = f"{run.steps_per_s:,.0f}" if run.steps_per_s is not None else "-"
    return (str(run.seed), *reached, best, *end, evaluation, rate, run.precision)


def _or_never(number: float, form: str) -> str:
    return "never" if number == inf else format(number, form)
