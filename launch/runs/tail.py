"""Follows text files to which other processes append, starting some lines before the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_BYTES_A_LINE = 400
"""Estimate of a long line; the lines of a traceback are shorter."""


class Tail:
    """The last lines of a growing text file, then the lines that are added."""

    def __init__(self, path: Path, lines: int) -> None:
        """Start about ``lines`` lines before the end."""
        self._path = path
        size = path.stat().st_size
        self._offset = max(0, size - lines * _BYTES_A_LINE)
        with path.open("rb") as file:
            file.seek(self._offset)
            read = file.read(size - self._offset)
        ends = [i for i, byte in enumerate(read) if byte == ord("\n")]
        starts = [0, *(end + 1 for end in ends)] if self._offset == 0 else [end + 1 for end in ends]
        starts = [start for start in starts if start < len(read)]
        self._offset += starts[-lines] if 0 < lines <= len(starts) else (starts[0] if lines and starts else len(read))

    def new(self, last: bool = False) -> Iterator[str]:
        """Yield the lines written since the last call; an incomplete line only if this is the ``last`` call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            read = file.read()
        taken = read if last else read[: read.rfind(b"\n") + 1]
        self._offset += len(taken)
        yield from taken.decode("utf-8", "replace").splitlines()
