"""Classes of policy lag, for which some metrics are recorded separately.

The policy lag of a transition is the number of updates by which the weights that chose its action are older than the
weights that learn from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LagClass:
    """A range of policy lags, in updates, for which metrics are recorded separately."""

    name: str
    """Suffix that this class adds to the name of a metric."""
    first: int
    """Smallest lag of the class."""
    last: int | None
    """Largest lag of the class; None: no limit."""

    def __contains__(self, lag: int) -> bool:
        return self.first <= lag and (self.last is None or lag <= self.last)

    @property
    def words(self) -> str:
        """The range in words, such as "2 to 3 updates"."""
        if self.last is None:
            return f"{self.first} or more updates"
        if self.last > self.first:
            return f"{self.first} to {self.last} updates"
        return f"{self.first} update{'s' * (self.first != 1)}"


LAG_CLASSES = (
    LagClass("0", 0, 0),
    LagClass("1", 1, 1),
    LagClass("2_to_3", 2, 3),
    LagClass("4_to_7", 4, 7),
    LagClass("8_or_more", 8, None),
)
"""Classes that cover all lags, the smallest first."""
