"""Checks of metric rows from processes and files: which values are refused, removed or kept."""

from __future__ import annotations

from typing import Any

import pytest

from launch.reports.checks import DEEPEST, MOST, check_row, is_number, keep_usable


@pytest.mark.parametrize("row", [{"loss": "k"}, {"secondary_loss": []}, {"env_steps": {}}, {"share_wait": "0.5"}])
def test_a_metric_that_is_no_number_is_refused_by_name(row: dict[str, Any]) -> None:
    (name,) = row
    with pytest.raises(ValueError, match=f"{name} is .*; it must be a number"):
        check_row(row)


def test_a_counter_below_zero_is_refused_and_a_gauge_is_not() -> None:
    with pytest.raises(ValueError, match="steps_used is -1; a counter cannot be negative"):
        check_row({"steps_used": -1})
    assert check_row({"loss": -1.0, "env_steps": 3}) == {"loss": -1.0, "env_steps": 3}


def test_numbers_that_are_not_finite_become_none_and_values_that_are_no_numbers_are_kept() -> None:
    row = {"loss": float("nan"), "mine": float("inf"), "name": "x", "gradient_cosine": {"0-1": 0.5}, "entropy": None}
    expected = {"loss": None, "mine": None, "name": "x", "gradient_cosine": {"0-1": 0.5}, "entropy": None}
    assert check_row(row) == expected


def test_unusable_values_are_removed_from_a_row_that_was_read() -> None:
    deep: Any = 0
    for _ in range(DEEPEST):
        deep = [deep]
    found = {"loss": "k", "pid": "7", "env_steps": 10 * MOST, "frames": 4, "updates": None, "deep": deep, "name": "x"}
    assert keep_usable(found) == {"frames": 4, "updates": None, "name": "x"}
    assert [is_number(value) for value in (1, -MOST, 10 * MOST, float("nan"), "1", None)] == [True, True, *4 * [False]]
