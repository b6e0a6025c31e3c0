"""Checks of what children say and files hold: what is refused, what is left out, and what passes as it is."""

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


def test_what_is_not_finite_is_none_and_what_nobody_registered_is_as_it_was() -> None:
    row = {"loss": float("nan"), "mine": float("inf"), "name": "x", "gradient_cosine": {"0-1": 0.5}, "entropy": None}
    expected = {"loss": None, "mine": None, "name": "x", "gradient_cosine": {"0-1": 0.5}, "entropy": None}
    assert check_row(row) == expected


def test_what_cannot_be_computed_with_is_left_out_of_what_was_read() -> None:
    deep: Any = 0
    for _ in range(DEEPEST):
        deep = [deep]
    found = {"loss": "k", "pid": "7", "env_steps": 10 * MOST, "frames": 4, "updates": None, "deep": deep, "name": "x"}
    assert keep_usable(found) == {"frames": 4, "updates": None, "name": "x"}
    assert [is_number(value) for value in (1, -MOST, 10 * MOST, float("nan"), "1", None)] == [True, True, *4 * [False]]
