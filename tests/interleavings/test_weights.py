"""Weights and messages under every interleaving of a writer and a reader; and what slips in them would come to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleavings import mutants
from tests.interleavings.explore import Scenario, explore
from tests.interleavings.messages import posting
from tests.interleavings.weights import of_rollouts, publishing

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize("scenario", [publishing, of_rollouts, pytest.param(posting, marks=pytest.mark.nightly)])
def test_no_interleaving_and_no_kill_tears_weights_or_turns_them_back(scenario: Callable[[], Scenario]) -> None:
    found = explore(scenario())
    print(found)
    assert not found.violation, found


def test_the_mutants_are_mutants_of_what_is_right() -> None:
    assert not explore(publishing(mutants.Reordered, versions=2)).violation


@pytest.mark.parametrize(
    "mutant",
    [
        mutants.VersionFirst,
        mutants.NoMark,
        mutants.VersionTooEarly,
        mutants.OneSlot,
        mutants.NumberAgain,
        mutants.NoSecondLook,
    ],
)
def test_a_slip_in_published_weights_is_caught(mutant: type[mutants.Published]) -> None:
    found = explore(publishing(mutant))
    print(found)
    assert found.violation
    found = explore(posting(mutants.in_mailbox(mutant), posts=4))
    assert found.violation, "in a mailbox it is not"


def test_a_message_that_is_used_twice_is_caught() -> None:
    found = explore(posting(mutants.VersionOfTheNext))
    print(found)
    assert found.violation
