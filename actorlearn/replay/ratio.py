"""Training intensity: how often each stored transition is learned from, kept exactly (Stooke & Abbeel 2018, 5.3).

Reads and writes nothing: how many transitions were stored and how many updates done is counted by who does them, and
saved there.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How many updates go with how many transitions, as one inequality.

    It is that of Reverb's SampleToInsertRatio, in transitions learned from:

        -slack * batch  <=  (inserted - starts) * intensity - updates * batch  <=  slack * batch

    An update may be done while the left side still holds after it; transitions may be stored while the right side
    still holds after them, and always where no whole update is due: so one of the two can always go on. With slack 0
    whoever stores takes turns with who learns: after each round all updates that are ``due`` are done, and what is
    left over, less than one, is carried on and never lost. Before ``starts`` transitions there are no updates, and
    none are made up for later.
    """

    intensity: float
    """Times that a transition is learned from on average; DQN: 8 (32 every 4 steps)."""
    batch: int
    """Transitions of one update."""
    starts: int = 0
    """Transitions stored before the first update."""
    slack: float = 0.0
    """Updates by which learning may run ahead of storing, or behind it."""

    def __post_init__(self) -> None:
        """Refuse numbers that would let nothing happen."""
        if not self.intensity > 0.0:
            raise ValueError(f"intensity {self.intensity} must be above 0")
        if self.batch < 1 or self.starts < 0:
            raise ValueError(f"batch {self.batch} must be 1 or more, starts {self.starts} must be 0 or more")
        if not self.slack >= 0.0:
            raise ValueError(f"slack {self.slack} must be 0 or more")

    def due(self, inserted: int, updates: int) -> int:
        """Updates to be done now, with no regard to slack."""
        return max(0, int(self._balance(inserted, updates)))

    def may_update(self, inserted: int, updates: int) -> bool:
        """Whether one more update does not run ahead by more than slack."""
        return inserted >= self.starts and self._balance(inserted, updates + 1) >= -Fraction(self.slack)

    def may_insert(self, inserted: int, updates: int, more: int) -> bool:
        """Whether so many transitions more do not leave learning behind by more than slack, or no update is due."""
        balance = self._balance(inserted + more, updates)
        return balance <= Fraction(self.slack) or self.due(inserted, updates) == 0

    def _balance(self, inserted: int, updates: int) -> Fraction:
        """Updates that storing is ahead by; exact, so that a long run loses none to rounding."""
        intensity = Fraction(str(self.intensity))  # 0.1 means a tenth, not the nearest float
        return max(0, inserted - self.starts) * intensity / self.batch - updates
