"""Meetings and all-gathers under every interleaving of learners that may be killed; and what slips would come to."""

from __future__ import annotations

import pytest

from tests.interleavings import mutants
from tests.interleavings.explore import explore
from tests.interleavings.meetings import meeting

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize(
    "changed",
    [
        {"meetings": 4},
        {"told": True},
        {"back": True},
        pytest.param({"learners": 3, "meetings": 1, "placed": True}, marks=pytest.mark.nightly),
        {"gathers": True, "meetings": 4},
        {"gathers": True, "told": True, "placed": True},
    ],
    ids=["four", "told to end", "back", "three learners", "all-gather", "all-gather, told to end"],
)
def test_a_meeting_takes_place_for_all_who_live_or_for_none_and_all_hear_the_same(changed: dict[str, object]) -> None:
    found = explore(meeting(**changed))  # type: ignore[arg-type]
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize("mutant", [mutants.WordFirst, mutants.OneTable, mutants.MissedInHaste, mutants.MissedUnasked])
def test_a_slip_in_meetings_is_caught(mutant: type[mutants.SharedRendezvous]) -> None:
    found = explore(meeting(mutant))
    print(found)
    assert found.violation


def test_a_place_that_is_given_again_is_caught() -> None:
    found = explore(meeting(mutants.PlaceGivenAgain, back=True))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.OneRow, mutants.ShownTooLate])
def test_a_slip_in_all_gathers_is_caught(mutant: type[mutants.SharedRendezvous]) -> None:
    found = explore(meeting(mutant, gathers=True))
    print(found)
    assert found.violation


def test_who_leaves_an_all_gather_when_told_is_caught() -> None:
    found = explore(meeting(mutants.LeavesWhenTold, gathers=True, told=True))
    print(found)
    assert found.violation
