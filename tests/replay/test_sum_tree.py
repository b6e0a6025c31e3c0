"""The sum tree against a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.replay.sum_tree import SumTree, tree_bytes

PRIORITIES = st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.5])  # sums of these are exact, in whatever order


@given(data=st.data(), size=st.integers(1, 70))
def test_it_does_what_a_list_does(data: st.DataObject, size: int) -> None:
    tree, plain = SumTree(size), [0.0] * size
    for _ in range(data.draw(st.integers(1, 5))):
        pairs = data.draw(st.lists(st.tuples(st.integers(0, size - 1), PRIORITIES), max_size=2 * size))
        for index, priority in pairs:
            plain[index] = priority  # of those that come twice the last one counts
        tree.set(np.array([i for i, _ in pairs], np.int64), np.array([p for _, p in pairs]))
        assert tree.priorities.tolist() == plain
        assert tree.total == sum(plain)
        if not tree.total:
            continue
        ends = np.cumsum(plain)
        masses = data.draw(st.lists(st.floats(0.0, tree.total, exclude_max=True), min_size=1, max_size=20))
        found = tree.find(np.array(masses))
        assert found.tolist() == [int(np.flatnonzero(ends > mass)[0]) for mass in masses]


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=50), st.integers(1, 40), st.integers(0, 1000))
def test_what_has_no_priority_is_never_drawn(priorities: list[float], count: int, seed: int) -> None:
    tree = SumTree(len(priorities))
    tree.set(np.arange(len(priorities)), np.array(priorities))
    if not tree.total:
        with pytest.raises(LookupError, match="nothing to draw"):
            tree.stratified(count, np.random.default_rng(seed))
        return
    drawn = tree.stratified(count, np.random.default_rng(seed))
    beyond = tree.find(np.array([tree.total, np.nextafter(tree.total, 0.0)]))  # where rounding may lead
    assert (tree.priorities[np.concatenate([drawn, beyond])] > 0.0).all()


@given(st.lists(st.tuples(st.integers(0, 36), st.floats(0.0, 10.0)), max_size=40))
def test_a_tree_filled_with_priorities_is_the_tree_they_came_from(pairs: list[tuple[int, float]]) -> None:
    memory, anew = np.zeros((2, tree_bytes(37) // 8))
    tree, again = SumTree(37, memory), SumTree(37, anew)
    for index, priority in pairs:
        tree.set(np.array([index]), priority)
    again.fill(tree.priorities)
    assert (memory == anew).all()


def test_one_of_each_part_of_equal_mass_is_drawn() -> None:
    tree = SumTree(8)
    tree.set(np.arange(8), 1.0)
    assert tree.stratified(8, np.random.default_rng(0)).tolist() == list(range(8))


@pytest.mark.parametrize("priority", [-1.0, float("nan"), float("inf")])
def test_what_is_no_priority_is_refused_and_nothing_changed(priority: float) -> None:
    tree = SumTree(3)
    tree.set(np.array([0]), 2.0)
    with pytest.raises(ValueError, match="finite and 0 or more"):
        tree.set(np.array([0, 1]), np.array([1.0, priority]))
    assert (tree.total, tree.priorities.tolist()) == (2.0, [2.0, 0.0, 0.0])


@pytest.mark.parametrize("size", [1, 2, 5, 64, 65])
def test_its_memory_is_what_is_said(size: int) -> None:
    tree = SumTree(size, np.zeros(tree_bytes(size) // 8))
    tree.fill(np.ones(size))
    assert (tree.total, tree.find(np.array([size - 0.5])).tolist()) == (size, [size - 1])
    assert tree_bytes(size) <= 4 * size * 8
