"""Blocks and rounds under every interleaving of simulators, server and trainer; and what slips would come to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interleavings import mutants
from tests.interleavings.explore import explore
from tests.interleavings.turns import playing

pytestmark = pytest.mark.timeout(300)  # of one core that is shared; it takes seconds


@pytest.mark.parametrize(
    "changed",
    [
        {"horizon": 2, "rounds": 3},
        {"blocks": 2, "rounds": 4},
        {"killed": ["trainer"]},
        {"seats": 2},
    ],
    ids=["one block", "two blocks", "trainer killed", "two simulators"],
)
def test_rows_are_read_whole_once_and_by_all_alike(changed: dict[str, Any]) -> None:
    found = explore(playing(**changed))
    print(found)
    assert not found.violation, found


@pytest.mark.parametrize(
    ("part", "mutant", "changed"),
    [
        ("group", mutants.CompletedFirst, {}),
        ("blocks", mutants.ObservedFirst, {}),
        ("rounds", mutants.OpenFirst, {}),
        ("rounds", mutants.OpenedTooFar, {}),
        ("acted early", object, {"seats": 1}),
        ("batches", mutants.OpenedBeforeCommitted, {"killed": ["trainer"], "rounds": 3}),
        ("due", mutants.ReadAtOnce, {"seats": 2}),
        ("account", mutants.CommitsFirst, {"killed": ["trainer"]}),
    ],
)
def test_a_slip_in_turns_is_caught(part: str, mutant: type[Any], changed: dict[str, Any]) -> None:
    found = explore(playing({part: mutant}, **changed))
    print(found)
    assert found.violation
