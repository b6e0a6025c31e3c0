"""Shows the progress of a run to the user who has started it: a changing screen on a terminal, else short lines.

A console draws only when it is called with an event or with metrics, and at most a few times a second. It uses no
thread, because the process that it runs in starts other processes, which is unsafe with threads.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console as Terminal
from rich.live import Live

from launch.display.screen import picture
from launch.reports.format import as_duration, as_whole, event_line, metric_value, printable, skips_frames
from launch.runs.view import RunView

if TYPE_CHECKING:
    from launch.supervision.events import Console, Note

_DRAW_EVERY_S = 0.25
"""Least seconds between two drawings that no event has caused."""
LINE_EVERY_S = 10.0
"""Least seconds between two printed reports, and between two printed events about saved checkpoints, by default."""


def make(view: RunView, stream: TextIO | None = None, plain: bool = False) -> Console:
    """Return a LiveConsole for a terminal that can redraw, else a PlainConsole.

    ``view``: a view of the run with its name, environment and total steps; a resumed run's times continue from its
    ``elapsed_s``. ``stream``: default standard output. ``plain``: whether to return in any case a PlainConsole, which
    then prints every report and every checkpoint.
    """
    out = stream or sys.stdout
    if not plain and out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveConsole(view, Terminal(file=out))
    return PlainConsole(view, out, every_s=0.0 if plain else LINE_EVERY_S)


class LiveConsole:
    """Shows the run as one screen that changes in place (``launch/display/screen.py``).

    After ``close`` the last screen stays on the terminal, with the reason of the run's end below it.
    """

    def __init__(self, view: RunView, terminal: Terminal, now_s: Callable[[], float] = time.monotonic) -> None:
        self.view = view
        self._terminal = terminal
        self._now_s = now_s
        self._drawn_s = now_s()
        self._started_s = self._drawn_s - (view.elapsed_s or 0.0)
        self._end: list[str] = []
        """Lines that are written below the last screen."""
        self._live = Live(self._picture(), console=terminal, auto_refresh=False, vertical_overflow="crop")
        self._live.start(refresh=True)

    def event(self, note: Note) -> None:
        """Show an event at once."""
        elapsed_s = self._now_s() - self._started_s
        event = as_event(note, elapsed_s)
        self.view = self.view.with_event(event)
        if tells_the_end(note):
            self._end.append(timed_line(elapsed_s, event_line(event)))
        self._draw(at_once=True)

    def row(self, row: Mapping[str, Any]) -> None:
        """Show new metrics."""
        self.view = self.view.with_row(row)
        self._draw()

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Show the present state of the processes, and the time."""
        self.view = replace(self.view, processes=processes)
        self._draw()

    def close(self) -> None:
        """Draw the last screen and release the terminal. A second call does nothing."""
        if self._live.is_started:
            self._draw(at_once=True)
            self._live.stop()
            for line in self._end:
                self._terminal.print(line, markup=False, highlight=False)

    def _draw(self, at_once: bool = False) -> None:
        now_s = self._now_s()
        if self._live.is_started and (at_once or now_s - self._drawn_s >= _DRAW_EVERY_S):
            self._drawn_s = now_s
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Any:
        size = self._terminal.size
        return picture(replace(self.view, elapsed_s=self._now_s() - self._started_s), size.width, size.height)


class PlainConsole:
    """Prints each event as a line, and every ``every_s`` seconds a line of metrics and the newest saved checkpoint.

    The first and the last metrics and the last checkpoint are always printed. With 0 seconds, all of them are.
    """

    def __init__(
        self,
        view: RunView,
        stream: TextIO,
        now_s: Callable[[], float] = time.monotonic,
        every_s: float = LINE_EVERY_S,
    ) -> None:
        self.view = view
        self._stream = stream
        self._now_s = now_s
        self._every_s = every_s
        self._started_s = now_s() - (view.elapsed_s or 0.0)
        self._row_s: float | None = None
        """When a report was last printed."""
        self._row_is_waiting = False
        """Whether the newest report has not been printed."""
        self._save_s: float | None = None
        """When a saved checkpoint was last printed."""
        self._waiting_save = ""
        """Line about a saved checkpoint that has not been printed; printed before the event with which the run ends."""

    def event(self, note: Note) -> None:
        """Print an event, except a value that actorlearn has chosen for a key (kind "chosen"), which `top` shows."""
        if note.kind == "chosen" and note.fields.get("value") is not None:
            self.view = self.view.with_event(as_event(note, 0.0))
            return
        if self._row_is_waiting and tells_the_end(note):
            self._print_row()
        elapsed_s = self._now_s() - self._started_s
        event = as_event(note, elapsed_s)
        self.view = self.view.with_event(event)
        line = timed_line(elapsed_s, event_line(event))
        if note.kind == "saved" and self._save_s is not None and self._now_s() - self._save_s < self._every_s:
            self._waiting_save = line
            return
        if note.kind == "saved":
            self._save_s, self._waiting_save = self._now_s(), ""
        elif self._waiting_save and self.view.has_ended:
            self._print(self._waiting_save)
            self._waiting_save = ""
        self._print(line)

    def row(self, row: Mapping[str, Any]) -> None:
        """Print metrics, unless some were printed less than ``every_s`` seconds ago."""
        self.view = self.view.with_row(row)
        self._row_is_waiting = True
        if self._row_s is None or self._now_s() - self._row_s >= self._every_s:
            self._print_row()

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Keep the state of the processes in ``view``; nothing is printed."""
        self.view = replace(self.view, processes=processes)

    def close(self) -> None:
        """Print the last metrics, if they have not been printed."""
        if self._row_is_waiting:
            self._print_row()

    def _print_row(self) -> None:
        self._row_s, self._row_is_waiting = self._now_s(), False
        self._print(timed_line(self._now_s() - self._started_s, report_line(self.view)))

    def _print(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def tells_the_end(note: Note) -> bool:
    """Whether an event tells why the run ends, or sums up all evaluations of the run."""
    return note.kind == "stopping" or (note.kind == "evaluated" and not note.process)


def heading(view: RunView) -> str:
    """Return the name, environment and steps of a run in one line."""
    return f"{printable(view.name)} · {printable(view.env_id)} · {as_whole(view.total_steps)} steps"


def report_line(view: RunView) -> str:
    """Return the newest metrics as one line; numbers have fixed widths, so that successive lines are aligned."""
    row, steps = view.row, len(as_whole(view.end_steps))
    if view.awaits_learning:
        return view.awaited
    frames = [f"{metric_value(row, 'frames_per_s'):>6} frames/s"] if skips_frames(row) else []
    return " · ".join(
        (
            f"{view.env_steps:>{steps},} steps ({100 * view.share_done:5.1f}%)",
            f"{metric_value(row, 'env_steps_per_s'):>6} steps/s",
            *frames,
            f"score {metric_value(row, 'episode_return_mean'):>6} ({metric_value(row, 'episodes'):>6} games)",
            f"{metric_value(row, 'updates'):>6} updates",
            f"lag {metric_value(row, 'policy_lag_mean'):>5}",
            f"{as_duration(view.left_s):>7} left",
            *filter(None, [view.awaited]),
        )
    )


def timed_line(time_s: float | None, said: str) -> str:
    """Return a text after a time in seconds, written as 1:02:03."""
    return f"{as_duration(time_s):>8}  {said}"


def as_event(note: Note, time_s: float) -> dict[str, Any]:
    """Return an event with the fields that it has in events.jsonl; ``time_s``: seconds since the start of the run."""
    return {
        **note.fields,
        "time_s": time_s,
        "kind": note.kind,
        "process": note.process,
        "incarnation": note.incarnation,
        "cause": note.cause,
    }
