"""Training intensity is kept whatever the order of storing and learning."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.replay.ratio import Ratio

RATIOS = st.builds(
    Ratio,
    intensity=st.sampled_from([0.1, 0.25, 1.0, 8.0, 7.3]),
    batch=st.sampled_from([1, 32, 100]),
    starts=st.integers(0, 50),
)


@given(RATIOS, st.lists(st.integers(0, 40), max_size=60))
def test_taking_turns_does_exactly_as_many_updates_as_are_due(ratio: Ratio, rollouts: list[int]) -> None:
    inserted = updates = 0
    for more in rollouts:
        inserted += more
        updates += ratio.due(inserted, updates)
        exact = max(0, inserted - ratio.starts) * Fraction(str(ratio.intensity)) / ratio.batch
        assert updates == int(exact)
        assert ratio.due(inserted, updates) == 0


def test_dqn_learns_from_each_transition_eight_times() -> None:
    assert Ratio(intensity=8.0, batch=32, starts=50_000).due(50_000 + 10_000, 0) == 2_500


@pytest.mark.parametrize(("key", "value"), [("intensity", 0.0), ("batch", 0), ("starts", -1)])
def test_numbers_by_which_nothing_happens_are_refused(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{key} {value} must be"):
        Ratio(**{"intensity": 1.0, "batch": 1, key: value})
