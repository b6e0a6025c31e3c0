"""Differences between learners that mix weights: of their newest weights, and of their newest gradients, for reports.

Pure. ``benchmarks/papers/gossip_bound.py`` computes a bound of these differences from the learners' logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Measured(NamedTuple):
    """The learners' newest messages, compared."""

    versions: dict[int, int]
    """Version of the message of each learner that has posted one."""
    distances: dict[int, float]
    """l2 norm, from the first one's message to each."""
    distance: float
    """l2 norm, from the first one's message to the mean of all."""


def measure(learners: Sequence[int], take: Callable[[int, NDArray[np.float32]], int], size: int) -> Measured:
    """Compare messages [size] of learners that have posted; `take` copies a learner's newest and says its version."""
    first, other = np.empty(size, np.float32), np.empty(size, np.float32)
    versions = {learners[0]: take(learners[0], first)}
    total, distances = first.astype(np.float64), {learners[0]: 0.0}
    for learner in learners[1:]:
        versions[learner] = take(learner, other)
        total += other
        distances[learner] = _norm(np.subtract(other, first, dtype=np.float64))
    total /= len(learners)
    return Measured(versions, distances, _norm(np.subtract(first, total, out=total)))


def cosines(gradients: Mapping[int, NDArray[np.float32]]) -> dict[str, float]:
    """Cosine of the angle between every two learners' gradients: {"0-1": 0.83, ...}; 0 where one is 0."""
    vectors = {learner: vector / max(float(np.linalg.norm(vector)), 1e-30) for learner, vector in gradients.items()}
    return {f"{one}-{other}": float(vectors[one] @ vectors[other]) for one, other in combinations(sorted(vectors), 2)}


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt(vector @ vector))
