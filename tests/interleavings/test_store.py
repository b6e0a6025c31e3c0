"""The parameter store under every interleaving of learners that may be killed; and what slips in it would come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorlearn.parameters.store import LearnerRecord, SharedStore
from tests.interleavings import mutants
from tests.interleavings.chunks import filling, updating
from tests.interleavings.explore import explore

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize(
    "changed",
    [pytest.param({"chunks": 2}, marks=pytest.mark.nightly), {"rollouts": 3, "kills": 0}],
    ids=["killed", "three rollouts"],
)
def test_every_update_is_in_every_chunk_once_and_no_chunk_is_half(changed: dict[str, Any]) -> None:
    found = explore(updating(**changed))
    print(found)
    assert not found.violation, found


def test_whoever_fills_the_store_does_so_alone_and_whole() -> None:
    found = explore(filling())
    print(found)
    assert not found.violation, found


class OneWordByItself(SharedStore):
    """Of each record the word that is asked for is read, whatever is written meanwhile."""

    def _recorded(self, *words: str) -> Any:
        columns = [LearnerRecord._fields.index(word) for word in words]
        return np.array([[record.now[0][column] for record in self._records] for column in columns])


@pytest.mark.parametrize(
    "mutant",
    [
        mutants.LockLetGo,
        mutants.SharedLock,
        mutants.CommittedFirst,
        mutants.WrittenOver,
        mutants.NumberedLater,
        mutants.NoNumbers,
        OneWordByItself,
    ],
)
def test_a_slip_in_updates_is_caught(mutant: type[SharedStore]) -> None:
    found = explore(updating(mutant, guarded=False, kills=int(mutant != OneWordByItself), rollouts=3))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.LockLetGo, mutants.FilledFirst])
def test_a_slip_in_filling_is_caught(mutant: type[SharedStore]) -> None:
    found = explore(filling(mutant, guarded=False))
    print(found)
    assert found.violation
