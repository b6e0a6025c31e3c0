"""Reads new reports and events in a run's files, and calls the callbacks of the user's program with them.

The run does not wait for callbacks: while one of them works, later reports and events wait in the files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from launch.errors import RunError
from launch.reports import evaluations
from launch.runs.find import RunFolder
from launch.runs.view import RunView, identify

Values = dict[str, Any]
Caller = TypeVar("Caller")
Callbacks = Mapping[str, Callable[[Any, Values], object] | None]
"""REPORT, EVALUATION or CHECKPOINT -> function of the run and a dict; if it returns False, the run is stopped."""

REPORT, EVALUATION, CHECKPOINT = "report", "evaluation", "checkpoint"


def refuse_callbacks(callbacks: Callbacks) -> None:
    """Raise RunError for a callback that cannot be called with two arguments, a run and a dict."""
    for kind, call in callbacks.items():
        if call is None:
            continue
        way_out = f"the function is called with two arguments, the run and a dict: write def {_name(call)}(run, {kind})"
        if not callable(call):
            raise RunError(f"on_{kind}={call!r:.100}: is not a function; {way_out}")
        if inspect.iscoroutinefunction(call) or inspect.isgeneratorfunction(call):
            raise RunError(
                f"on_{kind}: {_name(call)} is a coroutine or generator function, so calling it runs nothing; {way_out}"
            )
        try:
            signature = inspect.signature(call)
        except ValueError:
            continue  # code that is not Python has no signature
        try:
            signature.bind(None, {})
        except TypeError:
            raise RunError(f"on_{kind}: {_name(call)} takes {signature}, but {way_out}") from None


def _name(call: object) -> str:
    name = getattr(call, "__name__", "")
    return name if name.isidentifier() else "call"


class Follower:
    """Reads the reports and events of a run, each once and in the order of time, and passes them to callbacks."""

    def __init__(self, found: RunFolder, from_start: bool) -> None:
        """``from_start``: whether callbacks also get the reports and events that are already in the run's files."""
        self._rows, self._events = found.metrics(), found.events()
        self.view: RunView = identify(found)
        """A view of the run with its newest report."""
        if not from_start:
            self._new()

    def resumed(self, found: RunFolder) -> None:
        """Read the topology again, because a resume of the run may have changed keys such as total_steps."""
        self.view = replace(identify(found), row=self.view.row)

    def look(self, caller: Caller, callbacks: Callbacks) -> bool:
        """Call the callbacks with ``caller`` and each new report or event; return False if a callback returns False."""
        results = []
        for kind, values in self._new():
            if call := callbacks.get(kind):
                results.append(call(caller, values))
        return not any(result is False for result in results)

    def _new(self) -> list[tuple[str, Values]]:
        found = []
        for row in self._rows.new():
            self.view = self.view.with_row(row)
            found.append((row.get("time_s") or 0.0, REPORT, row))
        for event in self._events.new():
            time_s = event.get("time_s") or 0.0
            found += [(time_s, EVALUATION, result) for result in evaluations.results([event])]
            if event.get("kind") == "saved":
                found.append((time_s, CHECKPOINT, event))
        return [(kind, values) for _, kind, values in sorted(found, key=lambda each: each[0])]
