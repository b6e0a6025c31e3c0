"""Differences between the newest weights, and between the newest gradients, of learners in mode gossip, for reports.

Pure. ``benchmarks/papers/gossip_bound.py`` computes a bound of the differences of weights from the learners' logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Measured(NamedTuple):
    """Comparison of the learners' newest messages."""

    versions: dict[int, int]
    """Version of the message of each learner that has posted one."""
    distances: dict[int, float]
    """l2 norm of the difference between each learner's message and the first learner's."""
    distance: float
    """l2 norm of the difference between the first learner's message and the mean of all."""


def measure(learners: Sequence[int], take: Callable[[int, NDArray[np.float32]], int], size: int) -> Measured:
    """Compare the newest messages [size] of learners that have posted; `take` copies one and returns its version."""
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
    """Return the cosine of each pair of learners' gradients: {"0-1": 0.83, ...}; 0 if one gradient is 0."""
    vectors = {learner: vector / max(float(np.linalg.norm(vector)), 1e-30) for learner, vector in gradients.items()}
    return {f"{one}-{other}": float(vectors[one] @ vectors[other]) for one, other in combinations(sorted(vectors), 2)}


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt(vector @ vector))
