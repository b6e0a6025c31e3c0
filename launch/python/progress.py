"""The progress bar of a run: a bar of rich in a terminal, HTML in a notebook. It uses no thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from launch.display.console import LINE_EVERY_S
from launch.reports.format import as_duration, as_whole, metric_value, printable
from launch.runs.view import RunView


class TerminalBar:
    """A bar of rich that is redrawn in place."""

    def __init__(self, view: RunView, terminal: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[said]}"),
        )
        self._progress = Progress(*columns, console=terminal, auto_refresh=False)
        self._task = self._progress.add_task(view.name, total=view.end_steps, said="starting")
        self._progress.start()

    def show(self, view: RunView) -> None:
        """Draw the bar for the newest report."""
        total, done = view.end_steps, view.env_steps
        self._progress.update(self._task, total=total, completed=done, said=line(view), refresh=True)

    def close(self) -> None:
        """Release the terminal; the bar remains on it."""
        self._progress.stop()


class Lines:
    """Prints a line every ``LINE_EVERY_S`` seconds and at the end, for output that is no terminal."""

    def __init__(self, view: RunView, now_s: Callable[[], float] = time.monotonic) -> None:
        self._view, self._now_s = view, now_s
        self._printed, self._printed_s = "", now_s()

    def show(self, view: RunView) -> None:
        """Print the newest report, unless the last one was printed less than ``LINE_EVERY_S`` seconds before."""
        self._view = view
        if self._now_s() - self._printed_s >= LINE_EVERY_S:
            self._print()

    def close(self) -> None:
        """Print the newest report, unless it is printed already."""
        self._print()

    def _print(self) -> None:
        text = f"{printable(self._view.name)}: {line(self._view)}"  # in one line, however long it is
        if text != self._printed:
            print(text, flush=True)
        self._printed, self._printed_s = text, self._now_s()


class NotebookBar:
    """A bar in the output of a notebook's cell; a new one replaces it for each report. It needs no widgets."""

    def __init__(self, view: RunView) -> None:
        ipython: Any = import_module("IPython.display")  # it is there in a notebook, and has few types
        self._make = ipython.HTML
        self._shown = ipython.display(self._make(self._html(view, "starting")), display_id=True)

    def show(self, view: RunView) -> None:
        """Replace the bar by one for the newest report."""
        self._shown.update(self._make(self._html(view, line(view))))

    def close(self) -> None:
        """Do nothing: the bar remains in the output."""

    @staticmethod
    def _html(view: RunView, said: str) -> str:
        bar = f'<progress max="{view.end_steps or 1}" value="{view.env_steps}"></progress>'
        return f"<div><code>{escape(view.name)}</code> {bar} {escape(said)}</div>"


def make(view: RunView) -> NotebookBar | TerminalBar | Lines:
    """Return a NotebookBar in a notebook, a TerminalBar in a terminal, else Lines."""
    terminal = Console()
    if terminal.is_jupyter:
        return NotebookBar(view)
    return TerminalBar(view, terminal) if terminal.is_terminal else Lines(view)


def line(view: RunView) -> str:
    """Return the text beside the bar: steps, steps/s, score and time left in the newest report."""
    if not view.row:
        return "starting"
    if view.awaits_learning:
        return view.awaited
    rate, score = (metric_value(view.row, name) for name in ("env_steps_per_s", "episode_return_mean"))
    steps = f"{as_whole(view.env_steps)} of {as_whole(view.end_steps)} steps"
    return f"{steps} · {rate} steps/s · score {score} · {as_duration(view.left_s)} left"
