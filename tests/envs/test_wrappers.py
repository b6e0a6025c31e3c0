"""Wrappers for the observations of some packages, tested on stand-ins for their environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from actorlearn.envs.interface import empty_row
from actorlearn.envs.wrappers import MONSTER, SYMBOLS, THING, DictEntry, NetHackWindow, Smaller
from tests import named
from tests.envs.playing import opened


class Shows(gymnasium.Env[Any, int]):
    """Always shows the same observation."""

    action_space = Discrete(2)

    def __init__(self, space: gymnasium.Space[Any], observation: Any) -> None:
        self.observation_space, self._shown = space, observation

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return self._shown, {}


class Shown(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The map of the hero's surroundings."""

    reach = 8

    def __init__(self) -> None:
        super().__init__(NetHackWindow(nethack(), self.reach))


def seen(env: gymnasium.Env[Any, Any]) -> Any:
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    return observation


def test_dict_entry_shows_one_entry_of_a_dict() -> None:
    space = Dict(screen=Box(0, 9, (2,), np.uint8), health=Discrete(3))
    shows = Shows(space, {"screen": np.array([1, 2], np.uint8), "health": 1})
    np.testing.assert_array_equal(seen(DictEntry(shows, key="screen")), [1, 2])
    with pytest.raises(ValueError, match="key: 'sound' is not an entry of the observations, which are a Dict of "):
        DictEntry(shows, key="sound")
    with pytest.raises(ValueError, match=r"which are Box\("):
        DictEntry(DictEntry(shows, key="screen"), key="screen")


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3)])
@pytest.mark.parametrize("by", [1, 2])
def test_a_smaller_image_has_the_means_of_squares(shape: tuple[int, ...], by: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    small = seen(Smaller(Shows(Box(0, 255, shape, np.uint8), image), by=by))
    assert small.shape == (6 // by, 4 // by, *shape[2:])
    for line, column in np.ndindex(small.shape[:2]):
        square = image[line * by : (line + 1) * by, column * by : (column + 1) * by]
        np.testing.assert_array_equal(small[line, column], np.floor(square.mean((0, 1))))


def test_images_that_cannot_be_made_smaller_are_refused() -> None:
    with pytest.raises(ValueError, match=r"by: 4 must divide the sides of the images, \[6, 4\]"):
        Smaller(Shows(Box(0, 255, (6, 4), np.uint8), None), by=4)
    with pytest.raises(ValueError, match="they must be images of bytes"):
        Smaller(Shows(Box(0, 1, (6, 4), np.float32), None))


def nethack() -> Shows:
    lines = [" " * 79 for _ in range(21)]
    lines[0] = "d.#" + " " * 76
    lines[1] = "+@>" + " " * 75 + "$"
    lines[2] = "|<)" + " " * 76
    chars = np.array([[ord(character) for character in line] for line in lines], np.uint8)
    space = Dict(chars=Box(0, 255, (21, 79), np.uint8), blstats=Box(-(2**31), 2**31 - 1, (27,), np.int64))
    blstats = np.zeros(27, np.int64)
    blstats[:2] = 1, 1  # column and line
    return Shows(space, {"chars": chars, "blstats": blstats})


def test_the_window_on_nethacks_map_shows_the_kinds_of_cells_around_the_hero() -> None:
    window = seen(NetHackWindow(nethack(), reach=2))
    assert window.shape == (5, 5, THING + 1)
    assert (window.sum(-1) == 1).all(), "each cell is of one kind"
    kinds = window.argmax(-1)
    kind = {character: number for number, characters in enumerate(SYMBOLS) for character in characters}
    expected = [[MONSTER, kind["."], kind["#"]], [kind["+"], MONSTER, kind[">"]], [kind["|"], kind["<"], THING]]
    np.testing.assert_array_equal(kinds[1:4, 1:4], expected)
    assert (kinds[0] == 0).all() and (kinds[:, 0] == 0).all(), "beyond the map nothing is seen"
    with pytest.raises(ValueError, match="reach: 0 must be 1 to 79"):
        NetHackWindow(nethack(), reach=0)


@pytest.mark.parametrize("reach", [1, 3, 4, 5])
def test_a_policy_sees_each_kind_of_nethacks_map_as_a_channel(reach: int, monkeypatch: pytest.MonkeyPatch) -> None:
    side = 2 * reach + 1
    monkeypatch.setattr(Shown, "reach", reach)
    with opened(named.env(id=f"{__name__}:Shown"), [0]) as env:
        row = empty_row(env.spec, 1)
        env.reset(row)
    image = row.observation[0] > 0
    assert image.shape == (THING + 1, side, side)
    assert (image.sum(0) == 1).all() and image[MONSTER, reach, reach], "the hero is in the middle"
