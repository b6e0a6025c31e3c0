"""The suite ``games``: scores of runs beside random play, a human, DQN and Fast DQN (Daley and Amato 2021, table 4).

Starts nothing. Reads the folders of runs, finished or not: their evaluations, or where there was none the newest report
on training games.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from launch.bench.measure.interleaved import Spread
from launch.bench.measure.report import Report
from launch.bench.measure.request import Request
from launch.bench.papers.atari_games import Game, games
from launch.errors import RunError
from launch.reports import evaluations
from launch.reports.format import as_whole
from launch.runs import find
from launch.runs.find import Run
from launch.runs.view import identify


@dataclass(frozen=True)
class Played:
    """Scores of one run in its game."""

    run: Run
    game: Game
    frames: int
    best: float
    last: float
    """Mean raw scores; best and last are one and the same where there was no evaluation."""
    over: str
    """Games that they are means over, in words."""

    def as_json(self) -> dict[str, Any]:
        """Return all fields, with scores raw and in percent of a human's."""
        scores = {"best": self.best, "last": self.last, "dqn": self.game.dqn, "fast_dqn": self.game.fast_dqn}
        return {
            "run": self.run.name,
            "folder": str(self.run.path),
            "commit": self.run.meta.get("commit"),
            "game": self.game.game,
            "frames": self.frames,
            "over": self.over,
            "random": self.game.random,
            "human": self.game.human,
            **scores,
            "percent": {name: self.game.percent(score) for name, score in scores.items()},
        }


def read(run: Run) -> Played:
    """Scores of a run; raises RunError where its game is not in the table, or none has been played to its end."""
    row, env_id = run.metrics().last() or {}, identify(run).env_id or None
    game = games().get(str(env_id))
    if game is None:
        raise RunError(f"{run.name} plays {env_id}, which is not one of the table's {len(games())} games; leave it out")
    frames = int(row.get("frames") or 0)
    if found := evaluations.best_and_last(run.events().new()):
        best, last = found["best"], found["last"]
        over = f"{last['episodes']} games, {found['count']} evaluation{'s' if found['count'] > 1 else ''}"
        return Played(run, game, frames, best["mean"], last["mean"], over)
    score = row.get("episode_return_mean")
    if score is None:
        raise RunError(
            f"{run.name} has no score: no evaluation is done and no game is over; let it go on, with evaluator.count=1"
        )
    return Played(run, game, frames, score, score, "last 100 training games")


def found_in(folder: str, known: list[Run]) -> list[Played]:
    """Return the scores of all runs that have one in a game of the table."""
    found = []
    for run in known:
        try:
            found.append(read(run))
        except RunError:
            continue
    if not found:
        raise RunError(f"no run in {folder}/ has a score in one of the table's games; name folders of runs")
    return found


def compare(played: list[Played]) -> Report:
    """Report these runs, with mean and median over games; a game of several runs counts once, by their mean."""
    columns = ("best", "last", "dqn", "fast_dqn")
    runs = [one.as_json() for one in sorted(played, key=lambda one: (one.game.game, one.run.name))]
    by_game: dict[str, list[dict[str, float]]] = {}
    for one in runs:
        by_game.setdefault(one["game"], []).append(one["percent"])
    each = {column: [fmean(p[column] for p in percents) for percents in by_game.values()] for column in columns}
    over = {name: {c: of(each[c]) for c in columns} for name, of in (("mean", fmean), ("median", median))}
    rows = [
        (
            one["game"],
            one["run"],
            as_whole(one["frames"]),
            one["over"],
            *(f"{one[name]:,.1f}" for name in ("random", "human")),
            *(f"{one[name]:,.1f} ({one['percent'][name]:.1f} %)" for name in columns),
        )
        for one in runs
    ]
    count = f"{len(by_game)} game{'s' if len(by_game) > 1 else ''}"
    for name, percents in over.items():
        rows.append((f"{name} of {count}", "", "", "", "", "", *(f"{percents[column]:.1f} %" for column in columns)))
    return Report(
        suite="games",
        headings=("game", "run", "frames", "scores of", "random", "human", "best", "last", "DQN", "Fast DQN"),
        rows=rows,
        bars={game: Spread(tuple(p["best"] for p in percents)) for game, percents in by_game.items()},
        unit="best score in % of a human's",
        notes=(
            "in brackets: 100 x (score - random) / (human - random). DQN (Mnih et al. 2015) and Fast DQN (Daley and "
            "Amato 2021, table 4): best evaluation of 30 games in 200 million frames",
        ),
        figures={"runs": runs, "over_games": over},
    )


def games_of(request: Request) -> Report:
    """Scores of runs, human-normalised, beside DQN and Fast DQN on 49 Atari games; for RUN... [all in runs/]."""
    if request.runs:
        return compare([read(find.find(word)) for word in request.runs])
    return compare(found_in(str(find.RUNS), find.all_runs()))
