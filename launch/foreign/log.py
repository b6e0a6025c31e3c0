"""The log of a run of another program, and its conversion to rows (lines) of ``metrics.jsonl``.

The score in such rows is the mean of the last games. Stable-Baselines3 logs such a mean too. CleanRL and the files of
Stable-Baselines3's Monitor have the scores of single games, whose mean is computed here.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from actorlearn.metrics.episodes import RECENT_GAMES
from launch.errors import RunError
from launch.reports.format import printable
from launch.runs.curves import SCORE

Point = tuple[float, float | None, float]
"""A logged number: environment steps, seconds since the start of the run (None: unknown), and the number."""
SINGLE_GAMES = ("charts/episodic_return", "episodic_return", "episode_return")
"""Names of scores of single games, first those of CleanRL and Monitor."""
MEANS = ("rollout/ep_rew_mean", "ep_rew_mean", "eprewmean", SCORE)
"""Names of scores that are means of the last games, as in Stable-Baselines3 and baselines."""
SPEEDS = ("charts/SPS", "time/fps", "fps")
"""Names of environment steps per second."""
MOST_STEPS = 2**53
"""Most environment steps: larger whole numbers are not exact as floating-point numbers."""
MOST_SEED = 2**53
"""Largest seed, for the same reason."""
MOST_SCORE = 1e100
"""Largest absolute value of a score, so that means and squares of scores are finite."""
MOST_BYTES = 200
"""Most bytes of the name of an environment, an algorithm or a run; they become names of folders and values of keys."""
SB3, CLEANRL = "sb3", "cleanrl"
"""Short names of the programs Stable-Baselines3 and CleanRL."""
_SB3_FOLDER = re.compile(r"(?P<algorithm>[A-Z][A-Za-z0-9]*)_\d+")
"""Pattern of the folder of a run of Stable-Baselines3: the algorithm, and a number that is not the seed."""
_ROWS = 5_000
"""Most rows that are made for a run: more than a picture can show."""
_LONGEST = 500
"""Most characters of an error message; it may quote columns and cells of any length."""


def refusal(source: Path, rule: str) -> RunError:
    """Return the error, in one line, that the log ``source`` cannot be imported because it breaks a rule."""
    line = " ".join(rule.split())
    return RunError(printable(f"{source}: {line if len(line) <= _LONGEST else f'{line[:_LONGEST]}...'}"))


def sb3_algorithm(folder: Path) -> str | None:
    """Return the algorithm in the name of a folder of Stable-Baselines3, as in `Log`: "sb3 ppo" for ``PPO_1``."""
    named = _SB3_FOLDER.fullmatch(folder.absolute().name)
    return f"{SB3} {named['algorithm'].lower()}" if named else None


@dataclass(frozen=True)
class Log:
    """The log of a run of another program."""

    source: Path
    """The file or folder of the log."""
    points: Mapping[str, Sequence[Point]]
    """Name of a logged quantity -> its numbers."""
    env_id: str | None = None
    program: str | None = None
    """Short name of the program that wrote the log; None if the log does not say it."""
    algorithm: str | None = None
    """The algorithm as the log names it, or with its program before it, as in "sb3 ppo"."""
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Hyperparameters as logged. Commands group the runs that have the same ones."""
    name: str = ""
    """Words that distinguish the log from others of the same source; empty if it is the only one."""

    def score_name(self, wanted: str | None) -> str | None:
        """Return the name of the score in this log: ``wanted``, or if that is None a known one; None: no score."""
        names = [wanted] if wanted else [*SINGLE_GAMES, *MEANS]
        return next((name for name in names if self.points.get(name)), None)


def make_rows(log: Log, wanted: str | None = None, frames_per_step: int | None = None) -> list[dict[str, Any]]:
    """Return rows for metrics.jsonl, at most _ROWS: each has a mean score and the newest value of other quantities.

    ``wanted``: name of the score in the log; None: a known one. ``frames_per_step``: if given, rows have frames too.
    Raises RunError if there is no score, or if a number of steps or a score is out of range.
    """
    name = log.score_name(wanted)
    if name is None:
        missing = f"no {wanted!r}" if wanted else f"none of the known scores {', '.join((*SINGLE_GAMES, *MEANS))}"
        there = ", ".join(sorted(log.points)) or "none"
        raise refusal(log.source, f"has {missing}; the numbers in it: {there}; name the score with --score")
    if not any(math.isfinite(number) for *_, number in log.points[name]):
        raise refusal(log.source, f"{name} has no finite number; a score is a number")
    events = sorted(
        ((steps, its, time_s, number) for its, points in log.points.items() for steps, time_s, number in points),
        key=lambda event: event[0],
    )
    games: deque[float] = deque(maxlen=RECENT_GAMES if name in SINGLE_GAMES else 1)
    played, newest, rows = 0, dict[str, float | None](), dict[float, dict[str, Any]]()
    for steps, its, time_s, number in events:
        if not 0 <= steps <= MOST_STEPS:
            raise refusal(log.source, f"{its} has {steps:g} steps; a number of steps is from 0 to 2^53")
        if its != name:
            newest["env_steps_per_s" if its in SPEEDS else its] = number if math.isfinite(number) else None
        elif math.isfinite(number):
            if abs(number) > MOST_SCORE:
                rule = f"{its} is {number:g} at {steps:,.0f} steps; a score is from {-MOST_SCORE:g} to {MOST_SCORE:g}"
                raise refusal(log.source, rule)
            games.append(number)
            played += 1
            time_s = time_s if time_s is not None and math.isfinite(time_s) else None
            own = {"time_s": time_s, "env_steps": round(steps)}
            rows[steps] = {**own, **newest, **own, SCORE: fmean(games)}  # other columns may have these names
            rows[steps] |= {"episodes": played} if name in SINGLE_GAMES else {}
            rows[steps] |= {"frames": round(steps) * frames_per_step} if frames_per_step else {}
    every = list(rows.values())
    if len(every) <= _ROWS:
        return every
    return [every[round(at * (len(every) - 1) / (_ROWS - 1))] for at in range(_ROWS)]
