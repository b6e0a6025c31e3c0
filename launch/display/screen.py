"""Makes the screen of `actorlearn run` and `top` from a snapshot of a run (`RunView`), as an object for rich to print.

The module writes nothing and reads no clock. A number that is not known yet is shown as a dash, never as zero.
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
from actorlearn.metrics.registry import DROPPED, DROPPED_STATISTICS, SIMULATION_LIMIT_SHARE, metric
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
    skips_frames,
)
from launch.reports.health import names_in, remedy_of
from launch.runs.view import ALARMS, RunView

_COLOURS = dict(zip(SECTIONS, ("cyan", "magenta", "yellow", "blue", "green", "bright_black"), strict=True))
"""Colour of each stage."""
_STATES = {
    "running": "green",
    "finished": "green",
    "stopped": "bright_black",
    "exited": "bright_black",
    "failed": "bold red",
    "fatal": "bold red",
    "died": "bold red",
}
_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 24
_EVENTS = 5
"""Most events on the screen."""
_HIGH = 30
"""Height in lines from which a terminal has room for ``_EVENTS`` events; below it two are shown."""
_VERY_HIGH = 40
"""Height in lines from which a terminal has room for the reasons of automatic choices."""
_LEAST_PROCESSES = 3
"""Lines that are reserved for processes, if there are so many."""
_NARROW = 60
"""Width in columns below which the table of processes has only name, state and busy."""


def picture(view: RunView, width: int, height: int) -> RenderableType:
    """Return the screen for a terminal of ``width`` columns and ``height`` lines; less important lines may not fit."""
    head = [_header(view, width), _progress(view, width), *_awaited(view), *_figures(view, width)]
    head += [*_illness(view.row), *_problems(view)]
    newest = list(view.events[-_EVENTS if height >= _HIGH else -2 :])
    events: list[RenderableType] = [Text(" events", style="bold"), *map(_event, newest)] if newest else []
    processes = view.processes or ()
    least = 1 + min(_LEAST_PROCESSES, len(processes))
    parts = [head]
    room = height - 2 - len(head) - least  # a line for the cursor, and an empty one above the processes
    for part in (
        _stages(stage_shares(view.row), width),
        events,
        _learning(view.row, width),
        _chosen(view.choices, why=height >= _VERY_HIGH),
    ):
        if part and len(part) + 1 <= room:  # and the empty line above it
            parts.append(part)
            room -= len(part) + 1
    listed = [_processes(fit(processes, least - 1 + max(0, room)), width)] if processes else []
    above = [part for part in parts if part is not events]
    below = [part for part in parts if part is events]
    shown = [part for part in (*above, listed, *below) if part]
    return Group(*(line for place, part in enumerate(shown) for line in ([Text()] if place else []) + part))


def _header(view: RunView, width: int) -> RenderableType:
    colour = _STATES.get(view.status, "yellow")
    rest = "" if view.has_ended else f" · {as_duration(view.left_s)} left"
    elapsed = f" · {as_duration(view.elapsed_s)}" if width >= _NARROW or view.has_ended else ""
    right = Text.assemble((view.status, colour), f"{elapsed}{rest} ")
    left = Text.assemble((f" {printable(view.name)}", "bold"), "  ", (printable(view.env_id), "cyan"))
    if len(left) + len(right) + 2 > width:  # the name usually includes the environment
        left = Text(f" {printable(view.name)}", style="bold")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(left, right)
    return grid


def _progress(view: RunView, width: int) -> RenderableType:
    share = view.share_done
    text = Text(f"{view.env_steps:,} / {as_whole(view.end_steps)} steps  {100 * share:5.1f}% ")
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=1.0, completed=share, width=max(10, width - len(text) - 4))
    grid.add_row(Padding(bar, (0, 0, 0, 1)), text)
    return grid


def _awaited(view: RunView) -> list[RenderableType]:
    return [_line((f" {view.awaited}", "yellow"))] if view.awaited else []


def _figures(view: RunView, width: int) -> list[RenderableType]:
    """Return lines with the score, the speed and the policy lag, each followed by related numbers."""
    row, best = view.row, f"{as_number(view.best_return)} best mean"
    limit = [_labelled(row, SIMULATION_LIMIT_SHARE)] if row.get(SIMULATION_LIMIT_SHARE) is not None else []
    rates = ["frames_per_s"] if skips_frames(row) else []
    games = [best, *_all_labelled(row, "episodes", "episode_length_mean")]
    account = [_account(row)] if row.get("steps_used") is not None else []
    return [
        _figure(row, "episode_return_mean", games, sparkline(view.trend, min(_MOST_SPARKS, width // 6))),
        _figure(row, "env_steps_per_s", [*limit, *_all_labelled(row, *rates, "updates")]),
        _figure(row, "policy_lag_mean", account, alarm=_lost(row)),
        *([_lags(row)] if row.get("policy_lag_max") else []),
    ]


def _figure(
    row: Mapping[str, Any], name: str, more: Sequence[str], sparks: str = "", alarm: bool = False
) -> RenderableType:
    """Return a line with a metric, its trend ``sparks`` and the texts ``more``, in red if ``alarm``."""
    line = _line((f" {metric_value(row, name):>9}", "bold"), f" {printable(metric(name).shown_as):<10}")
    if sparks:
        line.append(f"  {sparks}", style="cyan")
    if more:
        line.append(f"  {' · '.join(more)}", style="bold red" if alarm else "bright_black")
    return line


def _line(*parts: str | tuple[str, str]) -> Text:
    """Join texts, or pairs (text, style), to one line, which is cut at the width of the terminal."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def sparkline(trend: Sequence[tuple[int, float]], width: int) -> str:
    """Return scores as a bar chart in one line of at most ``width`` letters, from ▁ (lowest score) to █ (highest).

    ``trend``: points (part of the run, score), as in ``RunView.trend``; fewer than two give "".
    """
    if len(trend) < 2:
        return ""
    first, last = trend[0][0], trend[-1][0]
    columns = min(width, last - first + 1)
    found: dict[int, float] = {}
    for part, score in trend:  # the newest of several in a column
        found[(part - first) * columns // (last - first + 1)] = score
    lowest, highest = min(found.values()), max(found.values())
    scale = (len(_SPARKS) - 1) / (highest - lowest) if highest > lowest else 0.0
    letters, level = [], 0
    for column in range(columns):
        level = round((found[column] - lowest) * scale) if column in found else level
        letters.append(_SPARKS[level])
    return "".join(letters)


def _illness(row: Mapping[str, Any]) -> list[RenderableType]:
    """Return a line with the problems that health rules have found, and the remedy of the first; [] without any."""
    if not (names := names_in(row)):
        return []
    remedy = remedy_of(names[0])
    ill = f" learning fails: {printable(', '.join(names))}"
    return [_line((ill, "bold red"), (f"  try: {remedy}" if remedy else "", "red"))]


def _problems(view: RunView) -> list[RenderableType]:
    """Return a line with the numbers of deaths, warnings and other alarms, and the newest one; [] if none."""
    if not view.alarm:
        return []
    counts = " · ".join(f"{number} {kind}" for kind, number in view.problems.items())
    newest = f", newest at {as_duration(view.alarm.get('time_s'))}: "
    return [_line((f" {counts}", "bold red"), newest, (event_line(view.alarm), "red"))]


def _lost(row: Mapping[str, Any]) -> bool:
    """Whether steps were dropped, apart from those that only set the statistics of observations."""
    return bool((row.get("steps_dropped") or 0) > (row.get(DROPPED_STATISTICS) or 0))


def _account(row: Mapping[str, Any]) -> str:
    statistics = row.get(DROPPED_STATISTICS) or 0
    dropped = (row.get("steps_dropped") or 0) - statistics
    lost = [name for name in DROPPED if name != DROPPED_STATISTICS and row.get(name)]
    why = ", ".join(f"{metric(name).shown_as} {row[name]:,}" for name in lost)
    collected = f", {statistics:,} for statistics" if statistics else ""
    return f"{row['steps_used']:,} steps used{collected}, {dropped:,} dropped{f': {why}' if why else ''}"


def _labelled(row: Mapping[str, Any], name: str) -> str:
    return f"{metric_value(row, name)} {printable(metric(name).shown_as)}"


def _all_labelled(row: Mapping[str, Any], *names: str) -> list[str]:
    return [_labelled(row, name) for name in names]


def _lags(row: Mapping[str, Any]) -> RenderableType:
    """Return a line with the share of steps in each class of policy lag, and their effective sample and clipped share.

    Algorithms without probability ratios have only the shares of steps.
    """
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


def _learning(row: Mapping[str, Any], width: int) -> list[RenderableType]:
    """Return lines with the metrics of learning, such as the loss, in as many columns as ``width`` allows."""
    names = learning_metrics(row)
    columns = max(1, width // 26)
    lines: list[RenderableType] = []
    for start in range(0, len(names), columns):
        grid = Table.grid(expand=True)
        for _ in range(columns):
            grid.add_column(no_wrap=True, ratio=1)
        cells = ((metric_value(row, name), metric(name).shown_as) for name in names[start : start + columns])
        grid.add_row(
            *(Text.assemble(f"{value:>7}", (f" {printable(label)}", "bright_black")) for value, label in cells)
        )
        lines.append(grid)
    return lines


def _stages(shares: Mapping[str, float], width: int) -> list[RenderableType]:
    """Return a heading, a bar of the share of each stage in the processes' time, and a legend."""
    if not shares:
        return []
    slow, bar, legend = slow_stage(shares), Text(" "), Text(" ", no_wrap=True, overflow="ellipsis")
    edge = total = 0.0
    for stage, reported in shares.items():
        share = min(max(reported, 0.0), 1.0)  # a child process may report any number
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
    """Return the values that actorlearn has chosen for keys: all in one line, or with ``why`` each with its reason."""
    if not choices:
        return []
    heading = Text(" chosen", style="bold", no_wrap=True, overflow="ellipsis")
    values = [(printable(str(choice.get("key"))), printable(str(choice.get("value")))) for choice in choices]
    if not why:
        return [heading.append("  " + " · ".join(f"{key} {value}" for key, value in values), style="not bold")]
    lines = [heading]
    for (key, value), choice in zip(values, choices, strict=True):
        lines.append(_line(f" {key} {value}", (f"  {printable(str(choice.get('why')))}", "bright_black")))
    return list[RenderableType](lines)


def _processes(lines: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="bold", show_edge=False)
    table.add_column("process", no_wrap=True, min_width=14)
    table.add_column("state", no_wrap=True, min_width=9)
    several = any(line.get("node") for line in lines)
    if several:
        table.add_column("node", no_wrap=True, min_width=5)
    told = ("incarnation", "pid") if width >= _NARROW else ()
    for heading in (*told, "busy"):
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
            *(DASH if line.get(heading) is None else str(line[heading]) for heading in told),
            as_percent(busy),
            Text("━" * filled, style="cyan"),
        )
    return table


def fit(processes: Sequence[Mapping[str, Any]], room: int) -> list[Mapping[str, Any]]:
    """Return the processes, at most ``room`` lines of a table.

    If they are too many, running processes of one role share a line, such as "4 x simulator"; the last line may be
    "5 more".
    """
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
    return _line((f" {as_duration(event.get('time_s')):>8}  ", "bright_black"), (text, "red" if alarm else ""))


def learning_metrics(row: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of learning, such as the loss; also of metrics that are not registered."""
    return [name for name, value in row.items() if metric(name).learning and (value is None or is_number(value))]


def stage_shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Return stage (one of ``SECTIONS``) -> its share of the processes' time, 0 to 1; without unknown shares."""
    return {stage: row[f"share_{stage}"] for stage in SECTIONS if is_number(row.get(f"share_{stage}"))}


def slow_stage(shares: Mapping[str, float]) -> str | None:
    """Return the stage with the largest share, other than waiting; None if no stage has a share."""
    work = {stage: share for stage, share in shares.items() if stage != "wait"}
    return max(work, key=lambda stage: work[stage]) if any(work.values()) else None
