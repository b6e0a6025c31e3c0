"""Directed graphs that say which learners mix whose weights in mode gossip, and properties of these graphs.

Source: Assran et al. (2019), section 3; their experiments use the directed ring.

A vertex of a graph is a position among the present learners, so when a learner leaves, its neighbours become adjacent.
An edge leads from an in-peer to the learner that mixes its weights. Row i of the mixing matrix has the coefficients of
the mean that learner i takes: 1 / (1 + in-degree) for itself and for each in-peer. Rows therefore sum to 1. Columns
also sum to 1 if every vertex has as many out-peers as in-peers, and all learners mix in the same round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

Graph = Literal["none", "ring", "k-peer", "exponential", "exponential-varying", "complete", "random-matching"]
"""Graphs with a name; any other graph is given by lists of in-peers."""
GRAPHS = (*get_args(Graph), "lists")
DRAWS = 256
"""Number of exchanges over which `measure_mixing` computes the properties of random matching."""
FREE_AGE = 0.5
"""Mean age of messages if learners do not wait; 1 is the time between two exchanges of a learner.

0.44 was measured with four learners on two cores, in a ring (benchmarks/results/gossip.md).
"""
_NOTHING = 1e-12
"""Factors of the differences between learners (`_spectral_radius`) below this number are rounding errors of 0."""


class GraphSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a gossip graph, which says which learners average their weights."""

    name: str = "ring"
    """One of GRAPHS; the key ``gossip.graph`` in ``settings.py`` describes each."""
    peers: int = 1
    """For k-peer: number of in-peers of each learner."""
    lists: tuple[tuple[int, ...], ...] = ()
    """For lists: the in-peers of each learner."""
    seed: int = 0
    """For random-matching: the seed."""

    def __post_init__(self) -> None:
        if self.name not in GRAPHS:
            raise ValueError(f"graph.name: {self.name!r} must be one of {list(GRAPHS)}")
        if self.peers < 1:
            raise ValueError(f"graph.peers: {self.peers} must be 1 or more")
        if bool(self.lists) != (self.name == "lists"):
            raise ValueError(
                f"graph.lists: must be given for graph.name 'lists' and for no other graph; graph.name is {self.name!r}"
            )
        for learner, peers in enumerate(self.lists):
            if learner in peers or len(set(peers)) != len(peers) or min(peers, default=0) < 0:
                raise ValueError(
                    f"graph.lists: {list(peers)} of learner {learner} must be other learners, each listed once"
                )


class Mixing(NamedTuple):
    """How fast weights spread over a graph if all learners average at every exchange."""

    period: int
    """Number of exchanges that were examined: all until the graph repeats, or DRAWS of random matching."""
    repeats: bool
    """Whether the graph repeats after ``period`` exchanges; False for random matching."""
    in_degree: tuple[int, int]
    """Smallest and largest number of in-peers."""
    connected_within: int | None
    """Smallest B for which the graphs of any B consecutive exchanges together are strongly connected; None = there is
    none."""
    spectral_radius: float
    """Factor by which an exchange multiplies the differences between the learners' weights in the long run; 1 = the
    differences may remain."""
    doubly_stochastic: bool
    """Whether the columns of mixing matrices sum to 1, so that mixing does not change the mean of all learners."""


def in_peers(graph: GraphSettings, learners: Sequence[int], learner: int, exchange: int) -> tuple[int, ...]:
    """Return the learners whose weights ``learner`` averages with its own in this exchange, in ascending order.

    ``learners`` are the numbers of all present learners, including ``learner``. ``exchange`` is the number of times
    that ``learner`` has averaged before.
    """
    if graph.name == "lists":
        listed = graph.lists[learner] if learner < len(graph.lists) else ()
        return tuple(sorted(set(listed) & set(learners)))
    at, count = learners.index(learner), len(learners)
    if graph.name == "random-matching":
        order = np.random.default_rng((graph.seed, exchange)).permutation(count).tolist()
        partner = order.index(at) ^ 1
        return (learners[order[partner]],) if partner < count else ()
    return tuple(sorted(learners[(at - hops) % count] for hops in _hops(graph, count, exchange)))


def _hops(graph: GraphSettings, count: int, exchange: int) -> Sequence[int]:
    """Return the distances to the in-peers, counted backwards in a circle of ``count`` learners."""
    doublings = (count - 1).bit_length()  # 2^j < count for each j below it
    if graph.name == "exponential":
        return [1 << j for j in range(doublings)]
    if graph.name == "exponential-varying":
        return [1 << exchange % doublings] if doublings else []
    farthest = {"none": 0, "ring": 1, "k-peer": graph.peers, "complete": count - 1}[graph.name]
    return range(1, 1 + min(farthest, count - 1))


def neighbours(graph: GraphSettings, learners: Sequence[int], learner: int) -> tuple[int, ...]:
    """Return the learners whose weights ``learner`` averages with its own in some exchange, in ascending order."""
    if graph.name == "random-matching":
        return tuple(other for other in learners if other != learner)
    exchanges = range(max((len(learners) - 1).bit_length(), 1))  # after these the graph repeats
    return tuple(sorted({peer for exchange in exchanges for peer in in_peers(graph, learners, learner, exchange)}))


def mixing_matrix(graph: GraphSettings, learners: Sequence[int], exchange: int) -> NDArray[np.float64]:
    """Return the matrix [n, n] by which weights are averaged if all learners do so, in the order of ``learners``."""
    matrix = np.eye(len(learners))
    column = {learner: at for at, learner in enumerate(learners)}
    for learner, row in zip(learners, matrix, strict=True):
        row[[column[peer] for peer in in_peers(graph, learners, learner, exchange)]] = 1.0
        row /= row.sum()
    return matrix


def speed(others: float, age: float) -> float:
    """Return how fast learners move their weights, relative to a single learner, if all learn in one direction.

    ``others`` is the share of the other learners in a mean: 1/2 in a ring. A message that was sent ``age`` exchanges
    ago lacks its sender's steps since then, a distance of age * v at the speed v. The mean lacks ``others`` times this
    distance, so v = 1 - others * age * v.
    """
    return 1.0 / (1.0 + others * age)


def progress_since(posted_ns: int | None, began_ns: int, now_ns: int) -> float:
    """Return the share, from 0 to 1, of the time from ``began_ns`` to ``now_ns`` that lies after ``posted_ns``.

    It is the share of a learner's local steps that were taken after another learner sent its message. The share is 0 if
    ``posted_ns`` is None, or if the two times are equal.
    """
    if posted_ns is None or now_ns <= began_ns:
        return 0.0
    return min(max((now_ns - posted_ns) / (now_ns - began_ns), 0.0), 1.0)


@cache  # `actorlearn check` needs them twice; random matching of 64 learners takes a second
def measure_mixing(graph: GraphSettings, count: int) -> Mixing:
    """Return the properties of the graph with ``count`` learners."""
    period = {"random-matching": DRAWS, "exponential-varying": max((count - 1).bit_length(), 1)}.get(graph.name, 1)
    matrices = np.stack([mixing_matrix(graph, range(count), exchange) for exchange in range(period)])
    degrees = np.count_nonzero(matrices, axis=2) - 1
    repeats = graph.name != "random-matching"
    return Mixing(
        period=period,
        repeats=repeats,
        in_degree=(int(degrees.min()), int(degrees.max())),
        connected_within=_connected_within(matrices > 0, repeats),
        spectral_radius=_spectral_radius(matrices),
        doubly_stochastic=bool(np.allclose(matrices.sum(1), 1.0)),
    )


def _connected_within(edges: NDArray[np.bool_], repeats: bool) -> int | None:
    """Return the smallest number of consecutive exchanges that together are always strongly connected.

    ``edges`` [period, n, n] has the graph of each exchange. Returns None if there is no such number.
    """
    period = len(edges)
    for window in range(1, period + 1):
        starts = range(period if repeats else period - window + 1)
        unions = (np.logical_or.reduce(edges[np.arange(start, start + window) % period]) for start in starts)
        if all(_strongly_connected(union) for union in unions):
            return window
    return None


def _strongly_connected(edges: NDArray[np.bool_]) -> bool:
    """Whether every vertex reaches every other one; ``edges`` [n, n] is bool, and True on the diagonal."""
    reached = edges
    for _ in range(len(edges).bit_length()):  # each turn doubles the length of the paths
        reached = reached @ reached
    return bool(reached.all())


def _spectral_radius(matrices: NDArray[np.float64]) -> float:
    """Return the second largest modulus of the eigenvalues of the product of matrices [period, n, n], per matrix.

    That is, the ``period``-th root of the modulus. The largest modulus is 1, because equal weights stay equal. The
    second largest is the largest one on the space of differences between learners. The product is rescaled after each
    factor, because a product of hundreds of factors would underflow.
    """
    period, count, _ = matrices.shape
    directions = np.linalg.svd(np.ones((1, count)))[2][1:]  # an orthonormal basis of the differences, [n - 1, n]
    product, log_scale = np.eye(count - 1), 0.0
    for matrix in matrices:
        product = directions @ matrix @ directions.T @ product
        norm = float(np.linalg.norm(product))
        if norm < _NOTHING:
            return 0.0
        product, log_scale = product / norm, log_scale + float(np.log(norm))
    largest = float(np.abs(np.linalg.eigvals(product)).max())
    return 0.0 if largest < _NOTHING else float(np.exp((np.log(largest) + log_scale) / period))
