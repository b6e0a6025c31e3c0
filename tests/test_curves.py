"""Curves of scheduled numbers begin at 0, end at 1, and never go back."""

from __future__ import annotations

import pytest

from actorlearn.curves import curve


@pytest.mark.parametrize(
    ("name", "expected"), [("linear", [0.0, 0.25, 0.5, 0.75, 1.0]), ("cosine", [0.0, 0.146447, 0.5, 0.853553, 1.0])]
)
def test_a_curve_goes_from_0_to_1(name: str, expected: list[float]) -> None:
    assert [curve(name, progress / 4) for progress in range(5)] == pytest.approx(expected, abs=1e-6)
