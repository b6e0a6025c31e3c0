"""The contract finds what breaks it; tests/envs/test_conformance.py holds every kind of environment to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actorlearn.envs.catch import Catch
from actorlearn.testing.environment import EnvironmentContract

SHARED = np.random.default_rng()


class Forgetful(Catch):
    """Draws from a generator that all share, hands out what it goes on writing to, and leaves a part of its state."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._column = int(SHARED.integers(10))
        return self._image(), {}

    def state(self) -> dict[str, Any]:
        return {name: value for name, value in super().state().items() if name != "column"}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore({"column": 0, **state})


@pytest.mark.parametrize(
    "test",
    [
        lambda contract: contract.test_reset_replays_the_same_games(),
        lambda contract: contract.test_its_seed_alone_makes_its_games(),
        lambda contract: contract.test_whoever_has_its_state_goes_on_as_it_does(),
    ],
)
def test_an_environment_that_breaks_the_contract_is_found(test: Any) -> None:
    class Contract(EnvironmentContract):
        section = {"id": f"{__name__}:Forgetful"}

    Contract.setup_class()
    try:
        with pytest.raises(AssertionError):
            test(Contract())
    finally:
        Contract.teardown_class()


def test_a_play_that_is_too_short_says_so() -> None:
    class Contract(EnvironmentContract):
        section = {"id": "actorlearn.envs.catch:Catch"}
        steps = 3

    Contract.setup_class()
    try:
        with pytest.raises(AssertionError, match="no game ended within 3 random actions: set `steps` higher"):
            Contract().test_the_rules_of_rows_hold()
    finally:
        Contract.teardown_class()
