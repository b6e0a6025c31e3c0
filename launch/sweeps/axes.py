"""Axes: the keys in which trials differ, the values that each may have, and moves from one value to another. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

DIGITS = 6
"""Significant digits of a number drawn from a range: few enough to read, and exact when written and read back.

A narrow range has so many digits of its width.
"""

Values = Mapping[str, Any]
"""Values of a trial: dotted key of the topology -> value."""


@dataclass(frozen=True)
class Choices:
    """An axis with a list of values."""

    key: str
    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def examples(self) -> Sequence[Any]:
        """All values; a sweep is refused unless the topology accepts each of them."""
        return self.values

    def draw(self, random: Random) -> Any:
        """Return one of the values, all equally probable."""
        return random.choice(self.values)

    def move(self, value: Any, factors: Sequence[float], random: Random) -> Any:
        """Return the value before or after this one in the list; at an end of the list it may stay the same."""
        del factors
        place = self.values.index(value) + random.choice((-1, 1))
        return self.values[min(max(place, 0), len(self.values) - 1)]


@dataclass(frozen=True)
class Range:
    """An axis of numbers from low to high, both included; whole numbers if both ends are whole."""

    key: str
    low: float
    high: float
    log: bool = False
    """Whether equal factors, instead of equal differences, are equally probable."""

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def count(self) -> float:
        """Number of values; infinite if they are not whole numbers."""
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def examples(self) -> Sequence[Any]:
        """The lowest and the highest value; a sweep is refused unless the topology accepts both."""
        return (self.low, self.high)

    def draw(self, random: Random) -> float:
        """Return a random number, uniform on the scale of the axis."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            return self.fit(math.exp(random.uniform(math.log(low), math.log(high))))
        return self.fit(random.uniform(low, high))

    def move(self, value: Any, factors: Sequence[float], random: Random) -> float:
        """Return the value times one of the factors, within the range; a whole number changes by one at least."""
        factor = random.choice(list(factors))
        moved = self.fit(value * factor)
        if self.whole and moved == value and factor != 1:
            return self.fit(value + (1 if factor > 1 else -1))
        return moved

    def fit(self, number: float) -> float:
        """Return the nearest value of the axis, rounded to ``DIGITS`` digits, or more if the range is narrow."""
        if self.whole:
            return min(max(round(number), self.low), self.high)
        narrow = max(1.0, max(abs(self.low), abs(self.high)) / (self.high - self.low))
        rounded = float(f"{number:.{DIGITS + int(math.log10(narrow))}g}")
        return min(max(rounded, self.low), self.high)


Axis = Choices | Range


def combinations(axes: Sequence[Choices]) -> list[Values]:
    """Return every combination of the values, the last key changing fastest; without axes one empty combination."""
    keys = [axis.key for axis in axes]
    return [dict(zip(keys, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def draw(axes: Sequence[Axis], random: Random) -> Values:
    """Return a value of each axis, drawn independently."""
    return {axis.key: axis.draw(random) for axis in axes}


def written(values: Values) -> str:
    """Return values as text: equal values have equal text, whatever their types."""
    return json.dumps(values, sort_keys=True)


def draw_different(axes: Sequence[Axis], seed: int, count: int) -> list[Values]:
    """Return ``count`` different draws; a larger count begins with the same draws. The axes must have enough values."""
    random = Random(seed)
    found: dict[str, Values] = {}
    while len(found) < count:
        drawn = draw(axes, random)
        found.setdefault(written(drawn), drawn)
    return [*found.values()]


def count_all(axes: Sequence[Axis]) -> float:
    """Return the number of combinations; infinite if an axis has numbers that are not whole."""
    return math.prod(axis.count for axis in axes)
