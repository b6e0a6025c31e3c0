"""Training intensity is kept whatever the order of storing and learning."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from actorlearn.learning.replay import minibatches_due


@given(
    st.sampled_from([0.1, 0.25, 1.0, 8.0, 7.3]),
    st.sampled_from([1, 32, 100]),
    st.integers(0, 50),
    st.lists(st.integers(0, 40), max_size=60),
)
def test_as_many_minibatches_are_due_as_the_stored_steps_demand(
    intensity: float, batch: int, starts: int, rollouts: list[int]
) -> None:
    stored = 0
    for more in rollouts:
        stored += more
        exact = max(0, stored - starts) * Fraction(str(intensity)) / batch
        assert minibatches_due(stored, starts, intensity, batch) == int(exact)


def test_dqn_learns_from_each_transition_eight_times() -> None:
    assert minibatches_due(50_000 + 10_000, 50_000, 8.0, 32) == 2_500
