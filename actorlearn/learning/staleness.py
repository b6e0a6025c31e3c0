"""How far acting weights may fall behind the trainer's, how far they did, and what is then too old to be learned from.

Pure. Lag is counted in updates: versions published since the one that chose an action.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.interface import AlgorithmSettings, Batch


def open_rollouts(blocks: int, algorithm: AlgorithmSettings) -> int:
    """Rollouts that may be open at once: each one more lets acting weights fall one more update behind."""
    if algorithm.max_policy_lag is None or algorithm.on_policy_lag == "drop":
        return blocks
    return min(blocks, algorithm.max_policy_lag + 1)


def lags(batch: Batch, version: int) -> NDArray[np.int64]:
    """Number of updates by which the acting weights were older than these, for each valid step."""
    behind: NDArray[np.int64] = version - batch.policy_version.numpy()[batch.valid.cpu().numpy()]
    return behind


def without_stale(batch: Batch, version: int, algorithm: AlgorithmSettings) -> Batch:
    """Mask the transitions that are to be dropped because the acting weights were too old for these."""
    if algorithm.max_policy_lag is None or algorithm.on_policy_lag == "wait":
        return batch
    fresh = version - batch.policy_version <= algorithm.max_policy_lag
    return dataclasses.replace(batch, valid=batch.valid & fresh.to(batch.valid.device))
