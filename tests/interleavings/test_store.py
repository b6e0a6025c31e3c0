"""The parameter store under every interleaving of learners that may be killed; bugs in it are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorlearn.parameters.store import LearnerRecord, SharedStore
from tests.interleavings import mutants
from tests.interleavings.chunks import filling, updating
from tests.interleavings.explore import explore

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core


@pytest.mark.parametrize(
    "changed",
    [pytest.param({"chunks": 2}, marks=pytest.mark.nightly), {"rollouts": 3, "kills": 0}],
    ids=["killed", "three rollouts"],
)
def test_every_update_is_in_every_chunk_once_and_chunks_are_read_whole(changed: dict[str, Any]) -> None:
    found = explore(updating(**changed))
    print(found)
    assert not found.violation, found


def test_one_learner_alone_fills_the_whole_store() -> None:
    found = explore(filling())
    print(found)
    assert not found.violation, found


class OneWordByItself(SharedStore):
    """Each word of a record is read by itself, whatever is written meanwhile."""

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
def test_bugs_in_updates_of_the_store_are_found(mutant: type[SharedStore]) -> None:
    found = explore(updating(mutant, guarded=False, kills=int(mutant != OneWordByItself), rollouts=3))
    print(found)
    assert found.violation


@pytest.mark.parametrize("mutant", [mutants.LockLetGo, mutants.FilledFirst])
def test_bugs_in_filling_the_store_are_found(mutant: type[SharedStore]) -> None:
    found = explore(filling(mutant, guarded=False))
    print(found)
    assert found.violation
