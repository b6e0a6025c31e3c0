"""Graphs of learners: in-peers and row sums, and measure_mixing against closed forms and slow searches."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.parameters.mixing import (
    DRAWS,
    GRAPHS,
    GraphSettings,
    in_peers,
    measure_mixing,
    mixing_matrix,
    neighbours,
    progress_since,
    speed,
)

NAMED = [name for name in GRAPHS if name != "lists"]
graphs = st.builds(GraphSettings, name=st.sampled_from(NAMED), peers=st.integers(1, 5), seed=st.integers(0, 99))
memberships = st.sets(st.integers(0, 63), min_size=1, max_size=12).map(sorted)


@pytest.mark.parametrize(
    ("graph", "members", "exchange", "expected"),
    [
        (GraphSettings(), range(4), 0, [(3,), (0,), (1,), (2,)]),
        (GraphSettings(), (0, 2, 5), 7, [(5,), (0,), (2,)]),
        (GraphSettings(name="k-peer", peers=2), range(4), 0, [(2, 3), (0, 3), (0, 1), (1, 2)]),
        (GraphSettings(name="k-peer", peers=9), range(3), 0, [(1, 2), (0, 2), (0, 1)]),
        (GraphSettings(name="none"), range(3), 0, [(), (), ()]),
        (GraphSettings(name="complete"), range(3), 0, [(1, 2), (0, 2), (0, 1)]),
        (GraphSettings(name="exponential"), range(5), 0, [(1, 3, 4), (0, 2, 4), (0, 1, 3), (1, 2, 4), (0, 2, 3)]),
        (GraphSettings(name="exponential-varying"), range(4), 0, [(3,), (0,), (1,), (2,)]),
        (GraphSettings(name="exponential-varying"), range(4), 1, [(2,), (3,), (0,), (1,)]),
        (GraphSettings(name="exponential-varying"), range(4), 2, [(3,), (0,), (1,), (2,)]),
        (GraphSettings(name="lists", lists=((2, 1), (), (0,))), range(3), 0, [(1, 2), (), (0,)]),
        (GraphSettings(name="lists", lists=((2, 1), (), (0,))), (0, 2, 7), 0, [(2,), (0,), ()]),
    ],
)
def test_in_peers_are_those_written_by_hand(
    graph: GraphSettings, members: tuple[int, ...], exchange: int, expected: list[tuple[int, ...]]
) -> None:
    assert [in_peers(graph, members, member, exchange) for member in members] == expected


@given(graphs, memberships, st.integers(0, 10_000))
def test_in_peers_are_other_members_named_once_and_rows_sum_to_one(
    graph: GraphSettings, members: list[int], exchange: int
) -> None:
    matrix = mixing_matrix(graph, members, exchange)
    np.testing.assert_allclose(matrix.sum(1), 1.0)
    for row, member in zip(matrix, members, strict=True):
        peers = in_peers(graph, members, member, exchange)
        assert list(peers) == sorted(set(peers)) and set(peers) <= set(members) - {member}
        mixed = {member, *peers}
        assert row.tolist() == [(one in mixed) / len(mixed) for one in members]


@given(memberships, st.integers(0, 99), st.integers(0, 1000))
def test_a_matching_is_mutual_and_leaves_out_one_of_an_odd_number(members: list[int], seed: int, exchange: int) -> None:
    graph = GraphSettings(name="random-matching", seed=seed)
    peers = {member: in_peers(graph, members, member, exchange) for member in members}
    assert all(peers[partner] == (member,) for member, partners in peers.items() for partner in partners)
    assert sum(not partners for partners in peers.values()) == len(members) % 2


def test_matchings_differ_between_exchanges_and_seeds() -> None:
    def drawn(seed: int) -> list[tuple[int, ...]]:
        graph = GraphSettings(name="random-matching", seed=seed)
        return [in_peers(graph, range(8), 0, exchange) for exchange in range(50)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) == {(peer,) for peer in range(1, 8)}  # each of 7 partners, in 50 draws


@pytest.mark.parametrize("learners", [1, 2, 3, 4, 7, 16])
def test_the_mixing_of_a_ring_equals_the_closed_form(learners: int) -> None:
    told = measure_mixing(GraphSettings(), learners)
    # circulant: the eigenvalues are (1 + w) / 2 over the n-th roots of unity w, of modulus |cos(pi j / n)|
    expected = 0.0 if learners <= 2 else math.cos(math.pi / learners)
    assert told.spectral_radius == pytest.approx(expected, abs=1e-9)
    degree = int(learners > 1)
    assert told[:4] == (1, True, (degree, degree), 1) and told.doubly_stochastic


@pytest.mark.parametrize("learners", [2, 4, 8, 16])
def test_the_varying_exponential_graph_agrees_exactly_after_one_period(learners: int) -> None:
    told = measure_mixing(GraphSettings(name="exponential-varying"), learners)
    assert (told.period, told.in_degree, told.spectral_radius) == (learners.bit_length() - 1, (1, 1), 0.0)
    assert told.doubly_stochastic and told.connected_within == told.period  # even and odd meet in one exchange of it


def test_the_complete_graph_agrees_at_once() -> None:
    assert measure_mixing(GraphSettings(name="complete"), 5) == (1, True, (4, 4), 1, 0.0, True)


def test_a_matching_needs_several_exchanges_to_connect_all() -> None:
    told = measure_mixing(GraphSettings(name="random-matching"), 6)
    assert told[:2] == (DRAWS, False) and told.in_degree == (1, 1) and told.doubly_stochastic
    assert told.connected_within is not None and told.connected_within > 1
    assert 0.3 < told.spectral_radius < 1  # E|Wx|^2 / |x|^2 = (1 - 1/5) / 2 for a difference x: about 0.63 an exchange


def test_a_graph_in_two_parts_never_connects() -> None:
    told = measure_mixing(GraphSettings(name="lists", lists=((1,), (0,), (3,), (2,))), 4)
    assert told.connected_within is None and told.spectral_radius == pytest.approx(1.0)


def test_without_mixing_differences_stay() -> None:
    assert measure_mixing(GraphSettings(name="none"), 4) == (1, True, (0, 0), None, pytest.approx(1.0), True)


def test_a_learner_without_in_peers_is_followed_by_the_others() -> None:
    told = measure_mixing(GraphSettings(name="lists", lists=((), (0,), (1,))), 3)
    assert told.connected_within is None and told.spectral_radius == pytest.approx(0.5)
    assert not told.doubly_stochastic and told.in_degree == (0, 1)


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=5, max_size=5))
def test_a_graph_connects_in_one_exchange_if_a_search_reaches_all_from_each(drawn: list[list[int]]) -> None:
    lists = tuple(tuple(sorted(set(peers) - {learner})) for learner, peers in enumerate(drawn))

    def reached(start: int) -> set[int]:
        found, waiting = {start}, [start]
        while waiting:
            for peer in set(lists[waiting.pop()]) - found:
                found.add(peer)
                waiting.append(peer)
        return found

    connected = all(len(reached(start)) == 5 for start in range(5))
    assert (measure_mixing(GraphSettings(name="lists", lists=lists), 5).connected_within == 1) == connected


@given(graphs.filter(lambda graph: graph.name != "random-matching"), st.integers(2, 8))
def test_the_spectral_radius_equals_that_of_the_product_of_all_matrices(graph: GraphSettings, learners: int) -> None:
    told = measure_mixing(graph, learners)
    product = np.eye(learners)
    for exchange in range(told.period):
        product = mixing_matrix(graph, range(learners), exchange) @ product
    second = sorted(np.abs(np.linalg.eigvals(product)))[-2]
    assert told.spectral_radius**told.period == pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "star"},
        {"peers": 0},
        {"name": "lists"},
        {"lists": [[1], [0]]},
        {"name": "lists", "lists": [[0]]},
        {"name": "lists", "lists": [[1, 1], [0]]},
        {"name": "lists", "lists": [[-1], [0]]},
    ],
)
def test_settings_of_impossible_graphs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="graph."):
        msgspec.convert(wrong, GraphSettings)


def test_every_pair_meets_in_the_long_run_of_matchings() -> None:
    graph = GraphSettings(name="random-matching", seed=3)
    met = {frozenset((0, *in_peers(graph, range(5), 0, exchange))) for exchange in range(200)}
    assert {frozenset(pair) for pair in itertools.product([0], range(1, 5))} < met  # and alone, now and then


@pytest.mark.parametrize("members", [(0,), (0, 2), (1, 2, 5), (0, 1, 2, 3, 4, 6)])
@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "lists"])
def test_neighbours_are_the_in_peers_of_all_exchanges(name: str, members: tuple[int, ...]) -> None:
    graph = GraphSettings(name=name, peers=2)
    for learner in members:
        ever = {peer for exchange in range(200) for peer in in_peers(graph, members, learner, exchange)}
        assert set(neighbours(graph, members, learner)) == ever


@pytest.mark.parametrize(("graph", "others"), [("ring", 1 / 2), ("complete", 3 / 4), ("none", 0.0)])
@pytest.mark.parametrize("age", [0, 1, 2, 8])
def test_old_messages_slow_learners_that_all_go_the_same_way(graph: str, others: float, age: int) -> None:
    """Each learner moves by 1 a round and mixes the weights that the others had ``age`` rounds before."""
    matrix = mixing_matrix(GraphSettings(name=graph), range(4), 0)
    own = np.diag(np.diag(matrix))
    seen = [np.zeros(4)]
    for _ in range(1000):
        now = seen[-1] + 1
        before = seen[max(len(seen) - 1 - age, 0)] + 1
        seen.append(own @ now + (matrix - own) @ before)
    assert (seen[-1] - seen[500]).mean() / 500 == pytest.approx(speed(others, age), rel=1e-3)


def test_progress_since_a_message_is_its_share_of_the_time_between_two_exchanges() -> None:
    shares = [progress_since(posted, 100, 200) for posted in (None, 50, 100, 150, 200, 250)]
    assert shares == [0.0, 1.0, 1.0, 0.5, 0.0, 0.0]
    assert progress_since(5, 7, 7) == 0.0
