"""How often something was wrong that stops nothing, and which of these times are told of. Pure."""

from __future__ import annotations

FIRST = 10
"""So many are told one by one; after them the hundredth, the thousandth and so on, so that no flood fills a disk."""


class Complaints:
    """Counted from the start of a run."""

    def __init__(self) -> None:
        """None yet."""
        self.count = 0

    def told(self, what: str) -> str:
        """Count one more; the line about it, empty where none is written."""
        self.count += 1
        if self.count <= FIRST:
            return what
        return f"{what} (the {self.count:,}th complaint)" if str(self.count).strip("0") == "1" else ""
