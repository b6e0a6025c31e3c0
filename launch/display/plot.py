"""Draws learning curves into one picture: scores, or other metrics, against environment steps and against minutes.

Runs that differ only in the seed form a group. A group is drawn as a thin line for each run, the interquartile mean of
the runs, and a band for its 95 % bootstrap interval.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from actorlearn.files import write_atomically
from actorlearn.metrics.registry import describe_metric
from launch.reports.compare import Points, resample
from launch.reports.format import as_number, printable
from launch.reports.statistics import band, interquartile_mean
from launch.runs.curves import SCORE, LearningCurve, RunGroup, group_runs
from launch.runs.find import RunFolder, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The hues of Okabe and Ito (2008), which colour-blind readers can distinguish, without yellow. They are darkened, or
# lightened, to a contrast of at least 3 with the background.
COLOURS = ("#0072B2", "#D55E00", "#008A63", "#B8508F", "#A87400", "#7A5CC2", "#1C2126")
DARK_COLOURS = ("#4BA3DD", "#E8762C", "#2DB78B", "#D98AB7", "#E6A21A", "#B9A5F2", "#E6E8EA")
"""The colours on a dark background."""
STYLES = ("-", "--", ":")
INK = "#333333"
_LEGEND_INCHES = 0.6
"""Height of the legend for which a picture has room. If the legend is higher, the picture is made higher."""
THIN = 0.6
"""Width in points of the line of a single run in a group."""


def plot(runs: Sequence[RunFolder], output: Path, columns: Sequence[str] = (SCORE,), apart: bool = False) -> None:
    """Draw curves of the metrics ``columns`` into the file ``output``; raises ValueError if there is nothing to draw.

    ``apart``: whether to draw every run as a line of its own, without means and bands.
    """
    draw_groups(_lines(runs, columns, apart), output)


def figure_of(runs: Sequence[RunFolder], columns: Sequence[str] = (SCORE,), apart: bool = False) -> Figure:
    """Return the picture that ``plot`` writes; raises ValueError if there is nothing to draw."""
    return _drawn(_lines(runs, columns, apart), Path("figure.png"))


def _lines(runs: Sequence[RunFolder], columns: Sequence[str], apart: bool) -> list[tuple[str, Sequence[LearningCurve]]]:
    lines: list[tuple[str, Sequence[LearningCurve]]] = []
    for column in columns:
        groups = group_runs(runs, column)
        if apart:
            groups = [one for group in groups for one in group.apart]
        more = f" {column}" if len(columns) > 1 else ""
        lines += [(f"{name}{more}", group.curves) for name, group in zip(_distinct_names(groups), groups, strict=True)]
    return lines


def draw_groups(groups: Sequence[tuple[str, Sequence[LearningCurve]]], output: Path) -> None:
    """Draw groups of curves, each with its name, into a file; raises ValueError if its format is not supported."""
    figure = _drawn(groups, output)
    output.parent.mkdir(parents=True, exist_ok=True)
    save(figure, output)


def make_figure(output: Path, width: float) -> Figure:
    """Return an empty figure, ``width`` inches wide; raises ValueError if ``output`` has an unsupported suffix."""
    # Imported here, because the import takes half a second; without pyplot, no display is needed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, 4.6), dpi=150, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    canvas = FigureCanvasAgg(figure)
    formats = canvas.get_supported_filetypes()
    if output.suffix.lstrip(".").lower() not in formats:
        raise ValueError(
            f"cannot write {output.name!r} as a picture: end its name in one of {', '.join(sorted(formats))}"
        )
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a picture atomically, in the format of the path's suffix; raises OSError."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lstrip(".").lower())
    write_atomically(path, drawn.getvalue())


def _distinct_names(groups: Sequence[RunGroup]) -> list[str]:
    """Return a unique name for each group in the legend: the name of its topology.

    If that is not unique, a group of several runs is named by the keys in which it differs, and a single run by its
    folder. If this is not unique either, the path of the (first) run's folder is added.
    """
    labels = [group.curves[0].label for group in groups]
    alike = [{curve.label for curve in group.curves} == {label} for label, group in zip(labels, groups, strict=True)]
    names = []
    for label, group, one in zip(labels, groups, alike, strict=True):
        folder = group.runs[0].name
        if one and labels.count(label) == 1:
            names.append(label)
        elif len(group.runs) > 1:
            names.append(group.name)
        else:
            names.append(folder if label == folder else f"{label} ({folder})")
    return [
        f"{name} ({short(group.runs[0].path)})" if names.count(name) > 1 else name
        for name, group in zip(names, groups, strict=True)
    ]


def _drawn(groups: Sequence[tuple[str, Sequence[LearningCurve]]], output: Path) -> Figure:
    figure = make_figure(output, 11.0)
    by_steps, by_minutes = figure.subplots(1, 2, sharey=True)
    every = [curve for _, curves in groups for curve in curves]
    most_steps = max(steps for curve in every for steps, _, _ in curve.points)
    unit, unit_name = (1e6, "millions") if most_steps >= 1e6 else (1e3, "thousands")
    for number, (name, curves) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        if len(curves) == 1:
            draw_line(by_steps, curves[0], 0, unit, colour, style)
            draw_line(by_minutes, curves[0], 1, 1.0, colour, style)
            last = _last(curves[0])
        else:
            last = _draw_band(by_steps, [curve.newest for curve in curves], unit, colour, style)
            _draw_band(by_minutes, [curve.over_time for curve in curves], 1.0, colour, style)
        speed = _speed(curves)
        by_minutes.plot([], [], color=colour, linestyle=style, linewidth=2, label=_as_written(f"{name}{last}{speed}"))
    drawn = list(dict.fromkeys(curve.column for curve in every))
    by_steps.set_ylabel(_as_written(describe_metric(drawn[0]) or drawn[0] if len(drawn) == 1 else ", ".join(drawn)))
    by_steps.set_xlabel(f"environment steps ({unit_name})")
    by_minutes.set_xlabel("minutes")
    for axes in (by_steps, by_minutes):
        dress(axes)
    _add_frames(by_steps, every, unit_name)
    _add_legend(figure, min(2, len(groups)))
    games = sorted({curve.game for curve in every if curve.game})
    figure.suptitle(_as_written(", ".join(games)) or "learning curves", fontsize=13, fontweight="bold", color=INK)
    return figure


def _add_legend(figure: Figure, columns: int) -> None:
    """Add the legend below the panels, in one column if names are too wide for ``columns``; then wrap names."""
    handles, labels = figure.axes[1].get_legend_handles_labels()
    add = partial(figure.legend, loc="outside lower center", frameon=False, fontsize=9, labelcolor=INK)
    share = 0.0
    for ncols in dict.fromkeys((columns, 1)):
        legend = add(handles, labels, ncols=ncols)
        share = legend.get_window_extent().width / figure.bbox.width
        if share <= 1.0:
            break
        legend.remove()
    else:
        letters = int(max(map(len, labels)) * 0.95 / share)
        legend = add(handles, [textwrap.fill(label, letters) for label in labels])
    high = legend.get_window_extent().height / figure.dpi
    figure.set_figheight(figure.get_figheight() + max(0.0, high - _LEGEND_INCHES))


def _last(curve: LearningCurve) -> str:
    return f": last score {curve.final:,.1f}" if curve.column == SCORE else f": last {curve.final:.4g}"


def _speed(curves: Sequence[LearningCurve]) -> str:
    speeds = [curve.steps_per_s for curve in curves if curve.steps_per_s is not None]
    return f", {median(speeds):,.0f} steps/s" if speeds else ""


def _as_written(text: str) -> str:
    """Return a text with dollar signs escaped, because matplotlib reads text between two of them as a formula."""
    return printable(text).replace("$", r"\$")


def draw_line(axes: Axes, curve: LearningCurve, column: int, unit: float, colour: str, style: str) -> None:
    """Draw the curve of one run, with a mark at its end.

    ``column``: 0 for environment steps on the horizontal axis, 1 for minutes; ``unit``: the divisor of these numbers.
    """
    for stretch in curve.stretches:
        x = [point[column] / unit for point in stretch]
        y = [point[2] for point in stretch]
        # A line through a single point is invisible, so it gets a mark.
        axes.plot(x, y, color=colour, linestyle=style, linewidth=1.8, marker="o" if len(x) == 1 else "", markersize=4)
    axes.plot(x[-1], y[-1], color=colour, marker="o", markersize=5)


def _draw_band(axes: Axes, curves: Sequence[Points], unit: float, colour: str, style: str) -> str:
    """Draw a thin line for each curve of a group, and the interquartile mean with its band where all have points.

    Return the number of runs and the last interquartile mean as text for the legend.
    """
    for curve in curves:
        axes.plot([x / unit for x, _ in curve], [y for _, y in curve], color=colour, linewidth=THIN, alpha=0.5)
    name = f", {len(curves)} runs"
    if not all(curves):  # minutes of imported curves may be unknown
        return name
    try:
        steps, numbers = resample(curves)
    except ValueError:  # some ended before others began
        return name
    found = band(interquartile_mean, [numbers.T])
    mark = "o" if len(steps) == 1 else ""
    axes.fill_between(steps / unit, found.low, found.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(steps / unit, found.estimate, color=colour, linestyle=style, linewidth=1.8, marker=mark)
    estimate, low, high = (float(numbers[-1]) for numbers in found)
    return f"{name}: last IQM {as_number(estimate)} ({as_number(low)} to {as_number(high)})"


def dress(axes: Axes) -> None:
    """Set grid, colours and font sizes of a panel, the same in all pictures."""
    axes.grid(True, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(colors=INK, labelsize=9)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.set_xlim(left=0.0)
    axes.margins(y=0.08)


def _add_frames(axes: Axes, curves: Sequence[LearningCurve], unit_name: str) -> None:
    """Add a second horizontal axis at the top, in frames, if all runs have the same number of frames per step."""
    ratios = {round(curve.frames_per_step, 2) if curve.frames_per_step else None for curve in curves}
    ratio = ratios.pop()
    if ratios or ratio is None or ratio == 1.0:
        return
    top = axes.secondary_xaxis("top", functions=(partial(np.multiply, ratio), partial(np.multiply, 1 / ratio)))
    top.set_xlabel(f"frames ({unit_name}, {ratio:g} a step)", fontsize=9, color=INK)
    top.tick_params(colors=INK, labelsize=8)
    top.spines["top"].set_color("#888888")
