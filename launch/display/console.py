"""Shows a living run: a picture on a terminal, short lines in any other output.

Receives events and rows from the supervisor's loop; writes to one stream. Draws within these calls, at most a few times
a second. It starts no thread, because the supervisor's process spawns other processes.
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
_LINE_EVERY_S = 10.0


def make(view: RunView, stream: TextIO | None = None, plain: bool = False) -> Console:
    """Return the console for a stream: LiveConsole for a terminal that can redraw, else PlainConsole.

    ``view``: a view of the run before its start, with name, environment and total steps. ``plain``: always lines.
    """
    out = stream or sys.stdout
    if not plain and out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveConsole(view, Terminal(file=out))
    return PlainConsole(view, out)


class LiveConsole:
    """A picture redrawn in place; when closed, the last picture stays, followed by how the run ended."""

    def __init__(self, view: RunView, terminal: Terminal, now_s: Callable[[], float] = time.monotonic) -> None:
        self.view = view
        self._terminal = terminal
        self._now_s = now_s
        self._started_s = now_s()
        self._drawn_s = self._started_s
        self._end: list[str] = []
        """Lines that are written below the last picture."""
        self._live = Live(self._picture(), console=terminal, auto_refresh=False, vertical_overflow="crop")
        self._live.start(refresh=True)

    def event(self, note: Note) -> None:
        """Add an event of a process, and draw at once."""
        elapsed_s = self._now_s() - self._started_s
        event = as_event(note, elapsed_s)
        self.view = self.view.with_event(event)
        if tells_the_end(note):
            self._end.append(timed_line(elapsed_s, event_line(event)))
        self._draw(at_once=True)

    def row(self, row: Mapping[str, Any]) -> None:
        """Add a report of the trainer."""
        self.view = self.view.with_row(row)
        self._draw()

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Set the current processes; called often, which also updates the clock."""
        self.view = replace(self.view, processes=processes)
        self._draw()

    def close(self) -> None:
        """Draw the last picture and release the terminal. A second call does nothing."""
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
    """Prints a short line for every event; for reports, and for saved checkpoints, at most one every ten seconds."""

    def __init__(self, view: RunView, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self.view = view
        self._stream = stream
        self._now_s = now_s
        self._started_s = now_s()
        self._said_s: float | None = None
        self._unsaid = False
        self._saved_s: float | None = None
        """When a checkpoint was last printed."""
        self._unsaid_save = ""
        """Line about a checkpoint saved less than ten seconds after the last printed one; printed when the run ends."""

    def event(self, note: Note) -> None:
        """Add an event of a process, and print it, unless it is a value that was chosen: `check` and `top` show these.

        A key of the file that is left out is printed.
        """
        if note.kind == "chosen" and note.fields.get("value") is not None:
            self.view = self.view.with_event(as_event(note, 0.0))
            return
        if self._unsaid and tells_the_end(note):
            self._say_row()
        elapsed_s = self._now_s() - self._started_s
        event = as_event(note, elapsed_s)
        self.view = self.view.with_event(event)
        line = timed_line(elapsed_s, event_line(event))
        if note.kind == "saved" and self._saved_s is not None and self._now_s() - self._saved_s < _LINE_EVERY_S:
            self._unsaid_save = line
            return
        if note.kind == "saved":
            self._saved_s, self._unsaid_save = self._now_s(), ""
        elif self._unsaid_save and self.view.has_ended:
            self._say(self._unsaid_save)
            self._unsaid_save = ""
        self._say(line)

    def row(self, row: Mapping[str, Any]) -> None:
        """Add a report of the trainer; the first is always printed."""
        self.view = self.view.with_row(row)
        self._unsaid = True
        if self._said_s is None or self._now_s() - self._said_s >= _LINE_EVERY_S:
            self._say_row()

    def processes(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Set the current processes, which are not printed."""
        self.view = replace(self.view, processes=processes)

    def close(self) -> None:
        """Print the last report, if it has not been printed."""
        if self._unsaid:
            self._say_row()

    def _say_row(self) -> None:
        self._said_s, self._unsaid = self._now_s(), False
        self._say(timed_line(self._now_s() - self._started_s, report_line(self.view)))

    def _say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def tells_the_end(note: Note) -> bool:
    """Whether a note gives the reason of a run's end, or the evaluations of the whole run."""
    return note.kind == "stopping" or (note.kind == "evaluated" and not note.process)


def heading(view: RunView) -> str:
    """Return the name, environment and steps of a run in one line."""
    return f"{printable(view.name)} · {printable(view.env_id)} · {as_whole(view.total_steps)} steps"


def report_line(view: RunView) -> str:
    """Return the newest report in one line, with its numbers aligned below those of the line before."""
    row, steps = view.row, len(as_whole(view.total_steps))
    if view.awaited and not row.get("updates"):
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
    """Return a line of a log: the time since the start of the run, and the text."""
    return f"{as_duration(time_s):>8}  {said}"


def as_event(note: Note, time_s: float) -> dict[str, Any]:
    """Return a supervisor's note as a row of events.jsonl."""
    return {
        **note.fields,
        "time_s": time_s,
        "kind": note.kind,
        "process": note.process,
        "incarnation": note.incarnation,
        "cause": note.cause,
    }
