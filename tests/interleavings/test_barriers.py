"""Barriers and all-gathers under every interleaving of learners that may be killed; bugs in them are found."""

from __future__ import annotations

import pytest

from tests.interleavings import mutants
from tests.interleavings.barriers import passing
from tests.interleavings.explore import explore

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core


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
def test_all_living_learners_pass_a_barrier_or_none_and_all_read_the_same_numbers(changed: dict[str, object]) -> None:
    found = explore(passing(**changed))  # type: ignore[arg-type]
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize("mutant", [mutants.WordFirst, mutants.OneTable, mutants.MissedInHaste, mutants.MissedUnasked])
def test_bugs_in_barriers_are_found(mutant: type[mutants.SharedBarrier]) -> None:
    found = explore(passing(mutant))
    print(found)
    assert found.violation


def test_a_barrier_that_a_killed_learner_can_rejoin_is_found() -> None:
    found = explore(passing(mutants.PlaceGivenAgain, back=True))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.OneRow, mutants.ShownTooLate])
def test_bugs_in_all_gathers_are_found(mutant: type[mutants.SharedBarrier]) -> None:
    found = explore(passing(mutant, gathers=True))
    print(found)
    assert found.violation


def test_an_all_gather_that_a_stopped_learner_leaves_is_found() -> None:
    found = explore(passing(mutants.LeavesWhenTold, gathers=True, told=True))
    print(found)
    assert found.violation
