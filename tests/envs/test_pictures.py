"""Pictures of environments: bytes, or shares of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actorlearn.envs.pictures import picture_of, pictures_of


def shown(picture: Any) -> Any:
    return picture_of("Own-v0", SimpleNamespace(render=lambda: picture))


def test_bytes_stay_and_floats_up_to_1_become_bytes() -> None:
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
def test_what_is_no_picture_is_refused_in_one_line(picture: Any) -> None:
    with pytest.raises(ValueError, match="'Own-v0' cannot be rendered: its render\\(\\) does not return uint8"):
        shown(picture)


@pytest.mark.parametrize("pictures", [None, (), (None,), np.zeros((0, 4, 5, 3), np.uint8)])
def test_a_vector_that_shows_nothing_is_refused(pictures: Any) -> None:
    with pytest.raises(ValueError, match="'Own-v0' cannot be rendered: its render\\(\\) does not return uint8"):
        pictures_of("Own-v0", SimpleNamespace(render=lambda: pictures))
