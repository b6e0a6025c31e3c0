"""Raw scores of whole games, computed from the rewards and the flags in blocks.

A score is the sum of raw rewards from a game's first row to its last, even if the learner clips rewards or treats lives
as episodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

RECENT_GAMES = 100
"""Number of newest whole games over which means are taken."""


class Episodes:
    """Counts the scores and lengths of the games of one or several simulator groups."""

    def __init__(self, window: int = RECENT_GAMES) -> None:
        """Keep the last ``window`` whole games for the means."""
        self.finished = 0
        self.recent: deque[float] = deque(maxlen=window)
        self.recent_lengths: deque[int] = deque(maxlen=window)
        self._returns: dict[str, NDArray[np.float64]] = {}
        self._lengths: dict[str, NDArray[np.int64]] = {}

    def add(self, owner: str, reward: NDArray[np.float32], over: NDArray[np.bool_], first: NDArray[np.bool_]) -> None:
        """Add a block [T + 1, B] of one owner (simulator incarnation and group); called in the order of rollouts.

        ``over`` is terminated | truncated; a lost life does not count. ``first`` marks rows that begin a game. Row 0
        was counted as row T of the previous block, or begins a game. A game is not scored if its first row was not
        added, because this process or the policy began in the middle of it.
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
        """Drop the unfinished games of an owner that has left."""
        self._returns.pop(owner, None)
        self._lengths.pop(owner, None)

    def state(self) -> dict[str, list[list[float | None]]]:
        """Return score so far and length of each owner's unfinished games; score None: its first row was not added."""
        scores = {owner: [None if np.isnan(s) else float(s) for s in own] for owner, own in self._returns.items()}
        lengths = {owner: own.tolist() for owner, own in self._lengths.items()}
        return {owner: [list(game) for game in zip(scores[owner], lengths[owner], strict=True)] for owner in scores}

    def restore(self, state: Mapping[str, Sequence[tuple[float | None, int]]]) -> None:
        """Restore the unfinished games of ``state``."""
        for owner, own in state.items():
            self._returns[owner] = np.array([np.nan if score is None else score for score, _ in own])
            self._lengths[owner] = np.array([length for _, length in own], np.int64)

    def begin_anew(self) -> None:
        """Begin the means anew; the games before stay counted."""
        self.recent.clear()
        self.recent_lengths.clear()

    def mean(self) -> float | None:
        """Return the mean raw score of the last whole games, or None before the first."""
        return float(np.mean(self.recent)) if self.recent else None

    def mean_length(self) -> float | None:
        """Return the mean length in agent steps of the last whole games, or None before the first."""
        return float(np.mean(self.recent_lengths)) if self.recent_lengths else None
