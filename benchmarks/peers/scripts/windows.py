"""Steps a second in windows of two seconds, which the other scripts here count."""

from __future__ import annotations

import time

WINDOW_S = 2.0


class Windows:
    """Steps a second of successive windows; each ends with the first count after WINDOW_S."""

    def __init__(self) -> None:
        """Begin the first window."""
        self.rates: list[float] = []
        self._began_s, self._steps = time.monotonic(), 0

    def count(self, steps: int) -> None:
        """Count ``steps`` more steps."""
        self._steps += steps
        now_s = time.monotonic()
        if now_s - self._began_s >= WINDOW_S:
            self.rates.append(self._steps / (now_s - self._began_s))
            self._began_s, self._steps = now_s, 0
