"""Drawn values lie on their axes without repeats, and moves from one value to another stay on the axis."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.sweeps.axes import Axis, Choices, Range, count_all, draw, draw_different, written
from launch.topology.load import literal
from launch.topology.strict_yaml import read


def make_range(low: float, width: float, log: bool) -> Range:
    return Range("key", low, low + width, log)


ranges = st.one_of(
    st.builds(make_range, st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.booleans()),
    st.builds(make_range, st.integers(1, 100), st.integers(1, 1000), st.booleans()),
    st.builds(Range, st.just("key"), st.integers(-50, 0), st.integers(1, 50)),
)
choices = st.builds(
    lambda values: Choices("key", tuple(values)),
    st.lists(
        st.one_of(
            st.integers(-(2**63), 2**63),
            st.sampled_from(["a", "null", "1e3", "0777", "ä: [", " "]),
            st.none(),
            st.lists(st.integers(-(2**63), 2**63)),
        ),
        min_size=1,
        unique_by=str,
    ),
)


@given(
    st.one_of(ranges, choices), st.integers(), st.lists(st.sampled_from([0.5, 0.8, 1.2, 3.0]), min_size=2, max_size=2)
)
def test_draws_and_moves_stay_on_the_axis_and_can_be_written_as_they_are(
    axis: Axis, entropy: int, factors: list[float]
) -> None:
    random = Random(entropy)
    value: Any = axis.draw(random)
    for _ in range(5):
        if isinstance(axis, Range):
            assert axis.low <= value <= axis.high
            assert isinstance(value, int) == axis.whole
        else:
            assert value in axis.values
        assert read(literal(value), "value").value == value
        value = axis.move(value, factors, random)


@given(st.integers(1, 30), st.integers(0, 99))
def test_a_longer_list_of_draws_begins_with_the_shorter_one_and_repeats_no_value(count: int, seed: int) -> None:
    axes = [Range("a", 1, 6), Choices("b", (None, True, "x", [1], {"c": 1}))]
    assert count_all(axes) == 30
    found = draw_different(axes, seed, count)
    assert len({written(values) for values in found}) == len(found) == count
    assert found == draw_different(axes, seed, 30)[:count]


@pytest.mark.parametrize("ends", [(0.99999, 0.999999), (-1.0000002, -1.0000001), (0.0, 1e-9)])
def test_a_narrow_range_has_enough_numbers(ends: tuple[float, float]) -> None:
    found = [values["key"] for values in draw_different([Range("key", *ends)], 0, 50)]
    assert len({*found}) == 50 and all(ends[0] <= value <= ends[1] for value in found)


def test_a_scale_of_log_draws_as_many_from_each_power_of_ten() -> None:
    random, axis = Random(0), Range("key", 1e-4, 1.0, log=True)
    drawn = [axis.draw(random) for _ in range(4000)]
    shares = [sum(10.0**power <= value < 10.0 ** (power + 1) for value in drawn) / 4000 for power in range(-4, 0)]
    assert shares == pytest.approx([0.25] * 4, abs=0.03)


def test_whole_numbers_are_drawn_uniformly_including_both_ends() -> None:
    random, axis = Random(0), Range("key", 1, 4)
    drawn = [axis.draw(random) for _ in range(4000)]
    assert [drawn.count(value) / 4000 for value in (1, 2, 3, 4)] == pytest.approx([0.25] * 4, abs=0.03)


def test_a_move_takes_a_factor_a_neighbour_or_a_step() -> None:
    assert {Range("a", 0.0, 9.0).move(1.0, (0.8, 1.2), Random(n)) for n in range(20)} == {0.8, 1.2}
    assert {Range("a", 1, 100).move(2, (0.8, 1.2), Random(n)) for n in range(20)} == {1, 3}
    assert {Range("a", 1, 100).move(1, (0.8, 1.2), Random(n)) for n in range(20)} == {1, 2}
    assert {Choices("a", (5, 10, 20)).move(10, (0.8, 1.2), Random(n)) for n in range(20)} == {5, 20}
    assert {Choices("a", (5, 10, 20)).move(20, (0.8, 1.2), Random(n)) for n in range(20)} == {10, 20}


def test_draws_take_a_value_of_each_axis() -> None:
    assert [*draw([Range("a", 1, 2), Choices("b", (3,))], Random(0))] == ["a", "b"]
    assert draw([], Random(0)) == {}
