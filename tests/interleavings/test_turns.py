"""Blocks and rollouts under every interleaving of simulators, server and trainer; bugs in them are found."""

from __future__ import annotations

from typing import Any

import pytest

from actorlearn.memory import account
from tests.interleavings import mutants
from tests.interleavings.explore import explore
from tests.interleavings.turns import admitting, playing

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core


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
def test_rows_are_read_whole_and_once_and_processes_agree_on_participants(changed: dict[str, Any]) -> None:
    found = explore(playing(**changed))
    print(found)
    assert not found.violation, found


@pytest.mark.slow
def test_steps_of_a_killed_simulator_are_learned_or_counted_and_no_process_waits_for_it() -> None:
    found = explore(playing(members=2, rollouts=1, killed=["simulator-0"]))
    print(found)
    assert not found.violation, found


@pytest.mark.slow
def test_a_simulator_listed_later_is_answered_together_with_the_others() -> None:
    """In the first 400,000 states; there are more. Before there was the word ``listed``, 100,000 had a violation."""
    with pytest.raises(MemoryError, match="more than 400,000 states"):  # a violation ends the search before
        print(explore(playing(members=2, rollouts=1, late=True)))


def test_no_action_is_chosen_for_a_simulator_that_is_being_admitted() -> None:
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
def test_bugs_in_blocks_and_rollouts_are_found(part: str, mutant: type[Any], changed: dict[str, Any]) -> None:
    found = explore(playing({part: mutant}, **changed))
    print(found)
    assert found.violation


def test_a_bug_in_the_account_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "CommittedRecord", mutants.CommitsFirst)
    found = explore(playing(killed=["trainer"]))
    print(found)
    assert found.violation
