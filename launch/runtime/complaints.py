"""Counts what was wrong and stops nothing, and says which of it gets a line of its own. Pure."""

from __future__ import annotations

FIRST = 10
"""Complaints that get a line each; after them only the hundredth, the thousandth and so on: no flood fills a disk."""


class Complaints:
    """Complaints since the start of a run."""

    def __init__(self) -> None:
        """Start at none."""
        self.count = 0

    def count_one(self, what: str) -> str:
        """Count one more; return the line about it, empty where it gets none."""
        self.count += 1
        if self.count <= FIRST:
            return what
        return f"{what} (the {self.count:,}th complaint)" if str(self.count).strip("0") == "1" else ""
