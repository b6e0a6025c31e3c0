"""Training intensity: how often each stored transition is learned from, kept exactly (Stooke & Abbeel 2018, 5.3).

Pure: the learner counts the transitions stored and the minibatches done, and saves both.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Number of minibatches due after a number of stored transitions.

    After each rollout all that are ``due`` are done; a fraction left over is carried on and never lost. Before
    ``starts`` transitions there are no minibatches, and none are made up for later.

    The slack is a matter of rollouts, in every mode, as each learner has simulators and a replay of its own: of
    rollouts that are not learned from yet no more than ``blocks`` (``simulators.blocks``) are open, and the minibatches
    of each are done with the rollout after it. So learning never runs ahead of acting, and is never behind by more than
    (blocks + 1) * steps of a rollout * intensity / batch minibatches: with 1 block acting waits for it.
    """

    intensity: float
    """Times that each transition is learned from on average; Nature DQN: 8 (32 transitions every 4 steps)."""
    batch: int
    """Transitions of one minibatch."""
    starts: int = 0
    """Transitions stored before the first minibatch."""

    def __post_init__(self) -> None:
        """Refuse numbers by which no minibatch would ever be due."""
        if not self.intensity > 0.0:
            raise ValueError(f"intensity {self.intensity} must be above 0")
        if self.batch < 1 or self.starts < 0:
            raise ValueError(f"batch {self.batch} must be 1 or more, starts {self.starts} must be 0 or more")

    def due(self, inserted: int, minibatches: int) -> int:
        """Return the minibatches to do now, by the totals so far; exact, so that a long run loses none to rounding."""
        intensity = Fraction(str(self.intensity))  # 0.1 means a tenth, not the nearest float
        return max(0, int(max(0, inserted - self.starts) * intensity / self.batch - minibatches))
