"""Follows a run through its files, and passes what is new in them to callbacks of the program.

A run does not wait for its readers: while a callback works, reports and events wait in the files.
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
"""Kind of what is new (REPORT, EVALUATION, CHECKPOINT) -> function of the run and its values; False stops the run."""

REPORT, EVALUATION, CHECKPOINT = "report", "evaluation", "checkpoint"


def refuse_callbacks(callbacks: Callbacks) -> None:
    """Raise RunError for a callback that cannot be called with a run and a dict; before anything is started."""
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
    """Reads each report and event of a run once, in the order of their times."""

    def __init__(self, found: RunFolder, from_start: bool) -> None:
        """``from_start``: whether to read also the reports and events that are in the files already."""
        self._rows, self._events = found.metrics(), found.events()
        self.view: RunView = identify(found)
        """The run's identity and its newest report."""
        if not from_start:
            self._new()

    def resumed(self, found: RunFolder) -> None:
        """Take over the keys of a run that was resumed, such as its total steps; its newest report stays."""
        self.view = replace(identify(found), row=self.view.row)

    def look(self, caller: Caller, callbacks: Callbacks) -> bool:
        """Pass everything new to the callbacks, with ``caller``; return False if one of them has returned False."""
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
