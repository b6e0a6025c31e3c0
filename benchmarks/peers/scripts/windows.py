"""Steps a second in windows of two seconds, counted by the scripts that lie beside it."""

from __future__ import annotations

import time

WINDOW_S = 2.0


class Windows:
    """Rates of one window after the other; each ends with the first count after its time."""

    def __init__(self) -> None:
        """The first window begins now."""
        self.rates: list[float] = []
        self._began_s, self._steps = time.monotonic(), 0

    def count(self, steps: int) -> None:
        """So many more steps have been made."""
        self._steps += steps
        now_s = time.monotonic()
        if now_s - self._began_s >= WINDOW_S:
            self.rates.append(self._steps / (now_s - self._began_s))
            self._began_s, self._steps = now_s, 0
