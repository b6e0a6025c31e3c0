"""Numbers, times and events as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from launch.reports.format import (
    DASH,
    as_duration,
    as_number,
    as_percent,
    as_whole,
    event_line,
    metric_value,
    printable,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-:--"),
        (float("nan"), "-:--"),
        (0, "0:00"),
        (61.9, "1:01"),
        (3723, "1:02:03"),
        (90061, "1 d 01:01:01"),
    ],
)
def test_a_duration_is_shown_in_days_hours_minutes_and_seconds(seconds: float | None, said: str) -> None:
    assert as_duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, DASH),
        (0.0, "0.0"),
        (1000.4, "1,000"),
        (999.96, "1000.0"),
        (10.0, "10.0"),
        (9.9994, "9.999"),
        (-5.1, "-5.100"),
        (0.001, "0.001"),
        (0.00099, "9.9e-04"),
    ],
)
def test_numbers_are_rounded_to_a_few_significant_digits(value: float | None, said: str) -> None:
    assert as_number(value) == said


def test_counts_are_shown_as_whole_numbers_and_shares_as_percentages() -> None:
    assert [as_whole(value) for value in (None, 0, 12345.6)] == [DASH, "0", "12,346"]
    assert [as_percent(value) for value in (None, 0.0, 0.254, 1.0)] == [DASH, "0%", "25%", "100%"]


def test_a_metric_is_shown_in_its_registered_form() -> None:
    row = {"env_steps": 12345.0, "learning_rate": 0.00025, "time_s": 61.0}
    assert [metric_value(row, name) for name in ("env_steps", "time_s")] == ["12,345", "1:01"]
    assert metric_value(row, "episode_return_mean") == DASH


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"kind": "stopping", "cause": "interrupted"}, "stopping: interrupted"),
        ({"kind": "died", "process": "trainer", "incarnation": 0, "cause": "exit 1"}, "trainer died: exit 1"),
        (
            {"kind": "died", "process": "trainer", "incarnation": 2, "cause": "signal 9"},
            "trainer died (incarnation 2): signal 9",
        ),
        (
            {"kind": "died", "process": "simulator-1", "cause": "exit 1", "error": "ConnectionError: licence lost"},
            "simulator-1 died: exit 1: ConnectionError: licence lost",
        ),
        ({"kind": "saved", "process": "trainer", "env_steps": 12000}, "trainer saved: 12,000 steps"),
        ({"kind": "ready", "process": "simulator-1", "incarnation": None, "cause": ""}, "simulator-1 ready"),
        ({"kind": "warned", "cause": "two\n  lines"}, "warned: two lines"),
    ],
)
def test_an_event_is_one_line(event: dict[str, Any], said: str) -> None:
    assert event_line(event) == said


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[2Jb\nc") == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"
