"""Suites ``gala-games`` and ``paac-games``: tables 1 of Assran et al. (2019) and Clemente et al. (2017), in small.

Games are those of MinAtar (Young and Tian 2019), and scores those of training games after equal steps; the papers play
the best of several seeds. A3C, to which both are compared, has two learners with half of the environments
each, and the learning rate for that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.learning import learn
from benchmarks.papers.gossip import WAYS
from benchmarks.request import BenchmarkRequest
from launch.bench.report import SuiteReport

GAMES = {"Breakout": 0.4, "SpaceInvaders": 3.8, "Asterix": 0.5}
"""Games of MinAtar -> score of random play, mean of 100 games of version 1.0.15."""
GALA_GAMES = tuple(GAMES)[:2]
LEARNERS = 2


def _of_several(way: str) -> Sequence[str]:
    scaling, keys = WAYS[way]
    return (f"learners.count={LEARNERS}", f"learners.rate_scaling={scaling}", *keys)


GALA = {"A3C": _of_several("async"), "A2C": _of_several("sync"), "GALA-A2C": _of_several("gossip")}
HALF_RATE = ("optimizer.learning_rate=0.0112", "optimizer.schedule=constant")
"""PAAC's 0.0007 for each of a learner's 16 environments."""
PAAC = {"A3C": ("simulators.count=1", *HALF_RATE, *_of_several("async")), "PAAC": ()}
"""Column of each table -> the keys with which it is trained."""


def gala_games(request: BenchmarkRequest) -> SuiteReport:
    """Scores of two games by A3C, A2C and GALA-A2C, beside GALA's table 1; --seconds a run."""
    return learn("gala-games", request, cases(GALA_GAMES, GALA))


def paac_games(request: BenchmarkRequest) -> SuiteReport:
    """Scores of three games by A3C and PAAC, beside PAAC's table 1; --seconds a run."""
    return learn("paac-games", request, cases(tuple(GAMES), PAAC))


def cases(games: Sequence[str], columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the keys for each game and column."""
    return {case(game, of): (f"env.id=MinAtar/{game}-v1", *columns[of]) for game in games for of in columns}


def case(game: str, column: str) -> str:
    """Return the name of a case."""
    return f"{game}, {column}"
