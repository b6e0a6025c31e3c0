"""A count of problems that do not stop a run, which limits the number of lines about them."""

from __future__ import annotations

FIRST = 10
"""Number of complaints that each get a line; afterwards only the 100th, 1,000th and so on, so as not to fill a disk."""


class Complaints:
    """Complaints since the start of a run."""

    def __init__(self) -> None:
        """Start at zero."""
        self.count = 0

    def count_one(self, what: str) -> str:
        """Count a problem; returns the line to print about it, or an empty string."""
        self.count += 1
        if self.count <= FIRST:
            return what
        return f"{what} (the {self.count:,}th complaint)" if str(self.count).strip("0") == "1" else ""
