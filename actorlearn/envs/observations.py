"""Converts an observation of any supported gymnasium space to one array of numbers, for networks.

=============  ==================================================================================
space          becomes
=============  ==================================================================================
Box            unchanged: uint8 stays uint8, other numbers become float32; of an image the channels become the first
               dimension
Box of bools   uint8: 0 and 255
Discrete       one-hot
MultiDiscrete  one-hot vectors of all parts
MultiBinary    zeros and ones
Dict, Tuple    their parts, concatenated to one vector; a single Box in them is unchanged
text           left out of a Dict or Tuple, because networks need numbers
=============  ==================================================================================

A Box of three dimensions is an image. gymnasium's images are [height, width, channels], and its stacks of grey images
are [frames, height, width]; networks take [channels, height, width]. `channels_come_last` says how they are told apart.

Networks divide uint8 by 255, so a Box of bools becomes 0 and 1. In a vector of several parts, uint8 parts are divided
by 255 here. For MiniGrid's image, which has numbers from 0 to 10, learning also worked without the division, but two of
three policies collapsed within 30,000 steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

from actorlearn.observation_parts import SMALLEST_SIDE, ImagePart

MOST_CHOICES = 65_536
"""Limit on the length of a one-hot vector."""

Array = npt.NDArray[Any]
Keys = tuple[str | int, ...]
"""Keys and indices that lead through Dicts and Tuples to a part of an observation."""


class SpaceError(ValueError):
    """Observations of a space cannot be converted to one array; the text names a remedy."""


class MisfitError(ValueError):
    """A value of an environment does not fit its space; ``args`` are the name, the value and the rule."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        super().__init__(name, value, rule)


def layout(space: Space[Any]) -> tuple[Whole | Vector, tuple[str, ...]]:
    """Return the converter of a space's observations to one array, and the names of the parts that are left out.

    Raises SpaceError for an unsupported space.
    """
    held = list(_held(space, ()))
    left_out = tuple(f"{_path(keys)} ({type(part).__name__})" for keys, part in held if _is_text(part))
    kept = [(keys, part) for keys, part in held if not _is_text(part)]
    if not kept:
        raise SpaceError("it has no numbers; wrap the environment (env.wrappers) so that it gives numbers or images")
    (keys, first), *others = kept
    if isinstance(first, Box) and not others:
        return Whole(first, keys), left_out
    return Vector(kept, type(space).__name__), left_out


def layout_of(env_id: str, space: Space[Any]) -> tuple[Whole | Vector, tuple[str, ...]]:
    """Return `layout` for an environment; raises ValueError if the space is unsupported or has no elements."""
    try:
        found, left_out = layout(space)
        if not prod(found.shape):
            raise SpaceError("it is empty; wrap the environment (env.wrappers) so that it gives numbers or images")
        return found, left_out
    except SpaceError as error:
        raise ValueError(f"env.id: {env_id!r} has observation space {short(space)}; {error}") from None


def short(space: Space[Any]) -> str:
    """Return a space as text of at most 201 characters."""
    text = str(space)
    return text if len(text) <= 200 else text[:200] + "…"


def _is_text(space: Space[Any]) -> bool:
    """Whether a space is a Text or another space whose values are str, such as MiniGrid's MissionSpace."""
    return isinstance(space, Text) or (space.dtype is not None and space.dtype.kind == "U")


def _held(space: Space[Any], keys: Keys) -> Iterator[tuple[Keys, Space[Any]]]:
    """Yield the spaces inside nested Dicts and Tuples, each with the keys that lead to it; or the space itself."""
    if isinstance(space, Dict | Tuple):
        for key, part in space.items() if isinstance(space, Dict) else enumerate(space):
            yield from _held(part, (*keys, key))
    else:
        yield keys, space


class Whole:
    """Converts observations that are a single Box: unchanged, except that the channels of images become first."""

    images: tuple[ImagePart, ...] = ()

    def __init__(self, box: Box, keys: Keys) -> None:
        """Set the space, and the keys that lead to it if it is in Dicts or Tuples."""
        self._box, self._keys = box, keys
        self.channels_last, self._bools = channels_come_last(box.shape), bool(box.dtype == np.bool_)
        self.shape: tuple[int, ...] = (box.shape[2], *box.shape[:2]) if self.channels_last else box.shape
        """Shape of a converted observation."""
        self.dtype = np.dtype(np.uint8 if self._bools else box.dtype)
        """dtype that `store` writes. A `Row` keeps uint8, and has float32 for all other dtypes."""
        channels = ", channels first" if self.channels_last else ""
        self.words = f"{_path(keys)}, a Box{channels}" if keys else f"Box{channels}"

    def store(self, observation: Any, into: Array, i: int) -> None:
        """Write an observation to ``into[i]``; raises MisfitError."""
        self._write(observation, into[i, ...], ())

    def store_all(self, observations: Any, into: Array) -> None:
        """Write B observations, batched as in gymnasium's vectors, to ``into`` [B, …]; raises MisfitError."""
        self._write(observations, into, into.shape[:1])

    def _write(self, observation: Any, cells: Array, batch: tuple[int, ...]) -> None:
        observation, box = _found(observation, self._keys), self._box
        shape = (*batch, *box.shape)
        if type(observation) is not np.ndarray or observation.dtype != box.dtype or observation.shape != shape:
            with np.errstate(over="ignore"):  # too large a number becomes infinite, which the caller refuses
                observation = _in_box(observation, box, _name(self._keys), batch).astype(box.dtype)
        if self.channels_last:
            observation = np.moveaxis(observation, -1, -3)
        if self._bools:
            np.multiply(observation, np.uint8(255), out=cells)
        else:
            cells[...] = observation

    def name(self, place: list[int]) -> str:
        """Return how errors name the element at index ``place`` of the array, such as observation['image'][3, 4]."""
        if self.channels_last and place:
            place = [*place[1:], place[0]]
        return f"{_name(self._keys)}{place or ''}"

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Description of the only part, in the form of `Vector.parts`, with its axes as in the environment."""
        return [{"keys": self._keys, "shape": self._box.shape, "scale": 255 if self._bools else 1}]


def channels_come_last(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape is an image [height, width, channels], and not [channels, height, width].

    If exactly two neighbouring dimensions are equal, they are height and width. Otherwise the channels are last if the
    last dimension is not greater than the first. Three equal dimensions (MinAtar's Seaquest) are thus [height, width,
    channels].
    """
    if len(shape) != 3:
        return False
    first, second, last = shape
    if (first == second) != (second == last):
        return first == second
    return last <= first


class Vector:
    """Converts observations of several spaces, or of Discrete, MultiDiscrete or MultiBinary, to one vector."""

    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __init__(self, held: list[tuple[Keys, Space[Any]]], name: str) -> None:
        """Concatenate these spaces; each has the keys that lead to it. ``name``: type of the whole space."""
        self._pieces: list[Piece] = []
        start = 0
        for keys, space in held:
            self._pieces.append(_piece(space, keys, start))
            start = self._pieces[-1].cells.stop
        self.shape: tuple[int, ...] = (start,)
        held_by_key = ", ".join(f"{_path(piece.keys)} ({piece.words})" for piece in self._pieces)
        self.words = f"{name} of {held_by_key}" if held[0][0] else f"{name}, {self._pieces[0].words}"

    def store(self, observation: Any, into: Array, i: int) -> None:
        """Write an observation to ``into[i]``; raises MisfitError."""
        for piece in self._pieces:
            piece.write(_found(observation, piece.keys), into[i, piece.cells])

    def store_all(self, observations: Any, into: Array) -> None:
        """Write B observations, batched as in gymnasium's vectors, to ``into`` [B, …]; raises MisfitError."""
        for piece in self._pieces:
            piece.write(_found(observations, piece.keys), into[:, piece.cells], into.shape[:1])

    def name(self, place: list[int]) -> str:
        """Return the name of the element at index ``place`` of the vector, as in observation['goal'][2]."""
        piece = next(piece for piece in self._pieces if place[0] < piece.cells.stop)
        return f"{_name(piece.keys)}[{place[0] - piece.cells.start}]"

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The Boxes that are images: three dimensions, with height and width of at least SMALLEST_SIDE."""
        found = (
            ImagePart(piece.cells.start, piece.shape, channels_come_last(piece.shape))
            for piece in self._pieces
            if type(piece) is Piece and len(piece.shape) == 3
        )
        return tuple(image for image in found if min(image.channels_first[1:]) >= SMALLEST_SIDE)

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Description of the parts of the vector in order, for programs without actorlearn (``acting/play.py``).

        ``keys`` from an observation to the part, its ``shape``, and ``scale``, by which its numbers are multiplied; or,
        for a part that becomes one-hot, the ``sizes`` and the ``least`` value of its choices.
        """
        return [{"keys": piece.keys, "shape": piece.shape, **piece.conversion} for piece in self._pieces]


class Indexed:
    """Converts observations to the vectors of another converter, followed by the one-hot index of the agent."""

    def __init__(self, vectors: Whole | Vector, agents: int) -> None:
        """Append the index of one of ``agents`` agents to the results of ``vectors``."""
        (self._length,), self._vectors, self._agents = vectors.shape, vectors, agents
        self.shape: tuple[int, ...] = (self._length + agents,)
        self.dtype = vectors.dtype
        self.words = f"{vectors.words}, and the index of the agent, one-hot of {agents}"
        self._one = 255 if self.dtype == np.uint8 else 1  # networks divide bytes by 255
        self.images = vectors.images

    def store(self, observation: Any, into: npt.NDArray[Any], i: int) -> None:
        """Write the observation of environment ``i`` to ``into[i]``; raises MisfitError."""
        self._vectors.store(observation, into[:, : self._length], i)
        into[i, self._length :] = 0
        into[i, self._length + i % self._agents] = self._one

    def name(self, place: list[int]) -> str:
        """Return the name of the element at index ``place``, as `Vector.name` does."""
        return self._vectors.name(place)


@dataclass(frozen=True)
class Piece:
    """A Box as a part of a vector; uint8 is divided by 255. Subclasses are for other spaces."""

    keys: Keys
    cells: slice
    """Range of the vector that this part fills."""
    shape: tuple[int, ...]
    space: Any
    words: str
    """Description for people."""
    conversion: Mapping[str, Any]
    """How its numbers are converted, in the form of `Vector.parts`."""

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        cells[:] = _in_box(value, self.space, _name(self.keys), batch).reshape(cells.shape)
        if self.space.dtype == np.uint8:
            cells /= 255.0


class Bits(Piece):
    """A MultiBinary as a part of a vector."""

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        bits = _integers(value, (*batch, *self.shape), _name(self.keys))
        if not np.isin(bits, (0, 1)).all():
            raise MisfitError(_name(self.keys), value, "by its space it must be zeros and ones")
        cells[:] = bits.reshape(cells.shape)


@dataclass(frozen=True)
class OneHot(Piece):
    """A Discrete or MultiDiscrete as a part of a vector."""

    sizes: npt.NDArray[np.int64]
    least: npt.NDArray[np.int64]
    """The smallest number of each part: the start of its space."""

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        choice = _integers(value, (*batch, *self.shape), _name(self.keys)).reshape(*batch, -1) - self.least
        if (choice < 0).any() or (choice >= self.sizes).any():
            raise MisfitError(_name(self.keys), value, f"it must be in its space, {self.space}")
        cells[:] = 0.0
        np.put_along_axis(cells, np.cumsum(self.sizes) - self.sizes + choice, 1.0, axis=-1)


def _piece(space: Space[Any], keys: Keys, start: int) -> Piece:
    """Return the part of a vector, from index ``start``, for a space; raises SpaceError for an unsupported space."""
    shape = space.shape or ()
    if isinstance(space, Box | MultiBinary):
        cells = slice(start, start + prod(shape))
        if isinstance(space, MultiBinary):
            return Bits(keys, cells, shape, space, f"zeros and ones {list(shape)}", {"scale": 1})
        scale = 1 / 255 if space.dtype == np.uint8 else 1
        return Piece(keys, cells, shape, space, f"Box {space.dtype}{list(shape)}", {"scale": scale})
    if not isinstance(space, Discrete | MultiDiscrete):
        where = f"{_path(keys)} in it" if keys else "it"
        raise SpaceError(
            f"{where} is neither Box, Discrete, MultiDiscrete nor MultiBinary; wrap the environment (env.wrappers) so "
            "that it gives numbers or images"
        )
    sizes = np.ravel(space.n if isinstance(space, Discrete) else space.nvec).astype(np.int64)
    if (length := int(sizes.sum())) > MOST_CHOICES:
        raise SpaceError(
            f"it has {length:,} numbers as one-hot; at most {MOST_CHOICES:,} are allowed; wrap the "
            "environment (env.wrappers)"
        )
    least = np.ravel(space.start).astype(np.int64)
    words, conversion = f"one-hot of {', '.join(map(str, sizes))}", {"sizes": sizes.tolist(), "least": least.tolist()}
    return OneHot(keys, slice(start, start + length), shape, space, words, conversion, sizes, least)


def _found(observation: Any, keys: Keys) -> Any:
    """Return the part of an observation to which the keys lead; raises MisfitError if it is missing."""
    for depth, key in enumerate(keys):
        try:
            observation = observation[key]
        except Exception:  # an environment may return anything
            name, rule = _name(keys[:depth]), f"by its space it must contain {key!r}"
            if isinstance(observation, Mapping):
                raise MisfitError(f"the list of keys of {name}", [*observation], rule) from None
            raise MisfitError(name, observation, rule) from None
    return observation


def _in_box(value: Any, box: Box, name: str, batch: tuple[int, ...] = ()) -> Array:
    """Return a value as an array; raises MisfitError if its shape or its dtype does not fit the space."""
    array = _array(value, (*batch, *box.shape), name)
    # A cast to bytes could wrap around, so bytes are required; other numbers are cast within their kind.
    casting: Any = "no" if box.dtype == np.uint8 else "same_kind"
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, box.dtype, casting):
        raise MisfitError(f"the dtype of {name}", str(array.dtype), f"by its space it must be {box.dtype}")
    return array


def _integers(value: Any, shape: tuple[int, ...], name: str) -> npt.NDArray[np.int64]:
    array = _array(value, shape, name)
    if array.dtype.kind not in "biu":
        raise MisfitError(name, value, "it must be made of integers" if shape else "it must be an integer")
    return array.astype(np.int64)


def _array(value: Any, shape: tuple[int, ...], name: str) -> Array:
    try:
        array = np.asarray(value)
    except Exception:  # an environment may return anything
        raise MisfitError(name, value, f"it must be an array of shape {shape}") from None
    if array.shape != shape:
        raise MisfitError(f"the shape of {name}", array.shape, f"by its space it must be {shape}")
    return array


def _path(keys: Keys) -> str:
    """Return keys as a path: goal.position, pair[0]."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _name(keys: Keys) -> str:
    """Return a part's name in Python's notation: observation['goal'][0]."""
    return "observation" + "".join(f"[{key!r}]" for key in keys)
