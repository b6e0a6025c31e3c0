"""The median rule ends a trial whose best score up to a step is worse than the median of the others' averages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.sweeps.keys import MedianKeys
from launch.sweeps.stopping import TrialCurve, judge, mean_curve

RULE = MedianKeys(after_trials=3)


def line(start: float, end: float, steps: int = 1000) -> TrialCurve:
    return TrialCurve(np.linspace(0, steps, 101), np.linspace(start, end, 101))


def test_a_trial_below_the_median_of_the_averages_ends() -> None:
    whole = {number: line(0, 10.0 * number) for number in (1, 2, 3)}  # averages 5, 10, 15
    verdict = judge(RULE, 1, 0, line(0, 9.9), whole)
    assert verdict is not None
    assert (verdict.env_steps, verdict.score, verdict.bound) == (1000, pytest.approx(9.9), pytest.approx(10))
    assert judge(RULE, 1, 0, line(0, 10.1), whole) is None
    assert judge(RULE, 1, 0, line(10.1, 0), whole) is None, "its best counts, not its last"


def test_averages_are_taken_up_to_the_same_step() -> None:
    whole = {number: line(0, 10.0) for number in (1, 2, 3)}
    early = TrialCurve(np.linspace(0, 500, 51), np.full(51, 2.6))  # where the others had 2.5 on average, and come to 5
    assert judge(RULE, 1, 0, early, whole) is None
    assert judge(RULE, 1, 0, TrialCurve(early.steps, np.full(51, 2.4)), whole) is not None


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=7), st.floats(-10, 10))
def test_lower_scores_are_better_with_a_negative_sign(ends: list[float], end: float) -> None:
    rule = MedianKeys(after_trials=1)
    whole = {number: line(0, value) for number, value in enumerate(ends)}
    mirrored = {number: line(0, -value) for number, value in enumerate(ends)}
    up, down = judge(rule, 1, 0, line(0, end), whole), judge(rule, -1, 0, line(0, -end), mirrored)
    assert (up is None) == (down is None)
    assert up is None or down is None or (up.score, up.bound) == (-down.score, -down.bound)


def test_no_trial_ends_before_enough_trials_are_whole_and_enough_steps_are_done() -> None:
    whole = {number: line(5, 5) for number in range(3)}
    assert judge(RULE, 1, 0, line(0, 0), {0: whole[0], 1: whole[1]}) is None
    assert judge(MedianKeys(after_trials=3, after_steps=1001), 1, 0, line(0, 0), whole) is None
    assert judge(MedianKeys(after_trials=3, after_steps=1000), 1, 0, line(0, 0), whole) is not None
    late = {number: TrialCurve(np.array([2000.0]), np.array([5.0])) for number in range(3)}
    assert judge(RULE, 1, 0, line(0, 0), late) is None, "the others have no scores up to that step"


def test_the_curve_of_a_trial_is_the_mean_of_its_seeds_up_to_the_last_step_of_all() -> None:
    curve = mean_curve([[(0, 0.0), (100, 10.0)], [(0, 2.0), (50, 2.0)]])
    assert curve is not None
    assert (curve.steps[-1], curve.numbers[0], curve.numbers[-1]) == (50, 1.0, 3.5)
    assert mean_curve([]) is None and mean_curve([[(0, 1.0)], []]) is None
    assert mean_curve([[(0, 1.0), (10, 1.0)], [(100, 1.0), (110, 1.0)]]) is None
