"""Policy lag: the limit on the age of acting weights, the measured lags, and the mask of steps that are too old.

Pure. Lag is counted in updates: versions published since the one that chose an action.
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


def lags(batch: Batch, version: int) -> NDArray[np.int64]:
    """Return for each valid step the number of updates by which the acting weights were older than this version."""
    behind: NDArray[np.int64] = version - batch.policy_version.numpy()[batch.valid.cpu().numpy()]
    return behind


def mask_stale(batch: Batch, version: int, most_lag: int | None) -> Batch:
    """Mask the transitions whose acting weights were older than this version by more than ``most_lag``."""
    if most_lag is None:
        return batch
    fresh = version - batch.policy_version <= most_lag
    return dataclasses.replace(batch, valid=batch.valid & fresh.to(batch.valid.device))
