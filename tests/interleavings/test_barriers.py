"""Barriers and all-gathers under every interleaving of learners that may be killed; and what slips would come to."""

from __future__ import annotations

import pytest

from tests.interleavings import mutants
from tests.interleavings.barriers import passing
from tests.interleavings.explore import explore

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize(
    "changed",
    [
        {"barriers": 4},
        {"told": True},
        {"back": True},
        pytest.param({"learners": 3, "barriers": 1, "placed": True}, marks=pytest.mark.nightly),
        {"gathers": True, "barriers": 4},
        {"gathers": True, "told": True, "placed": True},
    ],
    ids=["four", "told to end", "back", "three learners", "all-gather", "all-gather, told to end"],
)
def test_a_barrier_is_passed_by_all_who_live_or_by_none_and_all_hear_the_same(changed: dict[str, object]) -> None:
    found = explore(passing(**changed))  # type: ignore[arg-type]
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize("mutant", [mutants.WordFirst, mutants.OneTable, mutants.MissedInHaste, mutants.MissedUnasked])
def test_a_slip_in_barriers_is_caught(mutant: type[mutants.SharedBarrier]) -> None:
    found = explore(passing(mutant))
    print(found)
    assert found.violation


def test_a_place_that_is_given_again_is_caught() -> None:
    found = explore(passing(mutants.PlaceGivenAgain, back=True))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.OneRow, mutants.ShownTooLate])
def test_a_slip_in_all_gathers_is_caught(mutant: type[mutants.SharedBarrier]) -> None:
    found = explore(passing(mutant, gathers=True))
    print(found)
    assert found.violation


def test_who_leaves_an_all_gather_when_told_is_caught() -> None:
    found = explore(passing(mutants.LeavesWhenTold, gathers=True, told=True))
    print(found)
    assert found.violation
