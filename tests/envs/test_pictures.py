"""Pictures of environments are bytes, or floats up to 1, and other results of render() are refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from actorlearn.envs import pickled
from actorlearn.envs.interface import empty_row
from actorlearn.envs.make import make, make_rendered
from actorlearn.envs.pictures import picture_of, pictures_of
from tests import named


def shown(picture: Any) -> Any:
    return picture_of("Own-v0", SimpleNamespace(render=lambda: picture))


def test_pictures_of_bytes_are_kept_and_of_floats_up_to_1_converted() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    assert shown(picture) is picture
    np.testing.assert_array_equal(shown(picture / 255), picture)


@pytest.mark.parametrize(
    "picture",
    [
        None,
        np.zeros((4, 5), np.uint8),
        np.zeros((4, 5, 4), np.uint8),
        np.full((4, 5, 3), 2.0),
        np.full((4, 5, 3), np.nan),
        np.zeros((4, 5, 3), np.int64),
    ],
)
def test_results_of_render_that_are_no_picture_are_refused_in_one_line(picture: Any) -> None:
    with pytest.raises(
        ValueError,
        match="'Own-v0' cannot be rendered: its render\\(\\) does not return uint8.*make the environment with",
    ):
        shown(picture)


@pytest.mark.parametrize("pictures", [None, (), (None,), np.zeros((0, 4, 5, 3), np.uint8)])
def test_a_vector_that_renders_nothing_is_refused(pictures: Any) -> None:
    with pytest.raises(ValueError, match="'Own-v0' cannot be rendered: its render\\(\\) does not return uint8"):
        pictures_of("Own-v0", SimpleNamespace(render=lambda: pictures))


class Painter(gymnasium.Env):
    """Paints each picture in one shade; its constructor has no argument render_mode."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, shade: int = 7) -> None:
        self.shade = shade

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self):
        return np.full((2, 2, 3), self.shade, np.uint8)


def painter(**kwargs):
    """Make a `Painter` whose shade depends on the argument render_mode."""
    return Painter(9 if kwargs.get("render_mode") == "rgb_array" else 0)


def of_file(path: Path, maker: Any, **kwargs: Any) -> Any:
    return named.env(
        "actorlearn.envs.pickled:Made", kwargs={"file": str(path), "sha256": pickled.write(maker, path), **kwargs}
    )


def first_shade(settings: Any) -> int:
    games = make_rendered(settings, [0])
    games.reset(empty_row(games.spec, 1))
    (picture,) = games.render()
    games.close()
    return int(picture[0, 0, 0])


@pytest.mark.parametrize(("maker", "shade"), [(Painter, 7), (lambda shade=8: Painter(shade), 8), (painter, 9)])
def test_a_pickled_class_or_function_without_the_argument_render_mode_is_rendered(
    maker: Any, shade: int, tmp_path: Path
) -> None:
    assert first_shade(of_file(tmp_path / "environment.pickle", maker)) == shade


@pytest.mark.parametrize(("name", "shade"), [("Painter", 7), ("painter", 9)])
def test_a_named_class_or_function_without_the_argument_render_mode_is_rendered(name: str, shade: int) -> None:
    assert first_shade(named.env(f"{__name__}:{name}")) == shade


@pytest.mark.parametrize("mode", ["human", "rgb-array"])
def test_other_render_modes_are_passed_on(mode: str, tmp_path: Path) -> None:
    for settings in (
        named.env(f"{__name__}:Painter", kwargs={"render_mode": mode}),
        of_file(tmp_path / "environment.pickle", Painter, render_mode=mode),
    ):
        with pytest.raises(ValueError, match="unexpected keyword argument 'render_mode'"):
            make(settings, [0])
