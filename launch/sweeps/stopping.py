"""The rule that ends trials early: the median rule of Google Vizier (Golovin et al. 2017, section 3.2.2). Pure.

A trial is ended at step s if its best number up to step s is worse than the median, over all finished trials, of their
averages up to step s. The curve of a trial is the mean over its seeds, so a trial is ended with all its seeds or not at
all: a rule that ended single runs would keep the lucky seeds of each trial, and raise its mean.
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
    """The mean of a trial over its seeds, at evenly spaced steps that all seeds have."""

    steps: Numbers
    numbers: Numbers


def mean_curve(seeds: Sequence[Points]) -> TrialCurve | None:
    """Return the mean of the curves of a trial's runs; None if a curve is empty, or if they have no step in common."""
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
    """Return the fact that the rule ends a trial, given its curve and those of finished trials; None if it does not.

    ``sign``: 1 if a higher number is better, -1 if a lower one is.
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
