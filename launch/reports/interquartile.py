"""Interquartile means of scores with bootstrap intervals, as Agarwal et al. (2021, arXiv 2108.13264) advise. Pure.

The interquartile mean leaves out the lowest and the highest quarter of all runs: less moved by one run than a mean, and
made of more runs than a median. Its interval is that of a stratified bootstrap: runs are drawn again with replacement
within each task, and never from another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RESAMPLES = 20_000


class Interval(NamedTuple):
    """An estimate, and the interval in which it lies with a confidence of 95 %."""

    estimate: float
    low: float
    high: float

    @property
    def written(self) -> str:
        """The estimate, and its interval in brackets."""
        return f"{self.estimate:,.2f} ({self.low:,.2f} to {self.high:,.2f})"


def interquartile_mean(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of the middle half along the last axis: the lowest and highest quarters, rounded down, left out.

    That is how rliable has it. Of three runs or fewer it is the mean.
    """
    count = scores.shape[-1]
    cut = count // 4
    middle: npt.NDArray[np.float64] = np.sort(scores, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def interquartile(tasks: Sequence[Sequence[float]], resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the interquartile mean of the scores of all runs of all tasks, with its percentile interval.

    ``tasks``: the scores of each task's runs, in a unit that is common to the tasks. The same scores give the same
    interval. Raises ValueError without scores.
    """
    if not all(tasks) or not tasks:
        raise ValueError(f"tasks have {[len(scores) for scores in tasks]} runs; each needs one at least")
    random = np.random.default_rng(seed)
    runs = [np.asarray(scores, dtype=np.float64) for scores in tasks]
    drawn = np.concatenate([random.choice(scores, (resamples, len(scores))) for scores in runs], axis=1)
    low, high = np.percentile(interquartile_mean(drawn), (2.5, 97.5))
    return Interval(float(interquartile_mean(np.concatenate(runs))), float(low), float(high))
