"""Raw scores of whole games, read off the boundary columns of blocks.

Whatever the learner is shown (clipped rewards, lives as episodes), a score here is the sum of raw rewards from a
game's first row to its last.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class Episodes:
    """Scores per environment, for one simulator group or several in a row."""

    def __init__(self, window: int = 100) -> None:
        """Keep the last ``window`` whole games for the mean."""
        self.finished = 0
        self.recent: deque[float] = deque(maxlen=window)
        self.recent_lengths: deque[int] = deque(maxlen=window)
        self._returns: dict[str, NDArray[np.float64]] = {}
        self._lengths: dict[str, NDArray[np.int64]] = {}

    def add(self, owner: str, reward: NDArray[np.float32], over: NDArray[np.bool_], first: NDArray[np.bool_]) -> None:
        """Count T rows [T, B] of one owner (simulator incarnation and group), in the order they happened.

        ``over`` is terminated | truncated (a life lost is not); ``first`` marks reset rows, whose reward is 0.
        """
        returns = self._returns.setdefault(owner, np.zeros(reward.shape[1], np.float64))
        lengths = self._lengths.setdefault(owner, np.zeros(reward.shape[1], np.int64))
        for reward_t, over_t, first_t in zip(reward, over, first, strict=True):
            returns += reward_t
            lengths += ~first_t
            if over_t.any():
                for environment in np.flatnonzero(over_t):
                    self.recent.append(float(returns[environment]))
                    self.recent_lengths.append(int(lengths[environment]))
                    self.finished += 1
                returns[over_t] = 0.0
                lengths[over_t] = 0

    def drop(self, owner: str) -> None:
        """Forget the unfinished games of an owner that has gone."""
        self._returns.pop(owner, None)
        self._lengths.pop(owner, None)

    def mean(self) -> float | None:
        """Mean raw score of the last whole games, or None before the first."""
        return float(np.mean(self.recent)) if self.recent else None

    def mean_length(self) -> float | None:
        """Mean length in agent steps of the last whole games, or None before the first."""
        return float(np.mean(self.recent_lengths)) if self.recent_lengths else None
