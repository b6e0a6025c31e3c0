"""The log of one run of another program, and the rows of ``metrics.jsonl`` that it makes. Pure.

Our score is the mean of the last games. So is that of Stable-Baselines3; CleanRL logs each game by itself, and so do
Monitor's files: there the mean is taken here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from actorlearn.metrics.episodes import RECENT_GAMES
from launch.errors import RunError
from launch.runs.curves import SCORE

Point = tuple[float, float | None, float]
"""Environment steps, seconds since the start or None where nothing tells, and a number."""
SINGLE_GAMES = ("charts/episodic_return", "episodic_return", "episode_return")
"""Names of scores that are each one game's, of CleanRL and Monitor first."""
MEANS = ("rollout/ep_rew_mean", "ep_rew_mean", "eprewmean", SCORE)
"""Names of scores that are means of the last games, as Stable-Baselines3 and baselines log them."""
SPEEDS = ("charts/SPS", "time/fps", "fps")
_ROWS = 5_000
"""Most rows of a run: more points than a picture has dots."""


@dataclass(frozen=True)
class Log:
    """One run of another program."""

    source: Path
    points: Mapping[str, Sequence[Point]]
    env_id: str | None = None
    algorithm: str | None = None
    """The program and what it learned by, so that it is never taken for ours of that name."""
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Its hyperparameters, as they were logged: runs that differ in them are no seeds of one another."""
    name: str = ""
    """Words that tell it from others of its source; empty where it is alone there."""

    def score_name(self, wanted: str | None) -> str | None:
        """Return the name of its score, the wanted one or the first that is known; None where there is none."""
        names = [wanted] if wanted else [*SINGLE_GAMES, *MEANS]
        return next((name for name in names if self.points.get(name)), None)


def make_rows(log: Log, wanted: str | None = None, frames_per_step: int | None = None) -> list[dict[str, Any]]:
    """Return rows at the steps that have a score, with the newest of all other numbers under their own names.

    Raises RunError where there is no score.
    """
    name = log.score_name(wanted)
    if name is None:
        missing = f"no {wanted!r}" if wanted else f"no score: none of {', '.join((*SINGLE_GAMES, *MEANS))}"
        there = ", ".join(sorted(log.points)) or "nothing that is a number"
        raise RunError(f"{log.source}: {missing} in it; there are {there}; name the score by --score")
    events = sorted(
        ((steps, its, time_s, number) for its, points in log.points.items() for steps, time_s, number in points),
        key=lambda event: event[0],
    )
    games: deque[float] = deque(maxlen=RECENT_GAMES if name in SINGLE_GAMES else 1)
    played, newest, rows = 0, dict[str, float | None](), dict[float, dict[str, Any]]()
    for steps, its, time_s, number in events:
        if its != name:
            newest["env_steps_per_s" if its in SPEEDS else its] = number if math.isfinite(number) else None
        elif math.isfinite(number):
            games.append(number)
            played += 1
            rows[steps] = {"time_s": time_s, "env_steps": round(steps), **newest, SCORE: fmean(games)}
            rows[steps] |= {"episodes": played} if name in SINGLE_GAMES else {}
            rows[steps] |= {"frames": round(steps) * frames_per_step} if frames_per_step else {}
    every = list(rows.values())
    if len(every) <= _ROWS:
        return every
    return [every[round(at * (len(every) - 1) / (_ROWS - 1))] for at in range(_ROWS)]
