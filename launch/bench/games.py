"""The suite ``games``: compares the scores of your runs on Atari with those of random play, a human, DQN and Fast DQN.

The published scores are those of Daley and Amato (2021, table 4). Runs that differ only in name, seed and game form a
variant. For each variant, statistics over games and seeds are computed from human-normalised scores, with intervals.

Starts no run. Reads the folders of runs, finished or not: their evaluations, or if there are none the mean score of the
last training games.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from launch.bench import SuiteRequest
from launch.bench.atari_games import AtariGame, games
from launch.bench.report import SuiteReport
from launch.display.plot import COLOURS, INK, dress, make_figure, save
from launch.errors import RunError
from launch.reports import evaluations
from launch.reports.compare import NO_DIFFERENCE, find_differences, group_alike, group_name
from launch.reports.format import as_whole
from launch.reports.statistics import (
    Interval,
    Statistic,
    band,
    exceeded,
    interquartile_mean,
    interval,
    mean_of_tasks,
    median_of_tasks,
    optimality_gap,
    probability_of_improvement,
)
from launch.runs import find
from launch.runs.find import RunFolder
from launch.runs.view import identify

HUMAN = 100.0
"""The human-normalised score of the human tester, in percent."""
COLUMNS = ("best", "last", "dqn", "fast_dqn")
"""Names of the scores in a game: the best and the last evaluation of the run, and two published ones."""
ALIKE = NO_DIFFERENCE | {"env.id"}
"""Keys in which runs of one variant may differ."""
OVER_GAMES: Mapping[str, Statistic] = {
    "mean": mean_of_tasks,
    "median": median_of_tasks,
    "IQM": interquartile_mean,
    "optimality gap": partial(optimality_gap, target=HUMAN),
}
"""Name of a statistic over games -> its function."""


@dataclass(frozen=True)
class Played:
    """The scores of one run, and the published ones in the same game."""

    run: RunFolder
    game: AtariGame
    frames: int
    best: float
    """Mean raw score of the best evaluation; without evaluations, that of the last training games."""
    last: float
    """Mean raw score of the last evaluation; without evaluations, equal to ``best``."""
    over: str
    """The number and kind of games of which ``best`` and ``last`` are means, in words."""

    @property
    def scores(self) -> dict[str, float]:
        """Name in ``COLUMNS`` -> raw score."""
        return {"best": self.best, "last": self.last, "dqn": self.game.dqn, "fast_dqn": self.game.fast_dqn}

    @property
    def percents(self) -> dict[str, float]:
        """Name in ``COLUMNS`` -> human-normalised score, in percent."""
        return {name: self.game.percent(score) for name, score in self.scores.items()}

    def as_json(self) -> dict[str, Any]:
        """Return run, game and all scores as plain values."""
        return {
            "run": self.run.name,
            "folder": str(self.run.path),
            "commit": self.run.meta.get("commit"),
            "game": self.game.game,
            "frames": self.frames,
            "over": self.over,
            "random": self.game.random,
            "human": self.game.human,
            **self.scores,
            "percent": self.percents,
        }


def read(run: RunFolder) -> Played:
    """Return the scores of a run; raises RunError if its game is not in the table, or if no game has ended."""
    row, env_id = run.metrics().last() or {}, identify(run).env_id or None
    game = games().get(str(env_id))
    if game is None:
        raise RunError(
            f"{run.name} plays {env_id}, which is not one of the table's {len(games())} games; leave this run out"
        )
    frames = int(row.get("frames") or 0)
    if found := evaluations.best_and_last(run.events().new()):
        best, last = found["best"], found["last"]
        over = f"{last['episodes']} games, {found['count']} evaluation{'s' if found['count'] > 1 else ''}"
        return Played(run, game, frames, best["mean"], last["mean"], over)
    score = row.get("episode_return_mean")
    if score is None:
        raise RunError(
            f"{run.name} has no score: no evaluation and no game has ended; let it run longer, with evaluator.count=1"
        )
    return Played(run, game, frames, score, score, "last 100 training games")


@dataclass(frozen=True)
class Variant:
    """Runs that differ only in name, seed and game."""

    name: str
    """Keys by which it differs from other variants."""
    played: Sequence[Played]

    def percents(self, column: str) -> dict[str, list[float]]:
        """Return game -> human-normalised score of each run on it, for one of ``COLUMNS``."""
        found: dict[str, list[float]] = {}
        for one in sorted(self.played, key=lambda one: one.game.game):
            found.setdefault(one.game.game, []).append(one.percents[column])
        return found

    @property
    def count(self) -> str:
        """The number of games as text."""
        return _count(len(self.percents("best")))

    def over_games(self, statistic: Statistic, column: str) -> Interval:
        """Return a statistic of the human-normalised scores of all games and seeds, for one of ``COLUMNS``."""
        return interval(statistic, list(self.percents(column).values()))

    def as_json(self) -> dict[str, Any]:
        """Return all statistics of ``OVER_GAMES`` as plain values."""
        over = {
            name: {column: self.over_games(of, column)._asdict() for column in COLUMNS}
            for name, of in OVER_GAMES.items()
        }
        return {"variant": self.name, "games": len(self.percents("best")), "runs": len(self.played), **over}


def variants(played: Sequence[Played]) -> list[Variant]:
    """Group runs into variants, and return these, the highest interquartile mean first."""
    topologies = [one.run.topology() for one in played]
    alike = group_alike(topologies, ALIKE)
    differing = find_differences([topologies[indices[0]] for indices in alike], ALIKE)
    found = [
        Variant(group_name(keys), [played[i] for i in indices]) for indices, keys in zip(alike, differing, strict=True)
    ]
    return sorted(found, key=lambda one: -one.over_games(interquartile_mean, "best").estimate)


def compare(played: list[Played]) -> SuiteReport:
    """Return the report of runs, with the statistics of each variant."""
    runs = [one.as_json() for one in sorted(played, key=lambda one: (one.game.game, one.run.name))]
    rows = [
        (
            one["game"],
            one["run"],
            as_whole(one["frames"]),
            one["over"],
            *(f"{one[name]:,.1f}" for name in ("random", "human")),
            *(f"{one[name]:,.1f} ({one['percent'][name]:.1f} %)" for name in COLUMNS),
        )
        for one in runs
    ]
    found = variants(played)
    rows += [row for variant in found for row in _rows(variant, variant.name if len(found) > 1 else "")]
    return SuiteReport(
        suite="games",
        headings=("game", "run", "frames", "scores of", "random", "human", "best", "last", "DQN", "Fast DQN"),
        rows=rows,
        unit="best score in % of a human's",
        notes=(
            "in brackets: 100 x (score - random) / (human - random). DQN (Mnih et al. 2015) and Fast DQN (Daley and "
            "Amato 2021, table 4): best evaluation of 30 games in 200 million frames",
            "over games: IQM is the mean of the middle half of all runs; optimality gap is the mean distance below a "
            "human's score; better is the probability that a run's best is above the published score; intervals are "
            "stratified bootstrap intervals of 95 %",
            *(_better(found[0], other) for other in found[1:]),
        ),
        figures={"runs": runs, "over_games": [variant.as_json() for variant in found]},
        picture=partial(_draw, found),
    )


def _rows(variant: Variant, name: str) -> list[tuple[str, ...]]:
    """Return the rows of the table with a variant's statistics; those of published scores have no interval."""
    rows = []
    for heading, of in OVER_GAMES.items():
        found = [variant.over_games(of, column) for column in COLUMNS]
        ours = [f"{its.estimate:.1f} % ({its.low:.1f} to {its.high:.1f})" for its in found[:2]]
        published = [f"{its.estimate:.1f} %" for its in found[2:]]
        rows.append((f"{heading} of {variant.count}", name, "", "", "", "", *ours, *published))
    best = list(variant.percents("best").values())
    beaten = [interval(probability_of_improvement, best, list(variant.percents(of).values())) for of in COLUMNS[2:]]
    better = (f"better, of {variant.count}", name, "", "", "", "", "", "", *(its.written for its in beaten))
    return [*rows, better]


def _better(one: Variant, other: Variant) -> str:
    """Return a sentence on the probability that a run of ``one`` scores more than one of ``other`` in the same game."""
    mine, its = one.percents("best"), other.percents("best")
    shared = [game for game in mine if game in its]
    if not shared:
        return f"{one.name} and {other.name} have no game in common"
    found = interval(probability_of_improvement, [mine[game] for game in shared], [its[game] for game in shared])
    return (
        f"a run with {one.name} is better than one with {other.name} with a probability of {found.written}, "
        f"averaged over {_count(len(shared))}"
    )


def _draw(variants: Sequence[Variant], path: Path) -> None:
    """Draw the best score of each run by game, and for each variant the share of runs above each score."""
    dqn = {one.game.game: one.percents["dqn"] for variant in variants for one in variant.played}
    names = sorted(dqn, reverse=True)
    figure = make_figure(path, 11.0)
    figure.set_figheight(max(4.6, 2.0 + 0.16 * len(names)))
    by_game, profile = figure.subplots(1, 2)
    every = [one.percents["best"] for variant in variants for one in variant.played]
    thresholds = np.linspace(0.0, max(*every, HUMAN), 201)
    for number, variant in enumerate(variants):
        colour, best = COLOURS[number % len(COLOURS)], variant.percents("best")
        points = [(score, names.index(game)) for game, scores in best.items() for score in scores]
        by_game.scatter(*zip(*points, strict=True), s=14, color=colour, alpha=0.7, zorder=3)
        share = band(mean_of_tasks, exceeded([np.array(scores) for scores in best.values()], thresholds.tolist()))
        profile.fill_between(thresholds, share.low, share.high, color=colour, alpha=0.2, linewidth=0)
        label = f"{variant.name}: {len(points)} runs"
        profile.plot(thresholds, share.estimate, color=colour, linewidth=1.8, label=label)
    published = [dqn[name] for name in names]
    by_game.scatter(published, range(len(names)), s=22, facecolors="none", edgecolors=INK, label="DQN (2015)")
    by_game.set_yticks(range(len(names)), names)
    by_game.set_xlabel("best score in % of the human score")
    profile.set_xlabel("score in % of the human score")
    profile.set_ylabel("share of runs with a higher best score")
    for axes in (by_game, profile):
        dress(axes)
        axes.axvline(HUMAN, color="#888888", linewidth=0.8, linestyle=":")
    by_game.set_xscale("symlog", linthresh=HUMAN)  # some games are below random play, and Boxing is at 1,700 %
    by_game.set_xlim(left=min(0.0, *every))
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9, labelcolor=INK)
    save(figure, path)


def _count(games: int) -> str:
    return f"{games} game{'s' if games > 1 else ''}"


def games_of(request: SuiteRequest) -> SuiteReport:
    """Compare the scores of your runs on Atari (default: all in runs/) with published scores of DQN and Fast DQN."""
    if request.names:
        return compare([read(find.find(word)) for word in request.names])
    found = []
    for run in find.all_runs():
        with suppress(RunError):  # it has no score, or its game is not in the table
            found.append(read(run))
    if not found:
        raise RunError(f"no run in {find.RUNS}/ has a score in one of the table's games; name folders of runs")
    return compare(found)
