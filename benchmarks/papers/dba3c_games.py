"""The suite ``dba3c-games``: the best evaluation in each game, and the hours to it (Adamski et al. 2018, table 3).

A topology with an Atari game plays all games of the table. Another topology plays only its own game; this shows that
the suite works and how the topology learns, without a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.learning import LearningRun, run_all, score
from benchmarks.papers.dba3c_learning import reduced
from benchmarks.papers.dba3c_nodes import EVALUATED
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread
from launch.bench.report import SuiteReport
from launch.topology.load import Topology, load

PAPER = {
    "BeamRider": (14_900, 2.7),
    "Breakout": (350, 0.5),
    "Boxing": (98, 0.5),
    "Pong": (20, 4.0),
    "Seaquest": (1_832, 0.5),
    "SpaceInvaders": (650, 0.5),
}
"""Game -> best stable score of 64 nodes, and the hours until it was reached."""


def dba3c_games(request: BenchmarkRequest) -> SuiteReport:
    """Best evaluation by game and hours to it, beside DBA3C's table 3; --seconds is the most of each run.

    A game without an evaluation in this time has no figures, and a note says so.
    """
    loaded = load(request.topology, request.overrides)
    cases = {game: (*own, "evaluator.stop_at_score=null") for game, own in keys(loaded, request.overrides).items()}
    failed: list[str] = []
    return compare(request, loaded, run_all(request, cases, EVALUATED, failed), failed)


def keys(loaded: Topology, overrides: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the overrides for each game: all games of the table for an Atari topology, unless one was requested."""
    if not loaded.env.id.startswith("ALE/") or any(given.startswith("env.id=") for given in overrides):
        return {loaded.env.id: ()}
    epsilon = {"Pong": ("optimizer.epsilon=1.0e-3",)}  # section 2.4
    return {game: (f"env.id=ALE/{game}-v5", *epsilon.get(game, ())) for game in PAPER}


def evaluated(one: LearningRun) -> list[Mapping[str, Any]]:
    """Return the reports that follow an evaluation; ``eval_env_steps`` are the steps of the evaluated weights."""
    return [row for row in one.rows if row.get(EVALUATED) is not None]


def compare(
    request: BenchmarkRequest, loaded: Topology, ran: Mapping[str, Sequence[LearningRun]], failed: Sequence[str]
) -> SuiteReport:
    """Return the report of runs by game; ``failed``: lines about the games whose runs failed."""
    rows, bars = [], {}
    for game, all_ in ran.items():
        paper = PAPER.get(game.removeprefix("ALE/").removesuffix("-v5"))
        theirs = f"{paper[0]:,} ({paper[1]:g} h)" if paper else "-"
        if not all_:
            rows.append((game, "-", "-", "-", "-", theirs))
            continue
        best = [max(evaluated(one), key=lambda row: float(row[EVALUATED])) for one in all_]
        bars[game] = Spread(tuple(float(row[EVALUATED]) for row in best))
        rows.append(
            (
                game,
                score(bars[game]),
                f"{Spread(tuple(row['time_s'] / 3600 for row in best)).median:.3f}",
                f"{Spread(tuple(float(row['eval_env_steps']) for row in best)).median:,.0f}",
                score(Spread(tuple(one.curve.final for one in all_))),
                theirs,
            )
        )
    return SuiteReport(
        suite="dba3c-games",
        headings=("game", "best evaluation", "hours to it", "steps to it", "last evaluation", "in the paper"),
        rows=rows,
        bars=bars,
        unit="best evaluation",
        notes=(
            f"reduced: {reduced(loaded)}",
            f"evaluations: mean of {loaded.evaluator.episodes} games by the likeliest action, "
            "in the paper of 50; its hours are to the best score that stays",
            *failed,
        ),
        figures={"topology": request.file, "overrides": list(request.overrides)},
    )
