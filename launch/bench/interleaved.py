"""Measures several cases in turn, again and again, so that changes of the machine's speed affect all cases equally.

The speed of a machine may change by a third within minutes. Therefore only the medians of cases that were measured
together are compared, as ratios.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one case."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)

    def as_json(self) -> dict[str, object]:
        """Return median, lowest, highest and all values in the order measured."""
        return {"median": self.median, "low": self.low, "high": self.high, "values": list(self.values)}


def interleave(cases: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, Spread]:
    """Measure all cases in turn, ``repetitions`` times; return the measurements of each case.

    ``cases``: name -> function that measures once and returns the rate. Progress is shown on standard error.
    """
    values: dict[str, list[float]] = {name: [] for name in cases}
    with progress_bar() as progress:
        task = progress.add_task("", total=repetitions * len(cases))
        for repetition in range(repetitions):
            for name, measure in cases.items():
                progress.update(task, description=f"{name} ({repetition + 1} of {repetitions})")
                values[name].append(measure())
                progress.advance(task)
    return {name: Spread(tuple(measured)) for name, measured in values.items()}


def progress_bar() -> Progress:
    """Return a progress bar on standard error, which is shown only on a terminal."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
