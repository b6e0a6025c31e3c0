"""The picture of a run: pure functions from what is known to something rich can print.

Reads a ``Known`` (newest metric row, processes, events); writes nothing and asks no clock. A number that is not yet
known is shown as a dash, never as zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actorlearn.metrics.registry import DROPPED, metric
from actorlearn.metrics.timings import SECTIONS
from launch.reports.checks import is_number
from launch.reports.format import DASH, as_duration, as_number, as_percent, event_line, metric_value, printable

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
_ALARMS = ("died", "failed", "refused", "warned", "gave up", "slow", "silent")
_ENDS = ("finished", "stopped", "failed", "died")
_EVENTS = 5
_HIGH = 30  # lines of a terminal with room for all of them
_VERY_HIGH = 40  # lines of a terminal with room for reasons too
_RATE_MEMORY = 0.8  # of the smoothed rate that the time left is computed from; a report is a few seconds


@dataclass
class Known:
    """What is known of a run so far."""

    name: str
    game: str
    total_steps: int
    status: str = "starting"
    row: Mapping[str, Any] = field(default_factory=dict)
    processes: Sequence[Mapping[str, Any]] = ()
    events: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    chosen: list[Mapping[str, Any]] = field(default_factory=list)
    """Events of what was left to the machine: key, value, why."""
    alarm: Mapping[str, Any] | None = None
    """The newest event of a kind that is no good news: it stays in sight, whatever follows."""
    best: float | None = None
    """Highest mean score of the last 100 games seen so far."""
    steps_per_s: float | None = None
    """Smoothed, for the time left."""

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Take in a report."""
        self.row = row
        if self.status == "starting":
            self.status = "running"
        score, rate = row.get("episode_return_mean"), row.get("env_steps_per_s")
        if score is not None:
            self.best = score if self.best is None else max(self.best, score)
        if rate:
            old = rate if self.steps_per_s is None else self.steps_per_s
            self.steps_per_s = _RATE_MEMORY * old + (1 - _RATE_MEMORY) * rate

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Take in an event; one of the run itself may say how it ended."""
        if event.get("kind") == "chosen":
            self.chosen.append(event)
            return
        self.events.append(event)
        if event.get("kind") in _ALARMS:
            self.alarm = event
        if not event.get("process") and event.get("kind") in _ENDS:
            self.status = str(event["kind"])

    @property
    def left_s(self) -> float | None:
        """Estimated seconds to the end."""
        steps = self.row.get("env_steps")
        if steps is None or not self.steps_per_s:
            return None
        return max(0.0, float(self.total_steps - steps) / self.steps_per_s)


def picture(known: Known, elapsed_s: float, width: int, height: int) -> RenderableType:
    """The whole screen for a terminal of this size."""
    parts = [
        [_header(known, elapsed_s, width), _progress(known, width)],
        _numbers(known),
        _learning(known.row, width),
        _stages(stage_shares(known.row), width),
        _chosen(known.chosen, why=height >= _VERY_HIGH),
    ]
    lines = [line for part in parts if part for line in (*part, Text())]
    newest = list(known.events)[-_EVENTS if height >= _HIGH else -2 :]
    if known.alarm and known.alarm not in newest:
        newest[0] = known.alarm
    events = [_event(event) for event in newest]
    if events:
        events = [Text(), Text(" events", style="bold"), *events]
    room = max(3, height - len(lines) - len(events) - 2)  # one line for the heading, one for the cursor
    return Group(*lines, _processes(fit(known.processes, room), width), *events)


def _header(known: Known, elapsed_s: float, width: int) -> RenderableType:
    colour = _STATES.get(known.status, "yellow")
    rest = "" if known.status in _ENDS else f" · {as_duration(known.left_s)} left"
    right = Text.assemble((known.status, colour), f" · {as_duration(elapsed_s)}{rest} ")
    left = Text.assemble((f" {known.name}", "bold"), "  ", (known.game, "cyan"))
    if len(left) + len(right) + 2 > width:  # the name usually says the game too
        left = Text(f" {known.name}", style="bold")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(left, right)
    return grid


def _progress(known: Known, width: int) -> RenderableType:
    steps = known.row.get("env_steps") or 0
    share = min(1.0, steps / known.total_steps) if known.total_steps > 0 else 0.0
    text = Text(f"{steps:,} / {known.total_steps:,} steps  {100 * share:5.1f}% ")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=1.0, completed=share, width=max(10, width - len(text) - 4))
    grid.add_row(Padding(bar, (0, 0, 0, 1)), text)
    return grid


def _numbers(known: Known) -> list[RenderableType]:
    row = known.row
    return [
        _cells(
            _cell(row, "env_steps_per_s", "bold"),
            _cell(row, "episode_return_mean", "bold"),
            _cell(row, "episodes"),
            _cell(row, "updates"),
        ),
        _cells(
            _cell(row, "frames_per_s"),
            (as_number(known.best), "best mean", ""),
            _cell(row, "episode_length_mean"),
            _cell(row, "policy_lag_mean"),
        ),
        *([_account(row)] if row.get("steps_used") is not None else []),
    ]


def _account(row: Mapping[str, Any]) -> RenderableType:
    """How many steps were used, and how many dropped for which reasons."""
    dropped = row.get("steps_dropped") or 0
    why = ", ".join(f"{metric(name).shown_as} {row[name]:,}" for name in DROPPED if row.get(name))
    said = f" {row['steps_used']:,} steps used, {dropped:,} dropped{f': {why}' if why else ''}"
    return Text(said, style="bold red" if dropped else "bright_black", no_wrap=True, overflow="ellipsis")


def _cell(row: Mapping[str, Any], name: str, style: str = "") -> tuple[str, str, str]:
    """A metric of a row as its value, what stands beside it, and a style."""
    return metric_value(row, name), printable(metric(name).shown_as), style


def _cells(*cells: tuple[str, str, str]) -> RenderableType:
    """Values with what they are, in columns of equal width."""
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
        grid.add_row(*(Text.assemble(f"{value:>9}", (f" {label}", "bright_black")) for value, label, _ in cells))
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
    """What was left to the machine: a line each with its reason, or all values in one."""
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
    text, alarm = event_line(event), event.get("kind") in _ALARMS
    line = Text.assemble((f" {as_duration(event.get('time_s')):>8}  ", "bright_black"), (text, "red" if alarm else ""))
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line


def learning_metrics(row: Mapping[str, Any]) -> list[str]:
    """Names of a row's metrics that say how learning goes, those that nobody registered included."""
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
