"""Policy lag: the limit on the age of acting weights, the measured lags, and the mask of steps that are too old.

Pure. Lag is counted in updates: versions published between the one that chose an action and the one that learns.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import AlgorithmSettings


def open_rollouts(blocks: int, algorithm: AlgorithmSettings) -> int:
    """Return how many rollouts may be open at once: each one more lets acting weights fall one more update behind."""
    if algorithm.max_policy_lag is None or algorithm.drops_stale:
        return blocks
    return min(blocks, algorithm.max_policy_lag + 1)


def lag_limit(algorithm: AlgorithmSettings) -> int | None:
    """Return the lag beyond which steps are dropped; None: none are."""
    return algorithm.max_policy_lag if algorithm.drops_stale else None


def lags(batch: Batch) -> NDArray[np.int64]:
    """Return the policy lag of each valid step."""
    found: NDArray[np.int64] = batch.policy_lag[batch.valid].cpu().numpy()
    return found


def mask_stale(batch: Batch, most_lag: int | None) -> Batch:
    """Mask the transitions whose acting weights were more than ``most_lag`` updates old."""
    if most_lag is None:
        return batch
    return dataclasses.replace(batch, valid=batch.valid & (batch.policy_lag <= most_lag))
