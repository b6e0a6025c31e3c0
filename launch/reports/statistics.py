"""Statistics of the scores of several runs in several tasks, as recommended by Agarwal et al. (2021, arXiv 2108.13264).

A task is for example a game, and its runs are those of several seeds. The scores of a task are an array [..., runs]. A
statistic takes the arrays of all tasks and reduces the axis of runs. The axes before it are the same in all tasks: the
steps of learning curves, or the thresholds of a performance profile. So ``band`` also computes sample-efficiency curves
and profiles.

Intervals are those of a stratified bootstrap (Efron 1979): runs are resampled with replacement within each task. The
interval contains the statistic in 95 % of the resamples. With few runs such intervals are too narrow;
docs/statistics.md says by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 20_000
CURVE_RESAMPLES = 2_000
"""Resamples for each point of a curve: fewer suffice, because a band is only drawn."""
LEVEL = 0.95
ONE_RUN = "one run: no interval"
"""Text in place of the interval if there is a single run: its bootstrap interval would have no width."""
_AT_ONCE = 2_000_000
"""Most resampled scores in memory at once."""

Numbers = npt.NDArray[np.float64]
Tasks = Sequence[Numbers]
"""Scores of the runs of each task: [..., runs]."""
Statistic = Callable[..., Numbers]
"""A function of one Tasks, or of two if it compares them, that returns numbers [...]."""


class Interval(NamedTuple):
    """An estimate, and the interval that contains the value with a confidence of LEVEL."""

    estimate: float
    low: float
    high: float

    @property
    def written(self) -> str:
        """The estimate as text, with its interval in brackets."""
        return f"{self.estimate:,.2f} ({self.low:,.2f} to {self.high:,.2f})"


class Band(NamedTuple):
    """Estimates with their intervals, for example of the points of a curve, as arrays [...] of one shape.

    Each interval has the confidence LEVEL for its own point; the whole curve lies in the band with a lower confidence.
    """

    estimate: Numbers
    low: Numbers
    high: Numbers


def interquartile_mean(tasks: Tasks) -> Numbers:
    """Return the mean of the middle half of all runs of all tasks; the lowest and highest quarters are left out.

    One exceptional run changes this mean less than the plain mean, and it uses more of the runs than the median. The
    size of a quarter is rounded down, as in rliable: with three runs or fewer, the result is the plain mean.
    """
    scores = np.sort(np.concatenate(tasks, axis=-1), axis=-1)
    cut = scores.shape[-1] // 4
    middle: Numbers = scores[..., cut : scores.shape[-1] - cut].mean(axis=-1)
    return middle


def mean_of_tasks(tasks: Tasks) -> Numbers:
    """Return the mean over tasks of the mean over each task's runs."""
    return np.asarray(np.mean(_means(tasks), axis=0))


def median_of_tasks(tasks: Tasks) -> Numbers:
    """Return the median over tasks of the mean over each task's runs."""
    return np.asarray(np.median(_means(tasks), axis=0))


def optimality_gap(tasks: Tasks, target: float = 1.0) -> Numbers:
    """Return how far scores are below a target, as the mean over tasks; a score above it counts as the target."""
    return target - mean_of_tasks([np.minimum(scores, target) for scores in tasks])


def probability_of_improvement(tasks: Tasks, others: Tasks) -> Numbers:
    """Return the probability that a run scores more than one of the others in the same task, as the mean over tasks.

    It is the statistic U of Mann and Whitney divided by the number of pairs: equal scores count half. Tasks need no
    common unit. Raises ValueError for different numbers of tasks.
    """
    return np.asarray(np.mean([_share_above(scores, its) for scores, its in zip(tasks, others, strict=True)], axis=0))


def exceeded(tasks: Tasks, thresholds: Sequence[float]) -> list[Numbers]:
    """Return for each task whether each run's score is above each threshold: 1 or 0, [thresholds, runs].

    The ``mean_of_tasks`` of these arrays is the performance profile: the share of runs above each threshold.
    """
    return [(scores > np.asarray(thresholds)[:, None]).astype(np.float64) for scores in tasks]


def interval(statistic: Statistic, *groups: Sequence[Sequence[float]], resamples: int = RESAMPLES) -> Interval:
    """Return a statistic with its bootstrap interval, the same for the same scores (the seed is fixed).

    ``groups``: one group of runs, or two for a statistic that compares them. A group has, for each task, the scores of
    its runs; all tasks have the same unit. Raises ValueError for a task without runs.
    """
    found = band(
        statistic, *([np.asarray(its, dtype=np.float64) for its in group] for group in groups), resamples=resamples
    )
    return Interval(*(float(number) for number in found))


def band(statistic: Statistic, *groups: Tasks, resamples: int = CURVE_RESAMPLES) -> Band:
    """Return a statistic that is an array, such as a mean learning curve, with an interval for each of its numbers.

    ``groups``: as for ``interval``, with arrays [..., runs] as scores; whole curves are resampled. Raises ValueError
    for a task without runs.
    """
    counts = [[scores.shape[-1] for scores in tasks] for tasks in groups]
    if not all(runs and all(runs) for runs in counts):
        raise ValueError(f"the tasks have {counts} runs; each needs at least one")
    random = np.random.default_rng(0)
    drawn = [[random.integers(count, size=(resamples, count)) for count in runs] for runs in counts]
    points = groups[0][0].shape[:-1]
    flat = [[scores.reshape(-1, scores.shape[-1]) for scores in tasks] for tasks in groups]
    edges = np.empty((2, int(np.prod(points))))
    step = max(1, _AT_ONCE // (resamples * sum(map(sum, counts))))
    for start in range(0, edges.shape[1], step):
        part = slice(start, start + step)
        samples = statistic(
            *([s[part][:, d] for s, d in zip(*each, strict=True)] for each in zip(flat, drawn, strict=True))
        )
        edges[:, part] = np.quantile(samples, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=-1)
    low, high = edges.reshape(2, *points)
    return Band(statistic(*groups), low, high)


def _means(tasks: Tasks) -> Numbers:
    """Return the mean over each task's runs: [tasks, ...]."""
    return np.stack([scores.mean(axis=-1) for scores in tasks])


def _share_above(scores: Numbers, others: Numbers) -> Numbers:
    """Return the share of pairs in which the first score is higher; computed run by run, to save memory."""
    above = np.zeros(scores.shape[:-1])
    for run in np.moveaxis(scores, -1, 0)[..., None]:
        above += (run > others).mean(axis=-1) + 0.5 * (run == others).mean(axis=-1)
    share: Numbers = above / scores.shape[-1]
    return share
