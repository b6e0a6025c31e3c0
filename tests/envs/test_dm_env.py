"""Environments of dm_env are given as classes and functions, like those of gymnasium."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from actorlearn.envs import make, pickled
from actorlearn.envs.dm_env import as_gymnasium
from actorlearn.envs.interface import Row, VectorEnv, empty_row
from actorlearn.envs.recipe import recipe
from tests import named


@dataclass(frozen=True)
class Array:
    """Like dm_env.specs.Array; only the last tests use dm_env itself."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class BoundedArray:
    shape: tuple[int, ...]
    dtype: Any
    minimum: Any
    maximum: Any


@dataclass(frozen=True)
class DiscreteArray:
    num_values: int
    dtype: ClassVar[Any] = np.dtype(np.int32)
    shape: tuple[int, ...] = ()


class TimeStep(NamedTuple):
    observation: Any
    reward: Any = None
    discount: Any = None
    ends: bool = False

    def last(self) -> bool:
        return self.ends


class Walk:
    """Ends at ``length`` to the right, or after four steps; the seed decides where it begins."""

    def __init__(self, length: int = 3, seed: int = 0) -> None:
        self.length, self.start = length, seed % 2

    def observation_spec(self) -> Any:
        return {"place": Array((1,), np.dtype(np.float64)), "door": Array((), np.dtype(bool))}

    def action_spec(self) -> Any:
        return DiscreteArray(2)

    def reset(self) -> TimeStep:
        self.place, self.steps = self.start, 0
        return TimeStep(self._seen())

    def step(self, action: Any) -> TimeStep:
        assert isinstance(action, np.int32)
        self.place, self.steps = self.place + int(action), self.steps + 1
        if self.place >= self.length:
            return TimeStep(self._seen(), np.array([1.0]), 0.0, True)
        return TimeStep(self._seen(), 0.0, 1.0, self.steps == 4)

    def _seen(self) -> Any:
        return {"place": np.array([float(self.place)]), "door": self.place == self.length}


class Exact(Walk):
    """Can be saved."""

    def state(self) -> dict[str, Any]:
        return {"place": self.place, "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.place, self.steps = state["place"], state["steps"]


class Steered(Walk):
    """Has no argument for a seed, and bounded numbers as actions."""

    def __init__(self) -> None:
        super().__init__()

    def action_spec(self) -> Any:
        return BoundedArray((2,), np.dtype(np.float32), -1.0, np.array([1.0, 2.0]))


class Counted(Walk):
    def action_spec(self) -> Any:
        return BoundedArray((), np.dtype(np.int32), 2, 4)


class Named(Walk):
    def observation_spec(self) -> Any:
        return [Array((), np.dtype("U5"))]


class Twice(Walk):
    def step(self, action: Any) -> TimeStep:
        return TimeStep(self._seen(), [1.0, 2.0], 1.0)


class Listed(Walk):
    """Returns observations as lists, although the spec is an array."""

    def observation_spec(self) -> Any:
        return Array((2,), np.dtype(np.float64))

    def _seen(self) -> Any:
        return [float(self.place), 1.0]


class Nested(Walk):
    """Has a list of specs, and returns the observation of an array as a list."""

    def observation_spec(self) -> Any:
        return [Array((2,), np.dtype(np.float64)), {"door": Array((), np.dtype(bool))}]

    def _seen(self) -> Any:
        return [[float(self.place), 1.0], {"door": False}]


class Bytes(Walk):
    def action_spec(self) -> Any:
        return BoundedArray((), np.dtype(np.int8), -128, 127)


def walk(length: int = 3) -> Walk:
    return Walk(length)


SHIMMY = """
import gymnasium

class DmControlCompatibilityV0(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env=None):
        self.played = env

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}
"""
"""shimmy's module of this name, with a class that has only what is needed to read its spaces."""


def begun(env_id: Any, **keys: Any) -> tuple[VectorEnv, Row]:
    played = make.make(named.env(env_id, **keys), [0, 1])
    row = empty_row(played.spec, 2)
    played.reset(row)
    return played, row


def test_a_class_of_dm_env_gives_the_rows_of_its_time_steps() -> None:
    played, row = begun(f"{__name__}:Walk", kwargs={"length": 2})
    assert (played.spec.observation_shape, played.spec.actions) == ((2,), 2)
    seen = [(row.observation.tolist(), [0.0, 0.0], [False] * 2, [False] * 2)]
    for action in ([1, 1], [0, 0], [0, 0], [0, 0]):
        played.step(np.array(action), row)
        seen.append(
            (row.observation.tolist(), row.reward.tolist(), row.terminated.tolist(), row.truncated.tolist()),
        )
    played.close()
    doors, places = zip(*([list(part) for part in zip(*observed, strict=True)] for observed, *_ in seen), strict=True)
    assert list(places) == [[0, 1], [1, 2], [1, 1], [1, 1], [1, 1]], "each environment has its own seed"
    assert list(doors) == [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]]
    assert [told[1:] for told in seen] == [
        ([0, 0], [False, False], [False, False]),
        ([0, 1], [False, True], [False, False]),
        ([0, 0], [False, False], [False, False]),
        ([0, 0], [False, False], [False, False]),
        ([0, 0], [False, False], [True, False]),
    ]


@pytest.mark.parametrize("maker", ["Walk", "walk"])
def test_a_class_or_a_function_of_a_module_is_an_environment(maker: str) -> None:
    played, _ = begun(f"{__name__}:{maker}", kwargs={"length": 2})
    assert (
        played.spec.inexact == f"the environment {__name__}:Walk cannot be saved: its class has no methods state() "
        "and restore(state)"
    )
    played.close()


def test_a_pickled_class_or_function_is_an_environment(tmp_path: Path) -> None:
    for number, maker in enumerate((Walk, lambda length: Walk(length))):
        file = tmp_path / str(number)
        kwargs = {"file": str(file), "sha256": pickled.write(maker, file), "length": 2}
        played, row = begun("actorlearn.envs.pickled:Walk", kwargs=kwargs)
        assert row.observation[:, 1].tolist() == ([0, 1] if maker is Walk else [0, 0])
        played.close()


def test_actions_have_the_bounds_of_the_spec() -> None:
    assert make.spec(named.env(f"{__name__}:Steered")).actions == (2,)
    assert make.spec(named.env(f"{__name__}:Counted")).actions == 3
    assert make.spec(named.env(f"{__name__}:Bytes")).actions == 256


@pytest.mark.parametrize("maker", [Listed, Nested])
def test_observations_returned_as_lists_become_arrays_where_the_spec_is_an_array(maker: type[Walk]) -> None:
    env = as_gymnasium(maker(), maker, {})
    assert env is not None
    seen, _ = env.reset()
    array = seen[0] if maker is Nested else seen
    assert isinstance(array, np.ndarray) and array.tolist() == [0.0, 1.0]
    assert isinstance(seen, tuple) is (maker is Nested)


def test_an_environment_that_can_be_saved_is_restored() -> None:
    played, row = begun(f"{__name__}:Exact")
    assert played.spec.inexact == ""
    played.step(np.array([1, 1]), row)
    saved = played.state()
    played.step(np.array([1, 1]), row)
    played.restore(saved)
    played.step(np.array([0, 0]), row)
    assert row.observation[:, 1].tolist() == [1, 2]


def test_unsupported_specs_and_rewards_are_refused_in_one_line() -> None:
    with pytest.raises(
        ValueError, match=r"observation_spec\(\)\[0\] is .*; its dtype must be bool, an integer type or"
    ):
        make.spec(named.env(f"{__name__}:Named"))
    played, row = begun(f"{__name__}:Twice")
    with pytest.raises(ValueError, match=r"the reward \[1\.0, 2\.0\]; it must be one number"):
        played.step(np.array([0, 0]), row)


def test_an_environment_of_dm_env_has_no_recipe() -> None:
    assert "only actorlearn makes environments of dm_env" in recipe(named.env(f"{__name__}:Walk")).missing


def test_an_environment_of_dm_control_needs_shimmy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shimmy", None)
    module = ModuleType("tasks")
    module.Cheetah = type("Cheetah", (Walk,), {"__module__": "dm_control.rl.control"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tasks", module)
    with pytest.raises(ValueError, match=r"dm_control need shimmy.*: `pip install 'actorlearn\[dm-control\]'`"):
        make.spec(named.env("tasks:Cheetah"))


def test_an_environment_that_shimmy_converts_has_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a recipe must make an environment of gymnasium, as shimmy's own ids and classes do."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "shimmy"]:
        monkeypatch.delitem(sys.modules, name)
    # Both modules are removed again at the end, so that the last test has the real ones.
    for name in ("shimmy", "shimmy.dm_control_compatibility"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "shimmy").mkdir()
    (tmp_path / "shimmy" / "__init__.py").touch()
    (tmp_path / "shimmy" / "dm_control_compatibility.py").write_text(SHIMMY)
    monkeypatch.syspath_prepend(tmp_path)
    module = ModuleType("tasks")
    module.Cheetah = type("Cheetah", (Walk,), {"__module__": "dm_control.rl.control"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tasks", module)
    assert "only actorlearn makes environments of dm_env" in recipe(named.env("tasks:Cheetah")).missing
    own = "shimmy.dm_control_compatibility:DmControlCompatibilityV0"
    assert recipe(named.env(own)).calls == ((own, {}),)


def test_an_environment_made_with_dm_env_itself_is_played() -> None:
    dm_env = pytest.importorskip("dm_env")

    class Coin(dm_env.Environment):  # type: ignore[misc, name-defined]
        def observation_spec(self) -> Any:
            return dm_env.specs.BoundedArray((2,), np.float32, 0.0, 1.0)

        def action_spec(self) -> Any:
            return dm_env.specs.DiscreteArray(2)

        def reset(self) -> Any:
            return dm_env.restart(np.zeros(2, np.float32))

        def step(self, action: Any) -> Any:
            self.action_spec().validate(action)
            return dm_env.termination(float(action), np.ones(2, np.float32))

    module = sys.modules[__name__]
    module.Coin = Coin  # type: ignore[attr-defined]
    played, row = begun(f"{__name__}:Coin")
    played.step(np.array([1, 0]), row)
    assert (row.reward.tolist(), row.terminated.tolist()) == ([1, 0], [True, True])
    del module.Coin  # type: ignore[attr-defined]


def test_tasks_of_dm_control_follow_the_seed() -> None:
    pytest.importorskip("dm_control")
    module = ModuleType("tasks")
    exec("from dm_control import suite\ndef balance(): return suite.load('cartpole', 'balance')", vars(module))
    sys.modules["tasks"] = module
    first, again = (begun("tasks:balance")[1].observation.tolist() for _ in range(2))
    assert first == again and first[0] != first[1]
    del sys.modules["tasks"]
