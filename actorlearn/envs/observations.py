"""Observations of gymnasium's spaces as rows have them: each becomes one array of numbers.

=============  ==================================================================================
space          in a row
=============  ==================================================================================
Box            as it is: bytes stay bytes, other numbers become float32; of three dimensions an image, channels first
Box of bools   bytes: 0 and 255
Discrete       one-hot
MultiDiscrete  one-hot, piece after piece
MultiBinary    zeros and ones
Dict, Tuple    what they hold, one after the other in one vector; but a Box alone stays as it is
text           left out of a Dict or Tuple, because networks see numbers
=============  ==================================================================================

gymnasium's images are [lines, columns, channels], stacks of grey ones [frames, lines, columns], and networks take
[channels, lines, columns]: see `channels_come_last`. Networks divide bytes by 255, so that bools are 0 and 1 to them.

Bytes in a vector are divided by 255, as networks divide those of a Box that stays as it is: MiniGrid's image, kinds and
colours from 0 to 10, could be learned without that, but two of three policies collapsed within 30,000 steps.

Reads spaces and observations, and raises MisfitError for an observation outside its space. Knows no environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple

MOST_CHOICES = 65_536
"""Longest one-hot vector."""

Array = npt.NDArray[Any]
Keys = tuple[str | int, ...]
"""Keys and indices from an observation to a part of it, through Dicts and Tuples."""


class SpaceError(ValueError):
    """A space that has no form in a row; says which would do."""


class MisfitError(ValueError):
    """A value outside the declared space; the text names it, its value and the rule."""

    def __init__(self, name: str, value: object, rule: str) -> None:
        """Keep the three as ``args``."""
        super().__init__(name, value, rule)


class ObservationLayout(Protocol):
    """The place of each number of an observation in a row."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation in a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type that `store` writes; all but uint8 is cast to float32 on its way into a row."""

    @property
    def words(self) -> str:
        """Describe its contents for people."""

    def store(self, observation: Any, into: Array, i: int) -> None:
        """Write an observation to ``into[i]``; raises MisfitError."""

    def name(self, place: list[int]) -> str:
        """Name an element of the array as the observation has it."""


class BatchLayout(ObservationLayout, Protocol):
    """The same, for observations that come one by one or batched."""

    def store_all(self, observations: Any, into: Array) -> None:
        """Write B observations to ``into`` [B, …], batched as gymnasium's vectors do; raises MisfitError."""


def layout(space: Space[Any]) -> tuple[BatchLayout, tuple[str, ...]]:
    """Return the layout of a space's observations, and the parts that are left out; raises SpaceError."""
    held = list(_held(space, ()))
    left_out = tuple(f"{_path(keys)} ({type(part).__name__})" for keys, part in held if _is_text(part))
    kept = [(keys, part) for keys, part in held if not _is_text(part)]
    if not kept:
        raise SpaceError("there is no number in it: wrap it (env.wrappers) in what gives numbers or images")
    (keys, first), *others = kept
    if isinstance(first, Box) and not others:
        return Whole(first, keys), left_out
    return Vector(kept, type(space).__name__), left_out


def layout_of(env_id: str, space: Space[Any]) -> tuple[BatchLayout, tuple[str, ...]]:
    """Return `layout` of an environment's observations; raises ValueError, one line, also where they are empty."""
    try:
        found, left_out = layout(space)
        if not prod(found.shape):
            raise SpaceError("there is nothing in it to learn from: wrap it (env.wrappers)")
        return found, left_out
    except SpaceError as error:
        raise ValueError(f"env.id: {env_id!r} has observation space {short(space)}; {error}") from None


def short(space: Space[Any]) -> str:
    """Write a space for people, cut where it is long."""
    text = str(space)
    return text if len(text) <= 200 else text[:200] + "…"


def _is_text(space: Space[Any]) -> bool:
    """Whether it is a Text, or a space of a package's own whose values are str (MiniGrid's MissionSpace)."""
    return isinstance(space, Text) or (space.dtype is not None and space.dtype.kind == "U")


def _held(space: Space[Any], keys: Keys) -> Iterator[tuple[Keys, Space[Any]]]:
    """The spaces that a space is made of, in its order, with their keys."""
    if isinstance(space, Dict | Tuple):
        for key, part in space.items() if isinstance(space, Dict) else enumerate(space):
            yield from _held(part, (*keys, key))
    else:
        yield keys, space


class Whole:
    """A Box, as it is; of an image with its channels first."""

    def __init__(self, box: Box, keys: Keys) -> None:
        """Take the space, and the keys to it if it lies in Dicts or Tuples."""
        self._box, self._keys = box, keys
        self._channels_last, self._bools = channels_come_last(box.shape), box.dtype == np.bool_
        self.shape: tuple[int, ...] = (box.shape[2], *box.shape[:2]) if self._channels_last else box.shape
        self.dtype = np.dtype(np.uint8 if self._bools else box.dtype)
        channels = ", channels first" if self._channels_last else ""
        self.words = f"{_path(keys)}, a Box{channels}" if keys else f"Box{channels}"

    def store(self, observation: Any, into: Array, i: int) -> None:
        """Write an observation to ``into[i]``; raises MisfitError."""
        self._write(observation, into[i, ...], ())

    def store_all(self, observations: Any, into: Array) -> None:
        """Write B observations to ``into`` [B, …]; raises MisfitError."""
        self._write(observations, into, into.shape[:1])

    def _write(self, observation: Any, cells: Array, batch: tuple[int, ...]) -> None:
        observation, box = _found(observation, self._keys), self._box
        shape = (*batch, *box.shape)
        if type(observation) is not np.ndarray or observation.dtype != box.dtype or observation.shape != shape:
            with np.errstate(over="ignore"):  # becomes infinite, and is refused as such
                observation = _in_box(observation, box, _name(self._keys), batch).astype(box.dtype)
        if self._channels_last:
            observation = np.moveaxis(observation, -1, -3)
        if self._bools:
            np.multiply(observation, np.uint8(255), out=cells)
        else:
            cells[...] = observation

    def name(self, place: list[int]) -> str:
        """Name an element of the array as the observation has it."""
        if self._channels_last and place:
            place = [*place[1:], place[0]]
        return f"{_name(self._keys)}{place or ''}"


def channels_come_last(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape is an image [lines, columns, channels], and not [channels, lines, columns].

    Two sides that are equal are lines and columns; else there are fewer channels than lines or columns. An array of
    three equal sides (MinAtar's Seaquest) is as gymnasium has images.
    """
    if len(shape) != 3:
        return False
    first, second, last = shape
    if (first == second) != (second == last):
        return first == second
    return last <= first


class Vector:
    """Several spaces, or one of choices, as one vector."""

    dtype = np.dtype(np.float64)

    def __init__(self, held: list[tuple[Keys, Space[Any]]], name: str) -> None:
        """Lay the spaces out, each with its keys, in this order; ``name`` is that of them all."""
        self._pieces: list[Piece] = []
        start = 0
        for keys, space in held:
            self._pieces.append(_piece(space, keys, start))
            start = self._pieces[-1].cells.stop
        self.shape = (start,)
        held_by_key = ", ".join(f"{_path(piece.keys)} ({piece.words})" for piece in self._pieces)
        self.words = f"{name} of {held_by_key}" if held[0][0] else f"{name}, {self._pieces[0].words}"

    def store(self, observation: Any, into: Array, i: int) -> None:
        """Write an observation to ``into[i]``; raises MisfitError."""
        for piece in self._pieces:
            piece.write(_found(observation, piece.keys), into[i, piece.cells])

    def store_all(self, observations: Any, into: Array) -> None:
        """Write B observations to ``into`` [B, …]; raises MisfitError."""
        for piece in self._pieces:
            piece.write(_found(observations, piece.keys), into[:, piece.cells], into.shape[:1])

    def name(self, place: list[int]) -> str:
        """Name an element of the vector as the observation has it."""
        piece = next(piece for piece in self._pieces if place[0] < piece.cells.stop)
        return f"{_name(piece.keys)}[{place[0] - piece.cells.start}]"


@dataclass(frozen=True)
class Piece:
    """One space in a vector, of numbers as they are."""

    keys: Keys
    cells: slice
    shape: tuple[int, ...]
    space: Any

    @property
    def words(self) -> str:
        """Describe it for people."""
        return f"Box {self.space.dtype}{list(self.shape)}"

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        cells[:] = _in_box(value, self.space, _name(self.keys), batch).reshape(cells.shape)
        if self.space.dtype == np.uint8:
            cells /= 255.0


class Bits(Piece):
    """A MultiBinary in a vector."""

    @property
    def words(self) -> str:
        """Describe it for people."""
        return f"zeros and ones {list(self.shape)}"

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        bits = _integers(value, (*batch, *self.shape), _name(self.keys))
        if not np.isin(bits, (0, 1)).all():
            raise MisfitError(_name(self.keys), value, "its space says zeros and ones")
        cells[:] = bits.reshape(cells.shape)


@dataclass(frozen=True)
class OneHot(Piece):
    """A Discrete or MultiDiscrete in a vector."""

    sizes: npt.NDArray[np.int64]
    least: npt.NDArray[np.int64]
    """The number of the first choice, of each part."""

    @property
    def words(self) -> str:
        """Describe it for people."""
        return f"one-hot of {', '.join(map(str, self.sizes))}"

    def write(self, value: Any, cells: Array, batch: tuple[int, ...] = ()) -> None:
        """Write a value to its cells [*batch, width]; raises MisfitError."""
        choice = _integers(value, (*batch, *self.shape), _name(self.keys)).reshape(*batch, -1) - self.least
        if (choice < 0).any() or (choice >= self.sizes).any():
            raise MisfitError(_name(self.keys), value, f"its space is {self.space}")
        cells[:] = 0.0
        np.put_along_axis(cells, np.cumsum(self.sizes) - self.sizes + choice, 1.0, axis=-1)


def _piece(space: Space[Any], keys: Keys, start: int) -> Piece:
    """A space's place in a vector."""
    if isinstance(space, Box | MultiBinary):
        kind = Piece if isinstance(space, Box) else Bits
        return kind(keys, slice(start, start + prod(space.shape)), space.shape, space)
    if not isinstance(space, Discrete | MultiDiscrete):
        where = f"{_path(keys)} in it" if keys else "it"
        raise SpaceError(
            f"{where} is neither Box, Discrete, MultiDiscrete nor MultiBinary: wrap it (env.wrappers) in what gives "
            "numbers or images"
        )
    sizes = np.ravel(space.n if isinstance(space, Discrete) else space.nvec).astype(np.int64)
    if (length := int(sizes.sum())) > MOST_CHOICES:
        raise SpaceError(f"one-hot it has {length:,} numbers, and {MOST_CHOICES:,} are most: wrap it (env.wrappers)")
    least = np.ravel(space.start).astype(np.int64)
    return OneHot(keys, slice(start, start + length), space.shape or (), space, sizes, least)


def _found(observation: Any, keys: Keys) -> Any:
    """Return the part of an observation at the end of the keys."""
    for depth, key in enumerate(keys):
        try:
            observation = observation[key]
        except Exception:  # an environment may return anything
            raise MisfitError(_name(keys[:depth]), observation, f"its space says {key!r} is in it") from None
    return observation


def _in_box(value: Any, box: Box, name: str, batch: tuple[int, ...] = ()) -> Array:
    """A value as an array, if it is of the declared shape and a kind that can be cast to the declared dtype."""
    array = _array(value, (*batch, *box.shape), name)
    # Bytes would wrap around, so they must be bytes; other numbers are cast within their kind.
    casting: Any = "no" if box.dtype == np.uint8 else "same_kind"
    if array.dtype.kind not in "biuf" or not np.can_cast(array.dtype, box.dtype, casting):
        raise MisfitError(f"the dtype of {name}", str(array.dtype), f"its space says {box.dtype}")
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
        raise MisfitError(f"the shape of {name}", array.shape, f"its space says {shape}")
    return array


def _path(keys: Keys) -> str:
    """Keys for people: goal.position, pair[0]."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _name(keys: Keys) -> str:
    """A part's name as Python has it: observation['goal'][0]."""
    return "observation" + "".join(f"[{key!r}]" for key in keys)
