"""Counts problems that stop nothing, and limits the number of lines about them. Pure."""

from __future__ import annotations

FIRST = 10
"""Complaints that get a line each; after them only the hundredth, the thousandth and so on: no flood fills a disk."""


class Complaints:
    """Complaints since the start of a run."""

    def __init__(self) -> None:
        """Start at none."""
        self.count = 0

    def count_one(self, what: str) -> str:
        """Count a problem; return the line to print about it, empty for none."""
        self.count += 1
        if self.count <= FIRST:
            return what
        return f"{what} (the {self.count:,}th complaint)" if str(self.count).strip("0") == "1" else ""
