"""Learners as their trainer sees them, without others: whether a long pass goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actorlearn.processes.learners import Learners


@pytest.mark.parametrize("phase", ["run", "drain"])
@pytest.mark.parametrize("leaving", [[], ["trainer-1"]])
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("alive", [False, True])
def test_the_exchange_decides_when_a_pass_is_broken_off_and_who_is_to_end_at_once_asks_nobody(
    phase: str, leaving: list[str], others: bool, alive: bool
) -> None:
    asked: list[bool] = []

    def ending(told: bool) -> bool:
        asked.append(told)
        return told or others

    order = SimpleNamespace(phase=phase, leaving=leaving)
    role: Any = SimpleNamespace(alive=lambda: alive, control=SimpleNamespace(order=order))
    settings: Any = SimpleNamespace(exchange={}, name="trainer-1")
    learning: Any = SimpleNamespace(exchange=SimpleNamespace(ending=ending))
    told = phase == "drain" or bool(leaving)
    assert Learners(settings, role, learning).going_on() == (alive and not told and not others)
    assert asked == ([told] if alive else [])
