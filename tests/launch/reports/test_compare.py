"""Groups of runs: which belong together, at which steps they are compared, and how probable a difference is."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from launch.reports.compare import find_differences, group_alike, permutation_p, resample

A2C = {"name": "a", "seed": 1, "algorithm": {"name": "a2c", "horizon": 5}, "env": {"id": "x", "kwargs": {}}}
PPO = A2C | {"algorithm": {"name": "ppo", "horizon": 16, "ratio_clip": 0.2}}


def test_runs_that_differ_in_name_and_seed_alone_are_one_group() -> None:
    assert group_alike([A2C, PPO, A2C | {"seed": 2, "name": "b"}, PPO | {"seed": 3}]) == [[0, 2], [1, 3]]
    short, longer = (A2C | {"env": {"id": "x", "kwargs": {"length": length}}} for length in (2, 3))
    assert group_alike([A2C, short, longer]) == [[0], [1], [2]]
    assert group_alike([A2C | {"roles": {}}, A2C | {"roles": {"auditor": {"count": 1}}}]) == [[0], [1]]


def test_a_key_that_an_older_version_did_not_have_makes_no_difference() -> None:
    newer = A2C | {"seed": 2, "optimizer": {"groups": {}}}
    assert group_alike([A2C, newer]) == [[0, 1]]


def test_differences_list_the_keys_that_all_groups_have_with_choices_first() -> None:
    differences = find_differences([A2C, PPO])
    assert differences == [
        {"algorithm.name": "a2c", "algorithm.horizon": 5},
        {"algorithm.name": "ppo", "algorithm.horizon": 16},
    ]
    assert list(differences[0]) == ["algorithm.name", "algorithm.horizon"]
    assert find_differences([A2C]) == [{}]


def test_curves_are_compared_where_all_have_steps() -> None:
    steps, numbers = resample([[(0, 0.0), (100, 10.0)], [(50, 1.0), (80, 4.0)]], count=4)
    np.testing.assert_allclose(steps, [50, 60, 70, 80])
    np.testing.assert_allclose(numbers, [[5, 6, 7, 8], [1, 2, 3, 4]])
    with pytest.raises(ValueError, match="one begin at step 300, those of another end at step 200"):
        resample([[(100, 1.0), (200, 1.0)], [(300, 1.0), (400, 1.0)]])


def test_runs_of_one_report_each_are_compared_at_their_ends() -> None:
    steps, numbers = resample([[(2_020, 5.0)], [(2_007, 7.0)], [(900, 0.0), (2_010, 3.0)]])
    assert steps.tolist() == [2_007]
    np.testing.assert_allclose(numbers[:, 0], [5.0, 7.0, 3.0 * 1_107 / 1_110])


@pytest.mark.parametrize("second", [[1.0, 2.0, 3.0], [0.5, 2.5, 4.0], [9.0, 8.0, 7.0], [9.0], [1.0, 1.0]])
def test_p_is_the_share_of_permutations_with_at_least_the_observed_difference_of_means(second: list[float]) -> None:
    first = [1.0, 2.0, 3.0]
    together, n = first + second, len(first)

    def apart(order: tuple[float, ...]) -> float:
        return abs(sum(order[:n]) / n - sum(order[n:]) / len(second))

    seen = apart(tuple(together))
    orders = list(permutations(together))
    slow = sum(apart(order) >= seen - 1e-9 for order in orders) / len(orders)
    assert permutation_p(np.array(first), np.array(second)) == pytest.approx(slow)


def test_p_of_many_runs_is_estimated_from_random_permutations() -> None:
    few, many = np.arange(20.0), np.arange(20.0) + 30.0
    assert 0 < permutation_p(few, many) < 0.001
    assert permutation_p(few, many) == permutation_p(few, many)
    assert permutation_p(few, few + 0.1) > 0.9
