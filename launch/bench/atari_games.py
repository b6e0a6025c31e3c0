"""The 49 Atari games of Mnih et al. (2015), their published scores, and scores normalised by them.

Reads ``atari_games.csv``, whose first lines give the sources of the scores.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("atari_games.csv")


class AtariGame(msgspec.Struct, frozen=True):
    """A game, with published mean raw scores of whole games."""

    game: str
    """Name in the paper."""
    env: str
    """Name in the id of the environment: ALE/<env>-v5."""
    random: float
    """Score of random play."""
    human: float
    """Score of the human tester."""
    dqn: float
    """Score in a run's best evaluation, the mean of 30 games; ``dqn_std``: their deviation. Likewise ``fast_dqn``."""
    dqn_std: float
    fast_dqn: float
    fast_dqn_std: float
    dqn_percent: float
    """Human-normalised score, as printed in the paper."""
    fast_dqn_percent: float

    def percent(self, score: float) -> float:
        """Return the human-normalised score for a raw score: 0 is random play, 100 is the human tester."""
        return 100.0 * (score - self.random) / (self.human - self.random)


@cache
def games() -> dict[str, AtariGame]:
    """Return environment id, such as ALE/SpaceInvaders-v5 -> game."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {f"ALE/{row['env']}-v5": msgspec.convert(row, AtariGame, strict=False) for row in rows}
