"""The picture of the suite ``games``: scores by game, and the performance profile of each variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from launch.display.plot import COLOURS, INK, dress, make_figure, save
from launch.reports.statistics import band, exceeded, mean_of_tasks

HUMAN = 100.0
"""A human's score, in percent of itself."""


def draw(found: Mapping[str, Mapping[str, Sequence[float]]], dqn: Mapping[str, float], path: Path) -> None:
    """Draw each run's best score by its game, and for each variant the share of runs above each score.

    ``found``: scores in percent of a human's by variant and game; ``dqn``: published ones by game.
    """
    games = sorted(dqn, reverse=True)
    figure = make_figure(path, 11.0)
    figure.set_figheight(max(4.6, 2.0 + 0.16 * len(games)))
    by_game, profile = figure.subplots(1, 2)
    every = [score for of_games in found.values() for scores in of_games.values() for score in scores]
    thresholds = np.linspace(0.0, max(*every, HUMAN), 201)
    for number, (name, of_games) in enumerate(found.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(score, games.index(game)) for game, scores in of_games.items() for score in scores]
        by_game.scatter(*zip(*points, strict=True), s=14, color=colour, alpha=0.7, zorder=3)
        share = band(mean_of_tasks, exceeded([np.array(scores) for scores in of_games.values()], thresholds.tolist()))
        profile.fill_between(thresholds, share.low, share.high, color=colour, alpha=0.2, linewidth=0)
        profile.plot(thresholds, share.estimate, color=colour, linewidth=1.8, label=f"{name}: {len(points)} runs")
    at = range(len(games))
    by_game.scatter([dqn[game] for game in games], at, s=22, facecolors="none", edgecolors=INK, label="DQN (2015)")
    by_game.set_yticks(at, games)
    by_game.set_xlabel("best score in % of a human's")
    profile.set_xlabel("score in % of a human's")
    profile.set_ylabel("share of runs whose best is above")
    for axes in (by_game, profile):
        dress(axes)
        axes.axvline(HUMAN, color="#888888", linewidth=0.8, linestyle=":")
    by_game.set_xscale("symlog", linthresh=HUMAN)  # some games are below random play, and Boxing is at 1,700 %
    by_game.set_xlim(left=min(0.0, *every))
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9, labelcolor=INK)
    save(figure, path)
