"""Scores and lengths of games (episodes), computed from rewards and flags.

A score is the sum of the raw rewards of a whole game, even if the learner clips rewards or treats a lost life as the
end of an episode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

RECENT_GAMES = 100
"""Number of newest games over which means are taken."""


class Episodes:
    """Scores and lengths of the games of several groups of environments."""

    def __init__(self, window: int = RECENT_GAMES) -> None:
        """Take means over the last ``window`` games."""
        self.finished = 0
        """Number of games that were scored."""
        self.recent: deque[float] = deque(maxlen=window)
        """Scores of the last games."""
        self.recent_lengths: deque[int] = deque(maxlen=window)
        """Lengths of the last games, in agent steps."""
        self._returns: dict[str, NDArray[np.float64]] = {}
        """Owner -> [B] score so far of each running game; NaN: it will not be scored."""
        self._lengths: dict[str, NDArray[np.int64]] = {}

    def add(self, owner: str, reward: NDArray[np.float32], over: NDArray[np.bool_], first: NDArray[np.bool_]) -> None:
        """Add the next T steps of B environments, which ``owner`` names; the arrays are [T + 1, B].

        ``over`` is terminated | truncated, and ``first`` marks the first observation of a game. Step 0 is not counted:
        it was step T of the previous call, or begins a game. A game whose first observation was not added is not
        scored, because a part of it is unknown.
        """
        if owner not in self._returns:
            self._returns[owner] = np.full(first.shape[1], np.nan)
            self._lengths[owner] = np.zeros(first.shape[1], np.int64)
        returns, lengths = self._returns[owner], self._lengths[owner]
        returns[first[0]] = 0.0
        lengths[first[0]] = 0
        for reward_t, over_t, first_t in zip(reward[1:], over[1:], first[1:], strict=True):
            if first_t.any():
                returns[first_t] = 0.0
                lengths[first_t] = 0
            returns += reward_t
            lengths += ~first_t
            if over_t.any():
                self._finish(returns[over_t], lengths[over_t])

    def _finish(self, returns: NDArray[np.float64], lengths: NDArray[np.int64]) -> None:
        for score, length in zip(returns, lengths, strict=True):
            if not np.isnan(score):
                self.recent.append(float(score))
                self.recent_lengths.append(int(length))
                self.finished += 1

    def drop(self, owner: str) -> None:
        """Drop the unfinished games of environments that have left the run."""
        self._returns.pop(owner, None)
        self._lengths.pop(owner, None)

    def state(self) -> dict[str, list[list[float | None]]]:
        """Return owner -> [score, length] so far of its running games; the score of an unscored game is None."""
        scores = {owner: [None if np.isnan(s) else float(s) for s in own] for owner, own in self._returns.items()}
        lengths = {owner: own.tolist() for owner, own in self._lengths.items()}
        return {owner: [list(game) for game in zip(scores[owner], lengths[owner], strict=True)] for owner in scores}

    def restore(self, state: Mapping[str, Sequence[tuple[float | None, int]]]) -> None:
        """Restore the running games that `state` returned."""
        for owner, own in state.items():
            self._returns[owner] = np.array([np.nan if score is None else score for score, _ in own])
            self._lengths[owner] = np.array([length for _, length in own], np.int64)

    def begin_anew(self) -> None:
        """Forget the last games, so that means are taken over later ones; ``finished`` is not changed."""
        self.recent.clear()
        self.recent_lengths.clear()

    def mean(self) -> float | None:
        """Return the mean score of the last games, or None if there are none."""
        return float(np.mean(self.recent)) if self.recent else None

    def mean_length(self) -> float | None:
        """Return the mean length of the last games, in agent steps, or None if there are none."""
        return float(np.mean(self.recent_lengths)) if self.recent_lengths else None
