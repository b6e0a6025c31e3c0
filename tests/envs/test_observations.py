"""Observations of every kind of space are flattened as by gymnasium, and refused if they do not fit the space."""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Space, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st

from actorlearn.envs.observations import MOST_CHOICES, MisfitError, SpaceError, Vector, Whole, layout

SPACES = {
    "discrete": Discrete(4, start=-1),
    "several": MultiDiscrete([3, 2, 4], start=[1, 0, -2]),
    "several in a square": MultiDiscrete([[3, 2], [1, 4]]),
    "bits": MultiBinary((2, 3)),
    "dict": Dict(b=Discrete(3), a=Box(-1, 1, (2, 2), np.float32), c=MultiBinary(2)),
    "tuple": Tuple((Discrete(2), Box(0, 255, (2, 3), np.uint8), Box(-5, 5, (), np.int16))),
    "nested": Dict(pair=Tuple((Discrete(2), MultiDiscrete([2, 2]))), at=Dict(x=Box(0, 1, (1,), np.float64))),
}
WORDY = Dict(image=Box(0, 255, (2, 2, 3), np.uint8), mission=Text(9), more=Tuple((Text(2),)))


class Mission(Space[str]):
    """A package's own space of texts."""

    def __init__(self) -> None:
        super().__init__(dtype=str)


def stored(space: Space, observation: object) -> np.ndarray:
    made, _ = layout(space)
    into = np.full((2, *made.shape), 7, made.dtype)
    made.store(observation, into, 1)
    assert (into[0] == 7).all(), "another environment's row was written"
    return into[1]


@pytest.mark.parametrize("kind", SPACES)
@given(seed=st.integers(0, 10**6))
def test_a_vector_equals_the_observation_that_gymnasium_flattens(kind: str, seed: int) -> None:
    space = SPACES[kind]
    space.seed(seed)
    observation = space.sample()
    expected = gymnasium.spaces.utils.flatten(space, observation).astype(float)
    if kind == "tuple":
        expected[2:8] /= 255  # bytes are scaled as networks scale them
    made, left_out = layout(space)
    assert isinstance(made, Vector) and left_out == ()
    np.testing.assert_array_equal(stored(space, observation), expected)


def test_a_box_is_stored_unchanged_also_as_the_only_numbers_of_a_dict() -> None:
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    wordy = Dict(image=Box(0, 255, (2, 3), np.uint8), mission=Text(9), more=Tuple((Text(2),)))
    for space, observation in ((wordy["image"], grey), (wordy, {"image": grey, "mission": "go", "more": ("x",)})):
        made, left_out = layout(space)
        assert isinstance(made, Whole) and (made.shape, made.dtype) == ((2, 3), np.uint8)
        assert left_out == (("mission (Text)", "more[0] (Text)") if space is wordy else ())
        np.testing.assert_array_equal(stored(space, observation), grey)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((10, 10, 4), 2),  # MinAtar's Breakout
        ((10, 10, 10), 2),  # its Seaquest: all sides are equal, so channels are last, as in gymnasium
        ((7, 7, 20), 2),  # more channels than lines
        ((210, 160, 3), 2),
        ((4, 84, 84), 0),  # a stack of grey frames
        ((20, 7, 7), 0),
        ((4, 60, 80), 0),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_image_is_stored_with_its_channels_first(shape: tuple[int, ...], channels: int, dtype: type) -> None:
    image = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    space = Box(0, 255, shape, dtype)
    made, _ = layout(space)
    expected = np.moveaxis(image, channels, 0)
    assert made.shape == expected.shape and made.dtype == dtype
    np.testing.assert_array_equal(stored(space, image), expected)
    place = (1, 2, 3)
    name = made.name([place[channels], *(at for axis, at in enumerate(place) if axis != channels)])
    assert name == "observation[1, 2, 3]", "indices in messages are those of the environment"


def test_bools_are_stored_as_the_bytes_0_and_255() -> None:
    space = Box(0, 1, (3, 2), np.bool_)
    seen = np.array([[True, False], [False, False], [True, True]])
    assert layout(space)[0].dtype == np.uint8
    np.testing.assert_array_equal(stored(space, seen), seen * 255)
    np.testing.assert_array_equal(stored(space, seen.tolist()), seen * 255)
    with pytest.raises(MisfitError, match="by its space it must be bool"):
        stored(space, seen.astype(np.uint8))


def test_a_layout_describes_the_used_and_the_unused_parts() -> None:
    made, left_out = layout(Dict(direction=Discrete(4), image=Box(0, 255, (7, 7, 3), np.uint8), mission=Mission()))
    assert made.words == "Dict of direction (one-hot of 4), image (Box uint8[7, 7, 3])"
    assert left_out == ("mission (Mission)",)
    assert layout(Discrete(16))[0].words == "Discrete, one-hot of 16"
    assert layout(WORDY)[0].words == "image, a Box, channels first"
    assert made.name([2]) == "observation['direction'][2]" and made.name([5]) == "observation['image'][1]"


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (Text(3), "it has no numbers"),
        (Dict(a=Text(3)), "it has no numbers"),
        (Graph(Discrete(2), Discrete(2)), "it is neither Box, Discrete"),
        (Dict(a=Tuple((Discrete(2), Graph(Discrete(2), Discrete(2))))), r"a\[1\] in it is neither Box, Discrete"),
        (Discrete(MOST_CHOICES + 1), r"it has 65,537 numbers as one-hot; at most 65,536 are allowed"),
    ],
)
def test_unsupported_spaces_are_refused_with_a_remedy(space: Space, says: str) -> None:
    with pytest.raises(SpaceError, match=f"{says}.*wrap the environment"):
        layout(space)


@pytest.mark.parametrize(
    ("kind", "observation", "name", "says"),
    [
        ("discrete", 3, "observation", "it must be in its space, Discrete(4, start=-1)"),
        ("discrete", -2, "observation", "it must be in its space, Discrete(4, start=-1)"),
        ("discrete", 1.0, "observation", "it must be an integer"),
        ("discrete", None, "observation", "it must be an integer"),
        ("discrete", [1], "the shape of observation", "by its space it must be ()"),
        ("several", [1, 0, 2], "observation", "it must be in its space, MultiDiscrete"),
        ("several", [1, 0], "the shape of observation", "by its space it must be (3,)"),
        ("bits", np.full((2, 3), 2), "observation", "by its space it must be zeros and ones"),
        ("dict", {"b": 1}, "the list of keys of observation", "by its space it must contain 'a'"),
        ("dict", None, "observation", "by its space it must contain 'b'"),
        (
            "dict",
            {"a": np.zeros((2, 2)), "b": 3, "c": [0, 1]},
            "observation['b']",
            "it must be in its space, Discrete(3)",
        ),
        (
            "dict",
            {"a": np.zeros(4), "b": 1, "c": [0, 1]},
            "the shape of observation['a']",
            "by its space it must be (2, 2)",
        ),
        ("tuple", (1,), "observation", "by its space it must contain 1"),
        ("tuple", (1, np.full((2, 3), 300), 1), "the dtype of observation[1]", "by its space it must be uint8"),
        ("nested", {"pair": (1, [1, 1]), "at": {}}, "the list of keys of observation['at']", "it must contain 'x'"),
        (
            "nested",
            {"pair": (1, [1, 5]), "at": {"x": [0.5]}},
            "observation['pair'][1]",
            "it must be in its space, MultiDiscrete",
        ),
    ],
)
def test_an_observation_outside_of_its_space_is_refused_by_name(
    kind: str, observation: object, name: str, says: str
) -> None:
    with pytest.raises(MisfitError, match=re.escape(says)) as caught:
        stored(SPACES[kind], observation)
    assert caught.value.args[0] == name


ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=2) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "pair"]), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", SPACES)
@given(observation=ANYTHING)
def test_any_observation_is_stored_or_refused(kind: str, observation: object) -> None:
    try:
        stored(SPACES[kind], observation)
    except MisfitError as misfit:
        assert len(misfit.args) == 3
