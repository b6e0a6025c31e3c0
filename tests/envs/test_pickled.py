"""An environment in a pickle file plays as the stored class, and a changed file is not run."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from actorlearn.envs import make, pickled
from actorlearn.envs.interface import empty_row
from tests import named


def local_environment(length: int = 5) -> type[gymnasium.Env]:
    """A class that no other process could import, which refers to a variable of its function."""

    class Corridor(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, start: int = 0) -> None:
            self.start = start

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = self.start
            return np.float32([self.place / length]), {}

        def step(self, action):
            self.place += int(action)
            return np.float32([self.place / length]), 0.0, self.place >= length, False, {}

    return Corridor


def settings(path: Path, sha256: str, **kwargs: object) -> object:
    return named.env("actorlearn.envs.pickled:Corridor", kwargs={"file": str(path), "sha256": sha256, **kwargs})


def test_a_pickled_class_plays_as_the_original(tmp_path: Path) -> None:
    path = tmp_path / pickled.FILE
    sha256 = pickled.write(local_environment(length=4), path)
    played = make.make(settings(path, sha256, start=1), [0, 1])
    row = empty_row(played.spec, 2)
    played.reset(row)
    seen = [row.observation[:, 0].tolist()]
    for _ in range(2):
        played.step(np.ones(2, np.int64), row)
        seen.append(row.observation[:, 0].tolist())
    played.close()
    assert seen == [[0.25] * 2, [0.5] * 2, [0.75] * 2]


def test_a_function_can_be_pickled_and_a_known_environment_can_still_be_saved(tmp_path: Path) -> None:
    path = tmp_path / pickled.FILE
    sha256 = pickled.write(lambda: gymnasium.make("CartPole-v1"), path)
    assert make.spec(settings(path, sha256)).inexact == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "No such file.*env.kwargs.file=PATH"),
        (lambda path: path.write_bytes(path.read_bytes() + b"."), "was changed, so its code is not run"),
    ],
)
def test_a_missing_or_changed_file_is_refused(change, said: str, tmp_path: Path) -> None:
    path = tmp_path / pickled.FILE
    sha256 = pickled.write(local_environment(), path)
    change(path)
    with pytest.raises(ValueError, match=said):
        make.make(settings(path, sha256), [0])


def test_a_function_that_makes_no_environment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / pickled.FILE
    sha256 = pickled.write(lambda: 5, path)
    with pytest.raises(ValueError, match="returned 5; it must return a gymnasium.Env"):
        make.make(settings(path, sha256), [0])


def test_a_class_or_function_that_cannot_be_pickled_is_refused(tmp_path: Path) -> None:
    file = (tmp_path / "open").open("w")
    with (
        file,
        pytest.raises(ValueError, match="cannot be sent to other processes.*make the objects that it needs inside"),
    ):
        pickled.write(lambda: file.name, tmp_path / pickled.FILE)


@pytest.mark.parametrize(
    ("maker", "name"), [(local_environment(), "Corridor"), (lambda: None, "environment"), (len, "len")]
)
def test_the_name_of_a_pickled_environment_is_that_of_its_class_or_function(maker, name: str) -> None:
    assert pickled.name_of(maker) == name


@pytest.mark.parametrize("name", ["Path", "Any", "FILE", "read"])
def test_a_pickled_class_may_have_the_name_of_an_attribute_of_the_module(name: str, tmp_path: Path) -> None:
    maker = local_environment()
    maker.__name__ = name
    path = tmp_path / pickled.FILE
    kwargs = {"file": str(path), "sha256": pickled.write(maker, path)}
    played = make.make(named.env(f"actorlearn.envs.pickled:{pickled.name_of(maker)}", kwargs=kwargs), [0])
    assert played.spec.observation_shape == (1,)
    played.close()


def test_the_module_has_any_name_but_those_that_python_itself_asks_for() -> None:
    assert not hasattr(pickled, "__path__") and pickled.Anything is pickled.Pickled
