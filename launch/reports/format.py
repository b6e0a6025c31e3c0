"""Formats numbers, times and events as text, so that they look the same in all screens, tables and lines."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from actorlearn.metric import Form
from actorlearn.metrics.registry import metric

DASH = "–"
"""Text for a value that is not known yet."""


def as_duration(seconds: float | None) -> str:
    """Return a duration as 2:03 (minutes, seconds), 1:02:03 or 4 d 01:02:03."""
    if seconds is None or not isfinite(seconds):
        return "-:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def as_span(seconds: float) -> str:
    """Return a rough duration in one unit: 40 s, 15 min, 3 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def as_rate(per_s: float) -> str:
    """Return a rate; it has one decimal if it is below 10: 1.3, 20, 1,234."""
    return f"{per_s:.1f}" if per_s < 10 else f"{per_s:,.0f}"


def as_whole(value: float | None) -> str:
    """Return a count or a rate: 12,346."""
    return DASH if value is None else f"{value:,.0f}"


def as_number(value: float | None) -> str:
    """Return a score or a loss with about three significant digits: 0.0123 as 0.012."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 10 or value == 0:
        return f"{value:.1f}"
    return f"{value:.3f}" if size >= 0.001 else f"{value:.1e}"


def as_percent(value: float | None) -> str:
    """Return a share: 0.254 as 25%."""
    return DASH if value is None else f"{100 * value:.0f}%"


def as_bytes(count: float) -> str:
    """Return an amount of data: 12.3 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


_FORMS = {Form.WHOLE: as_whole, Form.NUMBER: as_number, Form.PERCENT: as_percent, Form.DURATION: as_duration}


def metric_value(row: Mapping[str, Any], name: str) -> str:
    """Return the value of a metric as text, in the form that is registered for it."""
    return _FORMS[metric(name).form](row.get(name))


def skips_frames(row: Mapping[str, Any]) -> bool:
    """Whether frames/s differ from steps/s, so that it is worth showing both; on Atari a step is four frames."""
    return row.get("frames_per_s") not in (None, row.get("env_steps_per_s"))


def unlearned(summary: Mapping[str, Any]) -> str:
    """Return a message if a run ended before its first update, with the steps that are lost; "" for other runs."""
    made = summary.get("steps_made")
    if not made or summary.get("updates"):
        return ""
    return f"before the first update: {as_whole(made)} steps were made and not learned from"


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event as one line of text: simulator-1 died (incarnation 2): killed by signal 9."""
    process, kind, cause = event.get("process"), str(event.get("kind", "")), event.get("cause")
    if event.get("error"):
        cause = f"{cause}: {event['error']}"
    if not cause and event.get("env_steps") is not None:
        cause = f"{event['env_steps']:,} steps"
    said = f"{process} {kind}" if process else kind
    if process and (event.get("incarnation") or 0) > 0:
        said += f" (incarnation {event['incarnation']})"
    return printable(" ".join(f"{said}: {cause}".split()) if cause else said)


def printable(text: str) -> str:
    """Return a text with control characters replaced, so that it cannot move the cursor or change colours."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
