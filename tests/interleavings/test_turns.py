"""Blocks and rollouts under every interleaving of simulators, server and trainer; and what slips would come to."""

from __future__ import annotations

from typing import Any

import pytest

from actorlearn.memory import account
from tests.interleavings import mutants
from tests.interleavings.explore import explore
from tests.interleavings.turns import admitting, playing

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize(
    "changed",
    [
        {"horizon": 2, "rollouts": 3},
        {"blocks": 2, "rollouts": 4},
        {"killed": ["trainer"]},
        pytest.param({"members": 2}, marks=pytest.mark.nightly),
    ],
    ids=["one block", "two blocks", "trainer killed", "two simulators"],
)
def test_rows_are_read_whole_once_and_by_all_alike(changed: dict[str, Any]) -> None:
    found = explore(playing(**changed))
    print(found)
    assert not found.violation, found


@pytest.mark.slow
def test_what_a_killed_simulator_leaves_is_learned_or_counted_and_nobody_waits_for_it() -> None:
    found = explore(playing(members=2, rollouts=1, killed=["simulator-0"]))
    print(found)
    assert not found.violation, found


@pytest.mark.slow
def test_a_member_that_is_listed_later_is_answered_together_with_the_others() -> None:
    """In the first 400,000 states; the whole space is larger. Before the word ``listed``, 100,000 had a violation."""
    with pytest.raises(MemoryError, match="more than 400,000 states"):  # a violation ends the search before
        print(explore(playing(members=2, rollouts=1, late=True)))


def test_nobody_acts_for_a_simulator_that_is_being_admitted() -> None:
    found = explore(admitting())
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize(
    ("part", "mutant", "changed"),
    [
        ("group", mutants.CompletedFirst, {}),
        ("blocks", mutants.ObservedFirst, {}),
        ("rollouts", mutants.OpenFirst, {}),
        ("rollouts", mutants.OpenedTooFar, {}),
        ("acted early", object, {"members": 1}),
        ("members", mutants.OpenedBeforeCommitted, {"killed": ["trainer"], "rollouts": 3}),
        pytest.param("due", mutants.ReadAtOnce, {"members": 2}, marks=pytest.mark.nightly),
    ],
)
def test_a_slip_in_turns_is_caught(part: str, mutant: type[Any], changed: dict[str, Any]) -> None:
    found = explore(playing({part: mutant}, **changed))
    print(found)
    assert found.violation


def test_a_slip_in_the_account_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "CommittedRecord", mutants.CommitsFirst)
    found = explore(playing(killed=["trainer"]))
    print(found)
    assert found.violation
