"""Draws learning curves: mean raw score, or other metrics, against environment steps and against minutes.

Reads the reports and the topology of each run, finished or still running; writes one picture.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actorlearn.files import write_atomically
from actorlearn.metrics.registry import describe_metric
from actorlearn.metrics.writer import METRICS_FILE
from launch.reports.checks import is_number
from launch.reports.compare import Numbers
from launch.reports.format import printable
from launch.runs.find import Run
from launch.runs.view import identify

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart; yellow left out, too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":")
INK = "#333333"
SCORE = "episode_return_mean"


@dataclass(frozen=True, slots=True)
class Curve:
    """One run: points of its learning curve, cut into stretches where a restore took it back."""

    label: str
    game: str
    frames_per_step: float | None
    steps_per_s: float | None
    stretches: list[list[tuple[float, float, float]]]
    """Per stretch, points of (environment steps, minutes, number of that column)."""
    column: str = SCORE

    @property
    def final(self) -> float:
        """The number of the last point."""
        return self.stretches[-1][-1][2]

    @property
    def newest(self) -> list[tuple[float, float]]:
        """Points of (environment steps, number) without those that a restore took back: steps grow."""
        points: list[tuple[float, float]] = []
        for stretch in self.stretches:
            points = [point for point in points if point[0] < stretch[0][0]]
            for steps, _, number in stretch:
                if not points or steps > points[-1][0]:
                    points.append((steps, number))
        return points


def plot(runs: Sequence[Run], output: Path, columns: Sequence[str] = (SCORE,)) -> None:
    """Draw these columns of the runs into ``output``; raises ValueError, in one line, when there is nothing to draw."""
    if not runs:
        raise ValueError("no run given to plot: name one or more run folders")
    curves = [[read_curve(run, column) for column in columns] for run in runs]
    labels = _distinct_labels([of_run[0] for of_run in curves], runs)
    one = len(columns) == 1
    names = [label if one else f"{label} {column}" for label in labels for column in columns]
    draw_curves([curve for of_run in curves for curve in of_run], names, output)


def draw_curves(curves: Sequence[Curve], names: Sequence[str], output: Path) -> None:
    """Draw curves under these names; raises ValueError for a kind of picture that cannot be written."""
    figure = make_figure(output, 11.0)
    _draw(figure, curves, names)
    output.parent.mkdir(parents=True, exist_ok=True)
    save(figure, output)


def draw_bands(steps: Numbers, groups: Sequence[tuple[str, Numbers]], column: str, output: Path) -> None:
    """Draw a line for each group's mean over its runs [runs, steps] in a band from the lowest run to the highest.

    Raises ValueError for a kind of picture that cannot be written.
    """
    figure = make_figure(output, 7.0)
    axes = figure.subplots()
    unit, unit_name = _step_unit(float(steps[-1]))
    for number, (name, numbers) in enumerate(groups):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS) % len(STYLES)]
        axes.fill_between(steps / unit, numbers.min(axis=0), numbers.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        label = _as_written(f"{name}: {len(numbers)} run{'s' * (len(numbers) > 1)}")
        mark = "o" if len(steps) == 1 else ""
        axes.plot(
            steps / unit, numbers.mean(axis=0), color=colour, linestyle=style, linewidth=1.8, marker=mark, label=label
        )
    axes.set_ylabel(_as_written(describe_metric(column) or column))
    axes.set_xlabel(f"environment steps ({unit_name})")
    dress(axes)
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, labelcolor=INK)
    output.parent.mkdir(parents=True, exist_ok=True)
    save(figure, output)


def _step_unit(most_steps: float) -> tuple[float, str]:
    return (1e6, "millions") if most_steps >= 1e6 else (1e3, "thousands")


def make_figure(output: Path, width: float) -> Figure:
    """Return an empty figure; raises ValueError for a kind of picture that cannot be written."""
    # Imported here, because the command line should not pay half a second for it; no pyplot, so no display is needed.
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
    """Write a picture, in the format that its name ends in, whole or not at all; raises OSError."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lstrip(".").lower())
    write_atomically(path, drawn.getvalue())


def read_curve(run: Run, column: str = SCORE) -> Curve:
    """Read a curve of one run folder; raises ValueError when it has none."""
    rows = _read_rows(run)
    stretches = _stretches(rows, column)
    if not stretches and column != SCORE:
        there = ", ".join(sorted({name for row in rows for name in row if _value(row, name) is not None}))
        raise ValueError(f"{run.path}: no numbers in a column {column!r}; there are {there}")
    if not stretches:
        raise ValueError(f"{run.path}: no whole game finished in {len(rows)} reports; let the run go on and plot again")
    view = identify(run)
    name, last = view.topology.get("name"), rows[-1]
    steps, frames = _value(last, "env_steps"), _value(last, "frames")
    return Curve(
        label=name if name and isinstance(name, str) else run.name,
        game=view.env_id,
        frames_per_step=frames / steps if steps and frames else None,
        steps_per_s=_steps_per_s(rows),
        stretches=stretches,
        column=column,
    )


def _read_rows(run: Run) -> list[dict[str, Any]]:
    """The reports of a run, those that can be read; raises ValueError when there are none."""
    path = run.path / METRICS_FILE
    if not path.is_file():
        raise ValueError(f"{run.path}: no {path.name} there; give the folder of a run, as `actorlearn ps` shows it")
    rows = list(run.metrics().new())
    if not rows:
        raise ValueError(f"{path}: no report in it, so there is nothing to plot; let the run go on")
    return rows


def _value(row: dict[str, Any], name: str) -> float | None:
    """The number of that name; None for null, text or nothing."""
    value = row.get(name)
    return float(value) if is_number(value) and not isinstance(value, bool) else None


def _stretches(rows: list[dict[str, Any]], column: str) -> list[list[tuple[float, float, float]]]:
    """Points with a number; a new stretch starts where steps fall back. Time never does: it is the whole run's."""
    stretches: list[list[tuple[float, float, float]]] = []
    steps_before, restored = -1.0, True
    for row in rows:
        steps, clock_s, number = (_value(row, name) for name in ("env_steps", "time_s", column))
        if steps is None or clock_s is None:
            continue
        restored |= steps < steps_before
        steps_before = steps
        if number is None:
            continue
        if restored:
            stretches.append([])
            restored = False
        stretches[-1].append((steps, clock_s / 60.0, number))
    return stretches


def _steps_per_s(rows: list[dict[str, Any]]) -> float | None:
    """The median over reports, which a slow start or a pause does not move."""
    speeds = sorted(speed for row in rows if (speed := _value(row, "env_steps_per_s")) is not None)
    return speeds[len(speeds) // 2] if speeds else None


def _distinct_labels(curves: Sequence[Curve], runs: Sequence[Run]) -> list[str]:
    """Legend names: the topology's, with the folder's where two runs share one."""
    labels = [curve.label for curve in curves]
    return [
        f"{label} ({run.name})" if labels.count(label) > 1 and label != run.name else label
        for label, run in zip(labels, runs, strict=True)
    ]


def _draw(figure: Figure, curves: Sequence[Curve], names: Sequence[str]) -> None:
    by_steps, by_minutes = figure.subplots(1, 2, sharey=True)
    most_steps = max(point[0] for curve in curves for stretch in curve.stretches for point in stretch)
    unit, unit_name = _step_unit(most_steps)
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        draw_line(by_steps, curve, 0, unit, colour, style)
        draw_line(by_minutes, curve, 1, 1.0, colour, style)
        speed = f", {curve.steps_per_s:,.0f} steps/s" if curve.steps_per_s is not None else ""
        last = f"last score {curve.final:,.1f}" if curve.column == SCORE else f"last {curve.final:.4g}"
        by_minutes.plot([], [], color=colour, linestyle=style, linewidth=2, label=_as_written(f"{name}: {last}{speed}"))
    drawn = list(dict.fromkeys(curve.column for curve in curves))
    by_steps.set_ylabel(_as_written(describe_metric(drawn[0]) or drawn[0] if len(drawn) == 1 else ", ".join(drawn)))
    by_steps.set_xlabel(f"environment steps ({unit_name})")
    by_minutes.set_xlabel("minutes")
    for axes in (by_steps, by_minutes):
        dress(axes)
    _add_frames(by_steps, curves, unit_name)
    figure.legend(loc="outside lower center", ncols=min(2, len(curves)), frameon=False, fontsize=9, labelcolor=INK)
    games = sorted({curve.game for curve in curves if curve.game})
    figure.suptitle(_as_written(", ".join(games)) or "learning curves", fontsize=13, fontweight="bold", color=INK)


def _as_written(text: str) -> str:
    """A text that is drawn letter by letter: between two dollars matplotlib would read a formula."""
    return printable(text).replace("$", r"\$")


def draw_line(axes: Axes, curve: Curve, column: int, unit: float, colour: str, style: str) -> None:
    """One run in one panel; a stretch of one point would be invisible without its mark."""
    for stretch in curve.stretches:
        x = [point[column] / unit for point in stretch]
        y = [point[2] for point in stretch]
        axes.plot(x, y, color=colour, linestyle=style, linewidth=1.8, marker="o" if len(x) == 1 else "", markersize=4)
    axes.plot(x[-1], y[-1], color=colour, marker="o", markersize=5)


def dress(axes: Axes) -> None:
    """The project's looks for any panel."""
    axes.grid(True, color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(colors=INK, labelsize=9)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.set_xlim(left=0.0)
    axes.margins(y=0.08)


def _add_frames(axes: Axes, curves: Sequence[Curve], unit_name: str) -> None:
    """Emulator frames along the top, when all runs play the same number of frames a step."""
    ratios = {round(curve.frames_per_step, 2) if curve.frames_per_step else None for curve in curves}
    ratio = ratios.pop()
    if ratios or ratio is None or ratio == 1.0:
        return

    def to_frames(steps: Any) -> Any:
        return steps * ratio

    def to_steps(frames: Any) -> Any:
        return frames / ratio

    top = axes.secondary_xaxis("top", functions=(to_frames, to_steps))
    top.set_xlabel(f"frames ({unit_name}, {ratio:g} a step)", fontsize=9, color=INK)
    top.tick_params(colors=INK, labelsize=8)
    top.spines["top"].set_color("#888888")
