"""Shows predictions as tables with bars on the terminal, and writes them as CSV or as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from actorlearn.files import write_atomically
from launch.display.plot import COLOURS, dress, make_figure, save
from launch.errors import RunError
from launch.simulate.estimate import Estimate
from launch.simulate.model import Prediction

AXES = {"nodes": "nodes", "quorum": "K: gradients for each update", "servers": "parameter servers"}
"""Name of a number that is varied -> label of its axis."""
CSV, PICTURES = ".csv", (".png", ".svg", ".pdf")
_BAR = 16
LEAST_WIDTH = 120
"""Columns of a terminal that the whole table needs."""


@dataclass(frozen=True)
class Point:
    """A point of a curve: the predictions for one case, by simulation and in closed form."""

    at: int
    """The number that is varied along the curve, such as the number of nodes."""
    outcome: Prediction
    estimate: Estimate

    def row(self) -> dict[str, Any]:
        """Return name -> value of all predicted numbers."""
        outcome = self.outcome
        return {
            "env_steps_per_s": outcome.env_steps_per_s,
            "updates_per_s": outcome.updates_per_s,
            "estimate_env_steps_per_s": self.estimate.env_steps_per_s,
            "staleness_mean": outcome.staleness_mean,
            "staleness_max": outcome.staleness_max,
            "estimate_staleness": self.estimate.staleness,
            "dropped_share": outcome.dropped_share,
            **{f"share_{stage}": share for stage, share in outcome.shares.items()},
            "bytes_per_s": outcome.bytes_per_s,
            "bottleneck": outcome.bottleneck,
            "estimate_bound": self.estimate.bound,
        }


Curves = Mapping[str, Sequence[Point]]
"""Name of the number that is varied along a curve (`AXES`) -> points of the curve."""


def table(name: str, points: Sequence[Point]) -> Table:
    """Return one curve as a table, with a bar for each rate."""
    made = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    made.add_column("K" if name == "quorum" else name, justify="right", no_wrap=True)
    for heading in ("steps/s", "", "closed form", "staleness", "dropped", "wait", "exchange", "network", "bottleneck"):
        made.add_column(heading, justify="left" if heading in ("", "bottleneck") else "right", no_wrap=True)
    most = max(point.outcome.env_steps_per_s for point in points)
    for point in points:
        outcome = point.outcome
        made.add_row(
            str(point.at),
            f"{outcome.env_steps_per_s:,.0f}",
            "█" * round(_BAR * outcome.env_steps_per_s / most),
            f"{point.estimate.env_steps_per_s:,.0f}",
            f"{outcome.staleness_mean:.1f} ({point.estimate.staleness:.0f})",
            f"{outcome.dropped_share:.0%}",
            f"{outcome.shares['wait']:.0%}",
            f"{outcome.shares['exchange']:.0%}",
            f"{outcome.bytes_per_s / 1e6:,.1f} MB/s",
            outcome.bottleneck,
        )
    return made


def refuse_kind(path: Path) -> None:
    """Raise RunError if the suffix of a path names a file type that cannot be written."""
    if path.suffix.lower() not in (CSV, *PICTURES):
        raise RunError(
            f"-o {path}: cannot be written as {path.suffix!r}; use a name that ends in {CSV}, {', '.join(PICTURES)}"
        )


def write(curves: Curves, path: Path) -> None:
    """Write the points as CSV, or draw them; raises OSError."""
    if path.suffix.lower() == CSV:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, as_csv(curves).encode())
    else:
        draw(curves, path)


def as_csv(curves: Curves) -> str:
    """Return all points as CSV, one in each line."""
    rows = [{"along": name, "at": point.at, **point.row()} for name, points in curves.items() for point in points]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def draw(curves: Curves, path: Path) -> None:
    """Draw a panel for each curve: rates of the simulation and of the closed form."""
    figure = make_figure(path, 1.0 + 4.5 * len(curves))
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (name, points) in zip(panels, curves.items(), strict=True):
        at = [point.at for point in points]
        axes.plot(at, [point.outcome.env_steps_per_s for point in points], "o-", color=COLOURS[0], label="simulated")
        closed = [point.estimate.env_steps_per_s for point in points]
        axes.plot(at, closed, "--", color=COLOURS[1], label="closed form")
        axes.set_xlabel(AXES[name])
        axes.set_ylabel("environment steps a second")
        axes.set_ylim(bottom=0.0)
        dress(axes)
        axes.legend(frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
