"""Training intensity: how often each stored transition is learned from, met exactly (Stooke & Abbeel 2018, 5.3).

Pure: the learner counts stored transitions and learned minibatches, and saves both counts.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Number of minibatches due after a number of stored transitions.

    After each rollout the learner learns all minibatches that are ``due``; a fraction is carried over. Before
    ``starts`` transitions no minibatches are due, and they are not made up for later.

    In every mode each learner has its own simulators and its own replay. At most ``simulators.blocks`` rollouts are
    open that have not been learned from, and the minibatches of a rollout are learned with the next rollout. So
    learning is never ahead of acting, and is behind it by at most (blocks + 1) * steps of a rollout * intensity / batch
    minibatches. With 1 block, acting waits for learning.
    """

    intensity: float
    """How often each transition is learned from on average; Nature DQN: 8 (32 transitions every 4 steps)."""
    batch: int
    """Transitions of one minibatch."""
    starts: int = 0
    """Transitions stored before the first minibatch."""

    def __post_init__(self) -> None:
        """Raise ValueError for numbers with which no minibatch would ever be due."""
        if not self.intensity > 0.0:
            raise ValueError(f"intensity {self.intensity} must be above 0")
        if self.batch < 1 or self.starts < 0:
            raise ValueError(f"batch {self.batch} must be 1 or more, starts {self.starts} must be 0 or more")

    def due(self, inserted: int, minibatches: int) -> int:
        """Return the number of minibatches due, from the totals so far; exact, without rounding errors in long runs."""
        intensity = Fraction(str(self.intensity))  # 0.1 means a tenth, not the nearest float
        return max(0, int(max(0, inserted - self.starts) * intensity / self.batch - minibatches))
