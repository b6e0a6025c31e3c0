"""Statistics of scores generated here, computed by rliable, the code of the authors (Agarwal et al. 2021).

``python -m tests.launch.reports.rliable_numbers > tests/launch/reports/rliable_numbers.json`` saves them, with the
versions, for machines without the extra ``rliable``.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from launch.reports.statistics import Numbers

KEPT = Path(__file__).with_suffix(".json")
RUNS, OTHER_RUNS, TASKS = 10, 7, 5
TARGET = 1.0
THRESHOLDS = (0.25, 0.75, 1.25)
RESAMPLES = 4_000


def scores() -> tuple[Numbers, Numbers]:
    """Return the scores of two programs: [runs, tasks]; some are equal, and one is an outlier."""
    random = np.random.default_rng(19)
    ours = np.round(random.gamma(2.0, 0.4, (RUNS, TASKS)), 2)
    theirs = np.round(random.gamma(2.0, 0.5, (OTHER_RUNS, TASKS)), 2)
    ours[0, 0] = 30.0
    theirs[:3, 1] = ours[:3, 1]
    return ours, theirs


def ask_rliable() -> dict[str, Any]:
    """Return estimate, low and high of each statistic; raises ImportError where rliable is missing."""
    from rliable import library, metrics

    np.random.seed(0)  # rliable draws with this generator, whichever it is given
    ours, theirs = scores()
    alone = {
        "interquartile_mean": metrics.aggregate_iqm,
        "mean_of_tasks": metrics.aggregate_mean,
        "median_of_tasks": metrics.aggregate_median,
        "optimality_gap": lambda drawn: metrics.aggregate_optimality_gap(drawn, TARGET),
    }
    estimates, edges = library.get_interval_estimates(
        {"ours": ours}, lambda drawn: np.array([of(drawn) for of in alone.values()]), reps=RESAMPLES
    )
    found = {name: [estimates["ours"][at], *edges["ours"][:, at]] for at, name in enumerate(alone)}
    estimates, edges = library.get_interval_estimates(
        {"pair": (ours, theirs)}, metrics.probability_of_improvement, reps=RESAMPLES // 8
    )
    found["probability_of_improvement"] = [estimates["pair"], *np.ravel(edges["pair"])]
    profiles, edges = library.create_performance_profile({"ours": ours}, np.array(THRESHOLDS), reps=RESAMPLES)
    found |= {f"above {tau}": [profiles["ours"][at], *edges["ours"][:, at]] for at, tau in enumerate(THRESHOLDS)}
    return {name: [round(float(number), 6) for number in numbers] for name, numbers in found.items()}


if __name__ == "__main__":
    packages = {name: version(name) for name in ("rliable", "arch", "numpy", "scipy")}
    json.dump({"versions": packages, "statistics": ask_rliable()}, sys.stdout, indent=1)
    print()
