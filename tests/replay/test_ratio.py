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
    slack=st.sampled_from([0.0, 0.5, 1.0, 20.0]),
)


@given(RATIOS, st.lists(st.integers(0, 40), max_size=60))
def test_taking_turns_does_exactly_as_many_updates_as_are_due(ratio: Ratio, rounds: list[int]) -> None:
    inserted = updates = 0
    for more in rounds:
        inserted += more
        updates += ratio.due(inserted, updates)
        exact = max(0, inserted - ratio.starts) * Fraction(str(ratio.intensity)) / ratio.batch
        assert updates == int(exact)
        assert ratio.due(inserted, updates) == 0


@given(RATIOS, st.integers(1, 40), st.lists(st.booleans(), max_size=150))
def test_neither_side_runs_ahead_by_more_than_slack_and_one_can_always_go_on(
    ratio: Ratio, more: int, turns: list[bool]
) -> None:
    inserted = updates = 0
    a_round = Fraction(str(ratio.intensity)) * more / ratio.batch
    for stores in turns:
        may_insert, may_update = ratio.may_insert(inserted, updates, more), ratio.may_update(inserted, updates)
        assert may_insert or may_update
        if stores and may_insert:
            inserted += more
        elif not stores and may_update:
            updates += 1
        ahead = max(0, inserted - ratio.starts) * Fraction(str(ratio.intensity)) / ratio.batch - updates
        assert ahead <= max(Fraction(ratio.slack), 1 + a_round)
        assert ahead >= -Fraction(ratio.slack)
        assert updates == 0 or inserted >= ratio.starts


def test_dqn_learns_from_each_transition_eight_times() -> None:
    assert Ratio(intensity=8.0, batch=32, starts=50_000).due(50_000 + 10_000, 0) == 2_500


@pytest.mark.parametrize(("key", "value"), [("intensity", 0.0), ("batch", 0), ("starts", -1), ("slack", -1.0)])
def test_numbers_by_which_nothing_happens_are_refused(key: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{key} {value} must be"):
        Ratio(**{"intensity": 1.0, "batch": 1, key: value})
