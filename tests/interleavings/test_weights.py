"""Weights and messages under every interleaving of a writer and a reader; bugs in them are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interleavings import mutants
from tests.interleavings.explore import Scenario, explore
from tests.interleavings.messages import posting
from tests.interleavings.weights import of_rollouts, publishing

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core


@pytest.mark.parametrize("scenario", [publishing, of_rollouts, pytest.param(posting, marks=pytest.mark.nightly)])
def test_published_weights_and_messages_are_read_whole_and_never_go_back(scenario: Callable[[], Scenario]) -> None:
    found = explore(scenario())
    print(found)
    assert not found.violation, found


def test_the_base_class_of_the_mutants_has_no_bug() -> None:
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
def test_bugs_in_published_weights_are_found(mutant: type[mutants.Published]) -> None:
    found = explore(publishing(mutant))
    print(found)
    assert found.violation
    found = explore(posting(mutants.in_mailbox(mutant), posts=4))
    assert found.violation, "the bug is not found in a mailbox"


def test_a_mailbox_that_uses_a_message_twice_is_found() -> None:
    found = explore(posting(mutants.VersionOfTheNext))
    print(found)
    assert found.violation
