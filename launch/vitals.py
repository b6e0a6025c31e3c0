"""Signs of life: reads the progress segment, says who hangs, and where the time of all processes goes.

A process that beats is alive, whether it works or waits. How long it may be silent is learned from its own longest
silence so far, so a slow but healthy loop is left in peace.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.timings import SECTIONS

HANG_LIMIT_S = {"simulator": 10.0, "inference": 10.0, "trainer": 30.0, "evaluator": 30.0}
"""Shortest silence that counts as a hang. A trainer may be writing a checkpoint, an evaluator making its games."""

PATIENCE = 5.0
"""A hang is also longer than this many times the longest silence that a beat has ended."""

MOST_S = 300.0
GAP_S = 1.0


class AwakeClock:
    """Monotonic seconds that stand still while this process could not run: a frozen machine must not time out."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._last_s = time.monotonic()
        self._now_s = 0.0

    def advance(self) -> tuple[float, bool]:
        """The time now, and whether there was a gap since the last call. Called by every turn of the loop."""
        elapsed_s = time.monotonic() - self._last_s
        self._last_s += elapsed_s
        self._now_s += min(elapsed_s, GAP_S)
        return self._now_s, elapsed_s > GAP_S


@dataclass
class _Pulse:
    beat_ns: int
    seen_s: float
    longest_s: float = 0.0


class Beats:
    """Who has been silent for too long."""

    def __init__(self, beat_ns: NDArray[np.int64], limits_s: Mapping[str, float] = HANG_LIMIT_S) -> None:
        """``beat_ns`` [rows, 8] is the progress segment's; ``limits_s`` by role."""
        self._beat_ns = beat_ns
        self._limits_s = limits_s
        self._pulses: dict[tuple[str, int], _Pulse] = {}

    def silent(self, watched: Iterable[tuple[str, int, str, int]], now_s: float) -> list[tuple[str, int, float]]:
        """(name, incarnation, seconds) of those over their limit, among (name, incarnation, role, row)."""
        found = []
        pulses = {}
        for name, incarnation, role, row in watched:
            beat_ns = int(self._beat_ns[row, 0])
            pulse = self._pulses.get((name, incarnation)) or _Pulse(beat_ns, now_s)
            pulses[name, incarnation] = pulse
            silence_s = now_s - pulse.seen_s
            if beat_ns != pulse.beat_ns:
                pulse.longest_s = max(pulse.longest_s, silence_s)
                pulse.beat_ns, pulse.seen_s = beat_ns, now_s
            elif silence_s > min(MOST_S, max(self._limits_s[role], PATIENCE * pulse.longest_s)):
                found.append((name, incarnation, silence_s))
        self._pulses = pulses
        return found

    def forgive(self, now_s: float) -> None:
        """Give everybody a fresh allowance: we were not looking."""
        for pulse in self._pulses.values():
            pulse.seen_s = now_s


class Shares:
    """Where the time went since the last look."""

    def __init__(self, section_ns: NDArray[np.int64]) -> None:
        """``section_ns`` [rows, sections] is the progress segment's."""
        self._section_ns = section_ns
        self._before_ns = section_ns.copy()

    def look(self) -> NDArray[np.float64]:
        """Nanoseconds [rows, sections] since the last look; a row that began anew counts from its beginning."""
        now_ns = self._section_ns.copy()
        anew = (now_ns < self._before_ns).any(axis=1, keepdims=True)
        spent = np.where(anew, now_ns, now_ns - self._before_ns)
        self._before_ns = now_ns
        return spent[:, : len(SECTIONS)].astype(np.float64)

    def of_all(self, rows: list[int]) -> dict[str, float]:
        """Share of each section, 0 to 1, in the time of these rows together; empty when none was counted."""
        spent = self.look()[rows].sum(axis=0)
        total = spent.sum()
        return {f"share_{name}": float(part / total) for name, part in zip(SECTIONS, spent, strict=True) if total > 0}

    def busy(self) -> list[float | None]:
        """Of each row the share that was not waiting; None where nothing was counted."""
        spent = self.look()
        total = spent.sum(axis=1)
        waiting = spent[:, SECTIONS.index("wait")]
        return [float(1 - w / t) if t > 0 else None for w, t in zip(waiting, total, strict=True)]
