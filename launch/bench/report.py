"""Shows the results of a suite as a table, and writes them as JSON, Markdown and a picture, with machine and commit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from actorlearn.files import write_atomically
from actorlearn.metrics.energy import Energy
from launch.bench.interleaved import Spread
from launch.display.plot import COLOURS, INK, draw_groups, make_figure, save
from launch.machine.cores import Cores
from launch.runs.curves import LearningCurve
from launch.runtime.metadata import commit, machine, versions

WIDE = 200
"""Columns of the table if the output is not a terminal."""


@dataclass(frozen=True)
class SuiteReport:
    """The results of one suite."""

    suite: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Mapping[str, Spread] = field(default_factory=dict)
    """Bars of the picture: name -> repeated measurements, whose median is the length of the bar."""
    unit: str = ""
    """Unit of the bars."""
    notes: Sequence[str] = ()
    """Lines below the table."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Further values, which are only in the JSON."""
    curves: Sequence[LearningCurve] = ()
    """Learning curves, which the picture shows instead of bars."""
    picture: Callable[[Path], None] | None = None
    """Function that draws another picture instead of bars or curves into a file."""

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain values, with machine, versions and commit."""
        return {
            "suite": self.suite,
            **where(),
            "unit": self.unit,
            "bars": {name: spread.as_json() for name, spread in self.bars.items()},
            "rows": [dict(zip(self.headings, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
            **self.figures,
        }


def where() -> dict[str, Any]:
    """Return details of this machine, its energy counters, the versions of packages, and the commit."""
    energy = {"energy": Energy().said()}
    return {"machine": machine(), **energy, "packages": versions(), **commit(Path(__file__).parents[2])}


def machine_line() -> str:
    """Return machine, torch's version and commit as one line of text."""
    return described(where(), str(Cores.here()))


def described(found: Mapping[str, Any], cores: str) -> str:
    """Return a result of ``where`` as one line of text; ``cores``: text on the cores that may be used."""
    about, packages = found["machine"], found["packages"]
    at = f", commit {found['commit'][:7]}{' and changes' if found['dirty'] else ''}" if found["commit"] else ""
    memory_gib = about["memory_bytes"] / 2**30
    return f"{cores} of {about['cpu']}, {memory_gib:.0f} GiB, torch {packages.get('torch', '?')}{at}"


def show(report: SuiteReport) -> None:
    """Print the machine, the table and the notes."""
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for number, heading in enumerate(report.headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in report.rows:
        table.add_row(*row)
    console.print(f"[bold]{report.suite}[/] on {machine_line()}", highlight=False)
    console.print(table)
    for note in report.notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)


def write(report: SuiteReport, folder: Path) -> None:
    """Write SUITE.json, SUITE.md and SUITE.png into a folder, which is made if needed; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{report.suite}.json", f"{json.dumps(report.as_json(), indent=2)}\n".encode())
    write_atomically(folder / f"{report.suite}.md", markdown(report).encode())
    draw(report, folder / f"{report.suite}.png")


def markdown(report: SuiteReport) -> str:
    """Return title, machine, table and notes as Markdown."""
    lines = [f"# {report.suite}", "", machine_line(), "", "| " + " | ".join(report.headings) + " |"]
    lines.append("|" + "---|" * len(report.headings))
    lines += ["| " + " | ".join(row) + " |" for row in report.rows]
    lines += ["", *report.notes] if report.notes else []
    return "\n".join(lines) + "\n"


def draw(report: SuiteReport, path: Path) -> None:
    """Draw the picture that the suite defines, or else the report's curves, or else a bar for each median.

    A line on each bar shows the range from the lowest to the highest repetition.
    """
    if report.picture is not None:
        report.picture(path)
        return
    if report.curves:
        draw_groups([(curve.label, [curve]) for curve in report.curves], path)
        return
    figure = make_figure(path, 9.0)
    figure.set_figheight(1.2 + 0.42 * len(report.bars))
    axes = figure.subplots()
    names = list(report.bars)
    medians = [report.bars[name].median for name in names]
    below = [report.bars[name].median - report.bars[name].low for name in names]
    above = [report.bars[name].high - report.bars[name].median for name in names]
    axes.barh(names, medians, color=COLOURS[0], xerr=(below, above), ecolor=INK, capsize=3)
    for number, median in enumerate(medians):
        axes.annotate(f" {short(median)}", (0, number), color="white", va="center", fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel(report.unit)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(report.suite, fontweight="bold", color=INK)
    save(figure, path)


def short(number: float) -> str:
    """Return a number with three significant digits, or all digits before the point: 0.358, 12.3, 2,266."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def rate(spread: Spread) -> str:
    """Return the median of measurements, with the lowest and the highest: 2,266 (2,201-2,290)."""
    return f"{spread.median:,.0f} ({spread.low:,.0f}-{spread.high:,.0f})"


def percent(share: float) -> str:
    """Return a share in percent: 66 %."""
    return f"{100 * share:.0f} %"
