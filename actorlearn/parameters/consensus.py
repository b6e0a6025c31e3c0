"""Measures for reports how much the weights, and the gradients, of learners in mode gossip differ.

``benchmarks/papers/gossip_bound.py`` computes an upper bound of the differences of weights from the learners' logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Measured(NamedTuple):
    """Comparison of the weights in the learners' newest messages. The first learner is the one that compares."""

    versions: dict[int, int]
    """Version of each learner's message, by learner."""
    distances: dict[int, float]
    """L2 norm of the difference between each learner's weights and the first learner's, by learner."""
    distance: float
    """L2 norm of the difference between the first learner's weights and the mean of all."""


def measure(learners: Sequence[int], take: Callable[[int, NDArray[np.float32]], int], size: int) -> Measured:
    """Compare the weights [size] in the newest messages of ``learners``, all of which must have posted one.

    ``take(learner, out)`` copies the weights to ``out``, and returns their version.
    """
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
    """Return the cosine of the angle between each pair of gradients: {"0-1": 0.83, ...}; 0 if one gradient is 0."""
    vectors = {learner: vector / max(float(np.linalg.norm(vector)), 1e-30) for learner, vector in gradients.items()}
    return {f"{one}-{other}": float(vectors[one] @ vectors[other]) for one, other in combinations(sorted(vectors), 2)}


def _norm(vector: NDArray[np.float64]) -> float:
    return float(np.sqrt(vector @ vector))
