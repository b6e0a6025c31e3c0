"""The account, a replay's flushes and the words of snapshots under every interleaving and kill; and slips in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interleavings import mutants
from tests.interleavings.explore import Scenario, explore
from tests.interleavings.records import accounting, flushing, holding

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize("scenario", [accounting, flushing, holding])
def test_records_are_of_one_moment(scenario: Callable[[], Scenario]) -> None:
    found = explore(scenario())
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize(
    ("scenario", "mutant"),
    [
        (accounting, mutants.CommitsFirst),
        (accounting, mutants.OneLook),
        (flushing, mutants.FlushedFirst),
        (holding, mutants.AskedFirst),
    ],
)
def test_a_slip_in_records_is_caught(scenario: Callable[..., Scenario], mutant: type[Any]) -> None:
    found = explore(scenario(mutant))
    print(found)
    assert found.violation
