"""The account, a replay's flushes and the words of snapshots under every interleaving and kill; bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from actorlearn.memory import account
from actorlearn.memory.record import CommittedRecord
from actorlearn.replay import flushed
from tests.interleavings import mutants
from tests.interleavings.explore import Scenario, explore
from tests.interleavings.records import accounting, flushing, holding

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core


@pytest.mark.parametrize("scenario", [pytest.param(accounting, marks=pytest.mark.nightly), flushing, holding])
def test_a_record_holds_the_values_of_one_commit(scenario: Callable[[], Scenario]) -> None:
    found = explore(scenario())
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize(
    ("scenario", "module", "mutant"),
    [
        (accounting, account, mutants.CommitsFirst),
        (accounting, account, mutants.OneLook),
        (flushing, flushed, mutants.CommitsFirst),
    ],
)
def test_bugs_in_records_are_found(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[], Scenario], module: ModuleType, mutant: type[CommittedRecord]
) -> None:
    monkeypatch.setattr(module, "CommittedRecord", mutant)
    found = explore(scenario())
    print(found)
    assert found.violation


def test_a_bug_in_asking_for_snapshots_is_found() -> None:
    found = explore(holding(mutants.AskedFirst))
    print(found)
    assert found.violation
