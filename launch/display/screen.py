"""The picture of a run: pure functions from a ``RunView`` to something rich can print.

Writes nothing and asks no clock. A number that is not yet known is shown as a dash, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actorlearn.algorithms.lags import LAG_CLASSES
from actorlearn.metrics.registry import DROPPED, metric
from actorlearn.metrics.timings import SECTIONS
from launch.reports.checks import is_number
from launch.reports.format import (
    DASH,
    as_duration,
    as_number,
    as_percent,
    as_whole,
    event_line,
    metric_value,
    printable,
)
from launch.runs.view import ALARMS, RunView

_COLOURS = dict(zip(SECTIONS, ("cyan", "magenta", "yellow", "blue", "green", "bright_black"), strict=True))
_STATES = {
    "running": "green",
    "finished": "green",
    "stopped": "bright_black",
    "exited": "bright_black",
    "failed": "bold red",
    "fatal": "bold red",
    "died": "bold red",
}
_EVENTS = 5
_HIGH = 30  # lines of a terminal with room for all of them
_VERY_HIGH = 40  # lines of a terminal with room for reasons too


def picture(view: RunView, width: int, height: int) -> RenderableType:
    """The whole screen for a terminal of this size."""
    parts = [
        [_header(view, width), _progress(view, width)],
        _progress_metrics(view),
        _learning(view.row, width),
        _stages(stage_shares(view.row), width),
        _chosen(view.choices, why=height >= _VERY_HIGH),
    ]
    lines = [line for part in parts if part for line in (*part, Text())]
    newest = list(view.events[-_EVENTS if height >= _HIGH else -2 :])
    if view.alarm and view.alarm not in newest:
        newest[0] = view.alarm
    events = [_event(event) for event in newest]
    if events:
        events = [Text(), Text(" events", style="bold"), *events]
    room = max(3, height - len(lines) - len(events) - 2)  # one line for the heading, one for the cursor
    return Group(*lines, _processes(fit(view.processes or (), room), width), *events)


def _header(view: RunView, width: int) -> RenderableType:
    colour = _STATES.get(view.status, "yellow")
    rest = "" if view.has_ended else f" · {as_duration(view.left_s)} left"
    right = Text.assemble((view.status, colour), f" · {as_duration(view.elapsed_s)}{rest} ")
    left = Text.assemble((f" {printable(view.name)}", "bold"), "  ", (printable(view.env_id), "cyan"))
    if len(left) + len(right) + 2 > width:  # the name usually says the environment too
        left = Text(f" {printable(view.name)}", style="bold")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(left, right)
    return grid


def _progress(view: RunView, width: int) -> RenderableType:
    share = view.share_done
    text = Text(f"{view.env_steps:,} / {as_whole(view.total_steps)} steps  {100 * share:5.1f}% ")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=1.0, completed=share, width=max(10, width - len(text) - 4))
    grid.add_row(Padding(bar, (0, 0, 0, 1)), text)
    return grid


def _progress_metrics(view: RunView) -> list[RenderableType]:
    row = view.row
    return [
        _cells(
            _cell(row, "env_steps_per_s", "bold"),
            _cell(row, "episode_return_mean", "bold"),
            _cell(row, "episodes"),
            _cell(row, "updates"),
        ),
        _cells(
            _cell(row, "frames_per_s"),
            (as_number(view.best_return), "best mean", ""),
            _cell(row, "episode_length_mean"),
            _cell(row, "policy_lag_mean"),
        ),
        *([_account(row)] if row.get("steps_used") is not None else []),
        *([_lags(row)] if row.get("policy_lag_max") else []),
    ]


def _account(row: Mapping[str, Any]) -> RenderableType:
    """Steps used, and steps dropped for each reason."""
    dropped = row.get("steps_dropped") or 0
    why = ", ".join(f"{metric(name).shown_as} {row[name]:,}" for name in DROPPED if row.get(name))
    said = f" {row['steps_used']:,} steps used, {dropped:,} dropped{f': {why}' if why else ''}"
    return Text(said, style="bold red" if dropped else "bright_black", no_wrap=True, overflow="ellipsis")


def _lags(row: Mapping[str, Any]) -> RenderableType:
    """Share of steps in each class of policy lags, and how much of them counts, where ratios say it."""
    told = []
    for one in LAG_CLASSES:
        if not row.get(f"policy_lag_{one.name}"):
            continue
        said = [f"{one.words} {metric_value(row, f'policy_lag_{one.name}')}"]
        for name, words in (("effective_sample_size", "effective"), ("clipped_share", "clipped")):
            if row.get(f"{name}_{one.name}") is not None:
                said.append(f"{metric_value(row, f'{name}_{one.name}')} {words}")
        told.append(", ".join(said))
    return Text(f" lag: {'; '.join(told)}", style="bright_black", no_wrap=True, overflow="ellipsis")


def _cell(row: Mapping[str, Any], name: str, style: str = "") -> tuple[str, str, str]:
    """Return a metric of a row as value, label and style."""
    return metric_value(row, name), printable(metric(name).shown_as), style


def _cells(*cells: tuple[str, str, str]) -> RenderableType:
    """Return values with their labels, in columns of equal width."""
    grid = Table.grid(expand=True)
    for _ in cells:
        grid.add_column(no_wrap=True, ratio=1)
    grid.add_row(
        *(Text.assemble((f"{value:>9}", style), (f" {label}", "bright_black")) for value, label, style in cells)
    )
    return grid


def _learning(row: Mapping[str, Any], width: int) -> list[RenderableType]:
    """The metrics that say how learning goes, in as many columns as there is room for."""
    names = learning_metrics(row)
    columns = max(1, width // 26)
    lines: list[RenderableType] = []
    for start in range(0, len(names), columns):
        grid = Table.grid(expand=True)
        for _ in range(columns):
            grid.add_column(no_wrap=True, ratio=1)
        cells = (_cell(row, name) for name in names[start : start + columns])
        grid.add_row(*(Text.assemble(f"{value:>7}", (f" {label}", "bright_black")) for value, label, _ in cells))
        lines.append(grid)
    return lines


def _stages(shares: Mapping[str, float], width: int) -> list[RenderableType]:
    """One bar in which each stage has its share, and a legend; the slow stage is named."""
    if not shares:
        return []
    slow, bar, legend = slow_stage(shares), Text(" "), Text(" ", no_wrap=True, overflow="ellipsis")
    edge = total = 0.0
    for stage, reported in shares.items():
        share = min(max(reported, 0.0), 1.0)  # a child may say anything
        total += share
        until = round(min(1.0, total) * (width - 2))
        bar.append("█" * int(until - edge), style=_COLOURS[stage])
        edge = until
        legend.append("■ ", style=_COLOURS[stage])
        legend.append(f"{stage} {as_percent(share)}", style="bold" if stage == slow else "")
        legend.append("  ")
    heading = Text.assemble((" time by stage", "bold"), (f"   most work: {slow}" if slow else "", "yellow"))
    return [heading, bar, legend]


def _chosen(choices: Sequence[Mapping[str, Any]], why: bool) -> list[RenderableType]:
    """Choices that were left to the machine: a line each with its reason, or all values in one."""
    if not choices:
        return []
    heading = Text(" chosen", style="bold", no_wrap=True, overflow="ellipsis")
    values = [(printable(str(choice.get("key"))), printable(str(choice.get("value")))) for choice in choices]
    if not why:
        return [heading.append("  " + " · ".join(f"{key} {value}" for key, value in values), style="not bold")]
    lines = [heading]
    for (key, value), choice in zip(values, choices, strict=True):
        line = Text.assemble(f" {key} {value}", (f"  {printable(str(choice.get('why')))}", "bright_black"))
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    return list[RenderableType](lines)


def _processes(lines: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="bold", show_edge=False)
    table.add_column("process", no_wrap=True, min_width=14)
    table.add_column("state", no_wrap=True, min_width=9)
    several = any(line.get("node") for line in lines)
    if several:
        table.add_column("node", no_wrap=True, min_width=5)
    for heading in ("incarnation", "pid", "busy"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    table.add_column("", no_wrap=True)
    cells = max(8, min(40, width - 62))
    for line in lines:
        state, busy = printable(str(line.get("state", DASH))), line.get("busy")
        filled = 0 if busy is None else round(min(1.0, busy) * cells)
        table.add_row(
            printable(str(line.get("name", DASH))),
            Text(state, style=_STATES.get(state, "yellow")),
            *([printable(str(line.get("node", DASH)))] if several else []),
            _text(line.get("incarnation")),
            _text(line.get("pid")),
            as_percent(busy),
            Text("━" * filled, style="cyan"),
        )
    return table


def fit(processes: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """At most ``room`` lines: healthy processes of a role share a line when there are too many."""
    if len(processes) <= room:
        return list(processes)
    lines: list[Mapping[str, Any]] = []
    together: dict[str, list[Mapping[str, Any]]] = {}
    for process in processes:
        role = str(process.get("role", ""))
        if role and process.get("state") == "running":
            together.setdefault(role, []).append(process)
        else:
            lines.append(process)
    for role, members in together.items():
        if len(members) == 1:
            lines.append(members[0])
            continue
        busy = [member["busy"] for member in members if member.get("busy") is not None]
        mean = sum(busy) / len(busy) if busy else None
        lines.append({"name": f"{len(members)} x {role}", "state": "running", "busy": mean})
    if len(lines) > room:
        rest = len(lines) - room + 1
        lines = [*lines[: room - 1], {"name": f"{rest} more", "state": ""}]
    return lines


def _event(event: Mapping[str, Any]) -> Text:
    text, alarm = event_line(event), event.get("kind") in ALARMS
    line = Text.assemble((f" {as_duration(event.get('time_s')):>8}  ", "bright_black"), (text, "red" if alarm else ""))
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line


def learning_metrics(row: Mapping[str, Any]) -> list[str]:
    """Return the names of a row's metrics about learning, unregistered ones included."""
    return [name for name, value in row.items() if metric(name).learning and (value is None or is_number(value))]


def stage_shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Share of each stage, 0 to 1, those that are known, in the order of the data path."""
    return {stage: row[f"share_{stage}"] for stage in SECTIONS if is_number(row.get(f"share_{stage}"))}


def slow_stage(shares: Mapping[str, float]) -> str | None:
    """The stage most time goes into; waiting is no work."""
    work = {stage: share for stage, share in shares.items() if stage != "wait"}
    return max(work, key=lambda stage: work[stage]) if any(work.values()) else None


def _text(value: object) -> str:
    return DASH if value is None else str(value)
