"""Counts the policy lag, the age of the acting weights in updates, of each step that was learned from."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.lags import LAG_CLASSES


class Lags:
    """A histogram of the policy lags of steps."""

    def __init__(self) -> None:
        self._steps: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, lags: NDArray[np.int64]) -> None:
        """Count the steps of a batch, given the lag of each."""
        values, steps = np.unique(lags, return_counts=True)
        self._steps.update(dict(zip(values.tolist(), steps.tolist(), strict=True)))

    def row(self) -> dict[str, float | int]:
        """Return metrics: mean, largest, and the share of steps in each class of lags; all 0 if no step was counted."""
        total = max(self._steps.total(), 1)
        mean = sum(lag * steps for lag, steps in self._steps.items()) / total
        counted = {each: sum(steps for lag, steps in self._steps.items() if lag in each) for each in LAG_CLASSES}
        shares = {f"policy_lag_{each.name}": steps / total for each, steps in counted.items()}
        return {"policy_lag_mean": mean, "policy_lag_max": max(self._steps, default=0), **shares}
