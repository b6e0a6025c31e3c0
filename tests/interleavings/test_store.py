"""The parameter store under every interleaving of learners that may be killed; and what slips in it would come to."""

from __future__ import annotations

import pytest

from actorlearn.parameters.store import Store
from tests.interleavings import mutants
from tests.interleavings.chunks import filling, updating
from tests.interleavings.explore import explore

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


def test_no_update_is_lost_and_no_chunk_is_half() -> None:
    found = explore(updating())
    print(found)
    assert not found.violation, found


def test_whoever_fills_the_store_does_so_alone_and_whole() -> None:
    found = explore(filling())
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize("mutant", [mutants.LockLetGo, mutants.SharedLock, mutants.CommittedFirst, mutants.WrittenOver])
def test_a_slip_in_updates_is_caught(mutant: type[Store]) -> None:
    found = explore(updating(mutant))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.LockLetGo, mutants.FilledFirst])
def test_a_slip_in_filling_is_caught(mutant: type[Store]) -> None:
    found = explore(filling(mutant))
    print(found)
    assert found.violation
