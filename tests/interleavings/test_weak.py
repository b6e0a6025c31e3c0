"""Fences that the protocols would need on processors with a weak order, such as ARM; x86 needs none of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from tests.interleavings.barriers import passing
from tests.interleavings.explore import Found, Scenario, explore
from tests.interleavings.turns import playing
from tests.interleavings.weak import Fence, Relaxed
from tests.interleavings.weights import publishing

pytestmark = pytest.mark.timeout(300)  # it takes seconds, but other processes may share the core

TURNS = ("observed", "acted", "completed", "open", "joined")


def weights() -> Scenario:
    return publishing(versions=4, reads=1, kills=0, patient=True)


def gathers() -> Scenario:
    return passing(gathers=True, placed=True, kills=0)


def relaxed(scenario: Scenario, fences: Collection[Fence]) -> Found:
    return explore(scenario, Relaxed(fences).name(scenario.words.names))


@pytest.mark.parametrize(
    ("scenario", "fences"),
    [
        (weights, [("after", "store", "sequence"), ("before", "load", "sequence")]),
        (gathers, [("before", "store", "arrived"), ("after", "load", "arrived")]),
    ],
)
def test_on_weak_memory_each_of_these_fences_is_needed_and_no_other(
    scenario: Callable[[], Scenario], fences: list[Fence]
) -> None:
    print(found := relaxed(scenario(), fences))
    assert not found.violation, found
    for fence in fences:
        found = relaxed(scenario(), [other for other in fences if other != fence])
        assert found.violation, f"the fence {' '.join(fence)} is not needed"


def test_on_weak_memory_blocks_need_fences() -> None:
    assert relaxed(playing(), []).violation


@pytest.mark.slow
def test_on_weak_memory_fences_at_the_words_of_turns_are_enough_for_blocks() -> None:
    places = (("before", "store"), ("after", "load"))
    print(found := relaxed(playing(), [(*place, word) for word in TURNS for place in places]))
    assert not found.violation, found
