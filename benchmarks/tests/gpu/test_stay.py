"""Cases of a part are measured while it has time, and measurements of an interrupted call count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu.stay import KEPT, Stay
from benchmarks.tests.gpu.hosts import RICH, asked
from launch.bench.interleaved import Spread
from launch.errors import FailedError


def failing() -> float:
    raise FailedError("no such kernel")


def broken() -> float:
    raise KeyError("weights")


def test_cases_are_measured_in_turn_and_what_fails_is_told_once(tmp_path: Path) -> None:
    order: list[str] = []

    def case(name: str) -> Callable[[], float]:
        return lambda: order.append(name) or float(len(order))

    stay = Stay(asked(tmp_path), RICH, "servers", minutes=5.0)
    found = stay.measure({"a": case("a"), "bad": failing, "worse": broken, "b": case("b")}, 2)
    assert "".join(order) == "abab"
    assert found == {"a": Spread((1.0, 3.0)), "b": Spread((2.0, 4.0))}
    assert stay.shortfalls == ["bad: no such kernel", "worse: KeyError: 'weights'"]
    lines = [json.loads(line) for line in (tmp_path / f"{KEPT}.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == ["a", "bad", "worse", "b", "a", "b"]


def test_a_part_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    Stay(asked(tmp_path), RICH, "servers", 5.0).measure({"a": lambda: 1.0, "b": failing}, 1)
    again = Stay(asked(tmp_path), RICH, "servers", 5.0)
    assert again.measure({"a": failing, "b": lambda: 2.0}, 1) == {"a": Spread((1.0,)), "b": Spread((2.0,))}
    other = Stay(asked(tmp_path), RICH, "graphs", 5.0)
    assert other.measure({"a": lambda: 3.0}, 1) == {"a": Spread((3.0,))}


def test_no_case_is_begun_that_would_be_over_too_late(tmp_path: Path) -> None:
    stay = Stay(asked(tmp_path), RICH, "servers", minutes=0.1)
    assert stay.measure({"a": lambda: 1.0}, 1) == {}
    assert stay.shortfalls == ["a: not begun, as 6 s were left of the part's time"]
    assert Stay(asked(tmp_path), RICH, "servers", 0.1).measure({"a": lambda: 1.0}, 1, start_s=1.0)
