"""The contract finds what breaks it; tests/envs/test_conformance.py holds every kind of environment to it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest

from actorlearn.envs import gymnasium_env
from actorlearn.envs.catch import Catch
from actorlearn.envs.gymnasium_env import Gymnasium
from actorlearn.envs.interface import Row
from actorlearn.testing.environment import EnvironmentContract
from tests.sizes import ROOT

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


class Stateless(Catch):
    """Cannot give its state away."""

    state = restore = None  # type: ignore[assignment]


class Wide(Catch):
    """Has many actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(64)


class TestManyActions(EnvironmentContract):
    section = {"id": f"{__name__}:Wide"}


class Narrow(Catch):
    """Has one action."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(1)


class TestOneAction(EnvironmentContract):
    section = {"id": f"{__name__}:Narrow"}


class Kind(Gymnasium):
    """A kind of environments, of Catch, of which those below break one thing."""


class NoFirst(Kind):
    """Never says that a game begins."""

    def step(self, action: Any, row: Row) -> None:
        super().step(action, row)
        row.first.fill(False)


class OtherSpec(Kind):
    """Is not what its description says, which is that of one environment."""

    @property
    def spec(self) -> Any:
        return msgspec.structs.replace(self._spec, frames_per_step=self.count)

    @spec.setter
    def spec(self, value: Any) -> None:
        self._spec = value


class HearsTheIgnored(Kind):
    """Lets an action that is to be ignored choose the reward of the row after it."""

    def step(self, action: Any, row: Row) -> None:
        super().step(action, row)
        row.reward += row.first * action


class KeepsTheRow(Kind):
    """Writes each row into the one before it too."""

    before: Row | None = None

    def step(self, action: Any, row: Row) -> None:
        super().step(action, row)
        if self.before is not None and self.before.observation is not row.observation:
            self.before.observation[...] = row.observation
        self.before = row

    def reset(self, row: Row) -> None:
        super().reset(row)
        self.before = row


class ChangesItsActions(Kind):
    """Writes to the actions that it was given."""

    def step(self, action: Any, row: Row) -> None:
        super().step(action, row)
        action[...] = (action + 1) % 3


class RestartsAll(Kind):
    """Restarts all environments, whatever is chosen."""

    def restart(self, chosen: Any, row: Row) -> None:
        super().restart(np.ones_like(chosen), row)


class NeverRestarts(Kind):
    """Says that no game begins at will, and begins those that are chosen."""

    @property
    def spec(self) -> Any:
        return msgspec.structs.replace(self._spec, no_restart="it begins them all together")

    @spec.setter
    def spec(self, value: Any) -> None:
        self._spec = value


class RestartsByChance(Kind):
    """Draws what a restart begins with from no seed."""

    def restart(self, chosen: Any, row: Row) -> None:
        super().restart(chosen, row)
        row.reward[chosen] = SHARED.random()


class TakesAnyState(Kind):
    """Takes the state of others for its own."""

    def restore(self, state: Any) -> None:
        with suppress(ValueError):
            super().restore(state)


class ActsByChance(Kind):
    """Draws actions from no generator that it is handed, and never the last."""

    def random_actions(self, random: np.random.Generator) -> Any:
        return SHARED.integers(2, size=self.count)


class ForgetsMasks(Kind):
    """Draws actions that are not valid."""

    def random_actions(self, random: np.random.Generator) -> Any:
        return random.integers(40, size=self.count)


class WantsOneWidth(Kind):
    """Takes no action but of int64."""

    def step(self, action: Any, row: Row) -> None:
        assert action.dtype == np.int64
        super().step(action, row)


class TakesAnyAction(Kind):
    """Cuts wrong actions to those that there are."""

    def step(self, action: Any, row: Row) -> None:
        super().step(np.resize(np.clip(action, 0, 2).astype(np.int64), self.count), row)


class NeverClosed(Kind):
    """Goes on when it has been closed."""

    def close(self) -> None: ...


MUTANTS: list[tuple[str, type, tuple[Any, ...]]] = [
    ("test_the_rules_of_rows_hold", NoFirst, ()),
    ("test_its_description_says_what_rows_hold", OtherSpec, ()),
    ("test_reset_replays_the_same_games", Forgetful, ()),
    ("test_its_seed_alone_makes_its_games", Forgetful, ()),
    ("test_the_action_after_a_game_is_ignored", HearsTheIgnored, ()),
    ("test_a_written_row_is_left_alone", KeepsTheRow, ()),
    ("test_actions_are_left_alone", ChangesItsActions, ()),
    ("test_a_restart_begins_the_chosen_games_and_leaves_the_others_alone", RestartsAll, ()),
    ("test_it_says_whether_its_games_can_be_begun_at_will", NeverRestarts, ()),
    ("test_restarts_are_repeated_by_the_same_seeds", RestartsByChance, ()),
    ("test_it_says_whether_its_state_can_be_taken", Stateless, ()),
    ("test_whoever_has_its_state_goes_on_as_it_does", Forgetful, ()),
    ("test_a_state_of_others_is_refused", TakesAnyState, ()),
    ("test_random_actions_are_uniform_and_drawn_by_the_generator_alone", ActsByChance, ()),
    ("test_actions_of_any_width_will_do", WantsOneWidth, ()),
    ("test_a_wrong_action_is_refused_and_does_no_harm", TakesAnyAction, ("too large",)),
    ("test_closing_twice_is_harmless_and_stepping_after_it_is_not", NeverClosed, ()),
]
"""A test of the contract, an environment or a kind of them that it finds, and the test's arguments."""


@pytest.mark.parametrize(("test", "broken", "arguments"), MUTANTS)
def test_an_environment_that_breaks_the_contract_is_found(
    test: str, broken: type, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = broken if issubclass(broken, Catch) else Catch
    if issubclass(broken, Kind):
        monkeypatch.setattr(gymnasium_env, "Gymnasium", broken)

    class Contract(EnvironmentContract):
        section = {"id": f"{env.__module__}:{env.__name__}"}

    Contract.setup_class()
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            getattr(Contract(), test)(*arguments)
    finally:
        Contract.teardown_class()


def test_random_actions_that_are_not_valid_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Contract(EnvironmentContract):
        section = {"id": "tests.envs.doors:Strict"}

    monkeypatch.setattr(gymnasium_env, "Gymnasium", ForgetsMasks)
    Contract.setup_class()
    try:
        with pytest.raises(AssertionError, match="random_actions drew actions that are not valid"):
            Contract().test_random_actions_are_uniform_and_drawn_by_the_generator_alone()
    finally:
        Contract.teardown_class()


def test_each_test_of_the_contract_finds_something() -> None:
    assert {name for name in vars(EnvironmentContract) if name.startswith("test_")} == {test for test, *_ in MUTANTS}


def test_the_page_of_plug_ins_lists_the_attributes_of_the_contract() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    attributes = [name for name, value in vars(EnvironmentContract).items() if type(value) in (bool, int)]
    assert {"steps", "exact"} <= {*attributes}
    assert [name for name in attributes if name[0] != "_" and f"| `{name} = " not in page] == []


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
