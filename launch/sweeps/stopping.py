"""The stopping rule of a sweep: the median rule of Google Vizier (Golovin et al. 2017, section 3.2.2). Pure.

The curve of a trial is the mean learning curve over its seeds. A trial is ended at step s if the best value of its
curve up to step s is worse than a bound. For each finished trial, the mean of its curve up to step s is computed; the
bound is the median of these means.

A trial is ended with all its seeds or not at all. A rule that ended single runs would keep the lucky seeds of each
trial, and so raise its mean score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from launch.reports.compare import Points, resample
from launch.reports.statistics import Numbers
from launch.sweeps.history import Dropped
from launch.sweeps.keys import MedianKeys


class TrialCurve(NamedTuple):
    """The mean learning curve of a trial over its seeds, at evenly spaced steps that all seeds have reached."""

    steps: Numbers
    """Environment steps, [points]."""
    numbers: Numbers
    """Mean scores, [points]."""


def mean_curve(seeds: Sequence[Points]) -> TrialCurve | None:
    """Return the mean of the learning curves of a trial's runs.

    If there are no curves, if one is empty, or if they have no step in common, return None.
    """
    if not seeds or not all(len(points) for points in seeds):
        return None
    try:
        steps, numbers = resample(seeds)
    except ValueError:
        return None
    return TrialCurve(steps, numbers.mean(axis=0))


def judge(
    keys: MedianKeys, sign: int, trial: int, curve: TrialCurve, whole: Mapping[int, TrialCurve]
) -> Dropped | None:
    """Apply the rule to a trial at the last step of its curve; return `Dropped` if the trial must end, else None.

    ``sign``: 1 if a higher score is better, -1 if a lower one is. ``whole``: curves of the finished trials, by number.
    """
    at = float(curve.steps[-1])
    if at < keys.after_steps or len(whole) < keys.after_trials:
        return None
    averages = [float(other.numbers[by].mean()) for other in whole.values() if (by := other.steps <= at).any()]
    if len(averages) < keys.after_trials:
        return None
    best, bound = sign * float(np.max(sign * curve.numbers)), median(averages)
    if sign * best >= sign * bound:
        return None
    return Dropped(trial=trial, env_steps=int(at), score=best, bound=bound)
