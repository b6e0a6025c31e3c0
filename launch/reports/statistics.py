"""Statistics of the scores of several runs in several tasks, as Agarwal et al. (2021, arXiv 2108.13264) advise. Pure.

A task is a game, say, and its runs those of several seeds. Scores of a task are an array [..., runs]; a statistic takes
those of all tasks and reduces the runs. What stands before the runs is the same in all tasks: the steps of learning
curves, or the thresholds of a performance profile, so that ``band`` gives sample-efficiency curves and profiles too.

Intervals are those of a stratified bootstrap (Efron 1979): runs are drawn again with replacement within each task, and
never from another's, and what a statistic is in 95 % of the draws is its interval. Of few runs such intervals are too
narrow; docs/statistics.md says by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 20_000
CURVE_RESAMPLES = 2_000
"""Draws for each point of a curve: its band is looked at, and not read off to the last digit."""
LEVEL = 0.95
_AT_ONCE = 2_000_000
"""Most drawn scores of a task that are held in memory, so that long curves of many runs need no gigabytes."""

Numbers = npt.NDArray[np.float64]
Tasks = Sequence[Numbers]
"""Scores of each task's runs: [..., runs]."""
Statistic = Callable[..., Numbers]
"""Takes one Tasks, or two where it compares them, and returns numbers [...]."""


class Interval(NamedTuple):
    """An estimate, and the interval in which it lies with a confidence of LEVEL."""

    estimate: float
    low: float
    high: float

    @property
    def written(self) -> str:
        """The estimate, and its interval in brackets."""
        return f"{self.estimate:,.2f} ({self.low:,.2f} to {self.high:,.2f})"


class Band(NamedTuple):
    """Estimates [...] with their intervals, each for itself: an interval of a curve holds at a step, not at all."""

    estimate: Numbers
    low: Numbers
    high: Numbers


def interquartile_mean(tasks: Tasks) -> Numbers:
    """Return the mean of the middle half of all runs of all tasks; the lowest and highest quarters are left out.

    Quarters are rounded down, as rliable does: of three runs or fewer it is the mean. It is less moved by one run than
    a mean, and made of more runs than a median.
    """
    scores = np.sort(np.concatenate(tasks, axis=-1), axis=-1)
    cut = scores.shape[-1] // 4
    middle: Numbers = scores[..., cut : scores.shape[-1] - cut].mean(axis=-1)
    return middle


def mean_of_tasks(tasks: Tasks) -> Numbers:
    """Return the mean over tasks of the mean of each task's runs."""
    return np.asarray(np.mean(_means(tasks), axis=0))


def median_of_tasks(tasks: Tasks) -> Numbers:
    """Return the median over tasks of the mean of each task's runs."""
    return np.asarray(np.median(_means(tasks), axis=0))


def optimality_gap(tasks: Tasks, target: float = 1.0) -> Numbers:
    """Return by how much scores fall short of a target, in the mean over tasks; higher scores count as the target."""
    return target - mean_of_tasks([np.minimum(scores, target) for scores in tasks])


def probability_of_improvement(tasks: Tasks, others: Tasks) -> Numbers:
    """Return how probably a run scores more than one of the others in the same task, in the mean over tasks.

    It is Mann and Whitney's U as a share of all pairs: equal scores count half. Scores of different tasks are never
    compared, so they need no common unit. Raises ValueError where there are not as many other tasks.
    """
    return np.asarray(np.mean([_share_above(scores, its) for scores, its in zip(tasks, others, strict=True)], axis=0))


def exceeded(tasks: Tasks, thresholds: Sequence[float]) -> list[Numbers]:
    """Return of each task, threshold and run whether its score is above: 1 or 0, [thresholds, runs].

    Their ``mean_of_tasks`` is the performance profile: the share of runs above each threshold.
    """
    return [(scores > np.asarray(thresholds)[:, None]).astype(np.float64) for scores in tasks]


def interval(statistic: Statistic, *groups: Sequence[Sequence[float]], resamples: int = RESAMPLES) -> Interval:
    """Return a statistic of one group of runs, or of two, with its interval.

    A group is the scores of each task's runs, in a unit that is common to its tasks. The same scores give the same
    interval. Raises ValueError for a task without runs.
    """
    found = band(
        statistic, *([np.asarray(its, dtype=np.float64) for its in group] for group in groups), resamples=resamples
    )
    return Interval(*(float(number) for number in found))


def band(statistic: Statistic, *groups: Tasks, resamples: int = CURVE_RESAMPLES) -> Band:
    """Return a statistic [...] of one group of runs, or of two, with an interval for each of its numbers.

    A run is drawn with all its numbers: of a curve, whole. Raises ValueError for a task without runs.
    """
    counts = [[scores.shape[-1] for scores in tasks] for tasks in groups]
    if not all(runs and all(runs) for runs in counts):
        raise ValueError(f"tasks have {counts} runs; each needs one at least")
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
    """Return the mean of each task's runs: [tasks, ...]."""
    return np.stack([scores.mean(axis=-1) for scores in tasks])


def _share_above(scores: Numbers, others: Numbers) -> Numbers:
    """Return the share of pairs of a run and another in which it has the higher score; run by run, to save memory."""
    above = np.zeros(scores.shape[:-1])
    for run in np.moveaxis(scores, -1, 0)[..., None]:
        above += (run > others).mean(axis=-1) + 0.5 * (run == others).mean(axis=-1)
    share: Numbers = above / scores.shape[-1]
    return share
