"""The picture of the suite ``gossip``: four panels, each after a figure of Assran et al. (2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.display.plot import COLOURS, INK, draw_line, dress, save
from launch.runs.curves import LearningCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ORDER = ("sync", "gossip", "async", "no mixing", "waiting", "age-corrected", "DiLoCo", "NoLoCo")
MODE_COLOURS = dict(zip(ORDER, (*COLOURS, "#999999"), strict=True))
NOT_SAID = "no run reported it"


@dataclass(frozen=True)
class Figures:
    """The data of the four panels."""

    environments: int
    """Environments of one learner."""
    threshold: float
    """Score from which a run is convergent."""
    convergent: Mapping[tuple[str, int], float]
    """Mode and number of learners -> share of the runs that are convergent."""
    curves: Mapping[str, Sequence[LearningCurve]]
    """Mode -> a curve for each seed, with the most learners."""
    consensus: Sequence[Sequence[tuple[float, float, float]]]
    """Series of each gossip run with the most learners: minutes, a learner's distance from the mean, its bound."""
    cosine: Mapping[str, float]
    """Pair of these learners -> mean cosine of their gradients."""
    mixed: frozenset[str]
    """Pairs of learners of which one mixes the other's weights."""

    def said(self) -> dict[str, Any]:
        """Return the numbers of the panels for JSON, and two lines of text about them."""
        points = [point for run in self.consensus for point in run]
        within = sum(distance <= bound for _, distance, bound in points)
        shares = sorted(distance / bound for _, distance, bound in points if bound > 0)
        consensus = NOT_SAID
        if shares:
            middle = 100 * shares[len(shares) // 2]
            consensus = f"within its bound in {within} of {len(points)} reports, {middle:.0f} % of it in the median"
        of = {True: "learners that mix", False: "others"}
        means = {name: self._mean_cosine(mixed) for mixed, name in of.items()}
        cosine = ", ".join(f"{mean:.3f} between {name}" for name, mean in means.items() if mean is not None)
        return {
            "threshold": self.threshold,
            "convergent": {f"{mode}-{count}": share for (mode, count), share in self.convergent.items()},
            "consensus": consensus,
            "consensus_points": self.consensus,
            "cosine": cosine or NOT_SAID,
            "gradient_cosine": dict(self.cosine),
        }

    def _mean_cosine(self, mixed: bool) -> float | None:
        values = [value for pair, value in self.cosine.items() if (pair in self.mixed) == mixed]
        return sum(values) / len(values) if values else None


def draw(found: Figures, path: Path) -> None:
    """Write the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    (convergent, curves), (consensus, cosine) = figure.subplots(2, 2)
    _draw_convergent(convergent, found)
    _draw_curves(curves, found)
    _draw_consensus(consensus, found)
    _draw_cosine(cosine, found)
    figure.suptitle("gossip", fontweight="bold", color=INK)
    save(figure, path)


def _draw_convergent(axes: Axes, found: Figures) -> None:
    alone = found.convergent["sync", 1]
    for way, label, width in (("sync", "A2C (sync)", 5.0), ("gossip", "GALA (gossip)", 1.8)):  # alike, both are seen
        shares = {count: share for (which, count), share in found.convergent.items() if which == way}
        x, y = zip(*sorted({1: alone, **shares}.items()), strict=True)
        axes.plot(
            [count * found.environments for count in x],
            [100 * share for share in y],
            "o-",
            color=MODE_COLOURS[way],
            linewidth=width,
        )
        axes.plot([], [], color=MODE_COLOURS[way], label=label)
    dress(axes)
    axes.set_ylim(-5, 105)
    axes.set_xlabel("environments")
    axes.set_ylabel("convergent runs, %")
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_title("convergent runs (figure 1a)", fontsize=10, color=INK)


def _draw_curves(axes: Axes, found: Figures) -> None:
    for mode, curves in found.curves.items():
        for curve in curves:
            draw_line(axes, curve, 1, 1.0, MODE_COLOURS[mode], "-")
        axes.plot([], [], color=MODE_COLOURS[mode], label=mode)
    dress(axes)
    axes.set_xlabel("minutes since the first report")
    axes.set_ylabel("mean raw score of the last 100 games")
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_title("score against time (figure 1d)", fontsize=10, color=INK)


def _draw_consensus(axes: Axes, found: Figures) -> None:
    for run in found.consensus:
        if run:
            minutes, distance, bound = zip(*run, strict=True)
            axes.plot(minutes, bound, color=INK, linestyle="--", linewidth=1.5)
            axes.plot(minutes, distance, color=MODE_COLOURS["gossip"], linewidth=1.5)
    if not any(found.consensus):
        axes.text(0.5, 0.5, NOT_SAID, ha="center", color=INK, transform=axes.transAxes)
    axes.plot([], [], color=INK, linestyle="--", label="bound (proposition 1)")
    axes.plot([], [], color=MODE_COLOURS["gossip"], label="largest distance of a learner")
    dress(axes)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("minutes since the first report")
    axes.set_ylabel("distance from the mean of the weights")
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_title("distance from consensus (figure 2a)", fontsize=10, color=INK)


def _draw_cosine(axes: Axes, found: Figures) -> None:
    axes.set_title("cosine of learners' gradients; peer: one mixes the other (figure 2b)", fontsize=10, color=INK)
    if not found.cosine:
        axes.text(0.5, 0.5, NOT_SAID, ha="center", color=INK)
        axes.set_axis_off()
        return
    learners = sorted({int(number) for pair in found.cosine for number in pair.split("-")})
    table = [[1.0 if a == b else found.cosine.get(_pair(a, b), float("nan")) for b in learners] for a in learners]
    image = axes.imshow(table, cmap="viridis", vmin=min(0.0, *found.cosine.values()), vmax=1.0)
    for row, a in enumerate(learners):
        for column, b in enumerate(learners):
            peer = "\npeer" if _pair(a, b) in found.mixed else ""
            shown = f"{table[row][column]:.2f}{peer}" if a != b else ""
            ink = "white" if table[row][column] < 0.6 else "black"
            axes.text(column, row, shown, ha="center", va="center", color=ink, fontsize=9)
    axes.set_xticks(range(len(learners)), [f"trainer-{learner}" for learner in learners], fontsize=8)
    axes.set_yticks(range(len(learners)), [f"trainer-{learner}" for learner in learners], fontsize=8)
    axes.figure.colorbar(image, ax=axes)


def _pair(a: int, b: int) -> str:
    return f"{min(a, b)}-{max(a, b)}"
