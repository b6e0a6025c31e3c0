"""Counts how old the acting weights were, in updates, for each step that was learned from."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

SHOWN = 3
"""Lags below this are reported one by one, all longer ones as one share."""


class Lags:
    """A histogram of lags, one count a step."""

    def __init__(self) -> None:
        """Start with no steps."""
        self._steps: Counter[int] = Counter()

    def __bool__(self) -> bool:
        """Whether anything was counted."""
        return bool(self._steps)

    def add(self, lags: NDArray[np.int64]) -> None:
        """Count the steps of a batch, given the lag of each."""
        values, steps = np.unique(lags, return_counts=True)
        self._steps.update(dict(zip(values.tolist(), steps.tolist(), strict=True)))

    def row(self) -> dict[str, float | int]:
        """Mean, largest, and the share of steps at each lag; all 0 when nothing was counted."""
        total = max(self._steps.total(), 1)
        mean = sum(lag * steps for lag, steps in self._steps.items()) / total
        shares = {f"policy_lag_{lag}": self._steps[lag] / total for lag in range(SHOWN)}
        shares[f"policy_lag_{SHOWN}_or_more"] = sum(n for lag, n in self._steps.items() if lag >= SHOWN) / total
        return {"policy_lag_mean": mean, "policy_lag_max": max(self._steps, default=0), **shares}
