"""Axes of a sweep: the keys in which its trials differ, and the values that each key may have. Pure.

A trial is a combination of one value for each axis; it is trained with every seed of the sweep.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

DIGITS = 6
"""Significant digits to which a number drawn from a range is rounded, so that it is short and exact as text.

In a narrow range, such as 0.99 to 0.999, the digits are counted from those in which its ends differ.
"""

Values = Mapping[str, Any]
"""The values of a trial: dotted key of the topology -> value."""


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
        """Values that are checked with the topology before the sweep starts: all values of the list."""
        return self.values

    def draw(self, random: Random) -> Any:
        """Return one of the values, all equally probable."""
        return random.choice(self.values)

    def move(self, value: Any, factors: Sequence[float], random: Random) -> Any:
        """Return the value before or after ``value`` in the list, at random; at an end of the list it may stay.

        ``factors`` has no effect here; ``Range.move`` uses it.
        """
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
    """Whether numbers are drawn uniformly on a logarithmic scale, instead of a linear one."""

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
        """Values that are checked with the topology before the sweep starts: the lowest and the highest."""
        return (self.low, self.high)

    def draw(self, random: Random) -> float:
        """Return a random number, uniform on the linear or logarithmic scale of the axis."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            return self.fit(math.exp(random.uniform(math.log(low), math.log(high))))
        return self.fit(random.uniform(low, high))

    def move(self, value: Any, factors: Sequence[float], random: Random) -> float:
        """Return the value times one of the factors, chosen at random and limited to the range.

        A whole number changes by at least one, unless it is at an end of the range or the factor is 1.
        """
        factor = random.choice(list(factors))
        moved = self.fit(value * factor)
        if self.whole and moved == value and factor != 1:
            return self.fit(value + (1 if factor > 1 else -1))
        return moved

    def fit(self, number: float) -> float:
        """Return the value of the axis that is nearest to a number, rounded as ``DIGITS`` describes."""
        if self.whole:
            return min(max(round(number), self.low), self.high)
        narrow = max(1.0, max(abs(self.low), abs(self.high)) / (self.high - self.low))
        rounded = float(f"{number:.{DIGITS + int(math.log10(narrow))}g}")
        return min(max(rounded, self.low), self.high)


Axis = Choices | Range


def combinations(axes: Sequence[Choices]) -> list[Values]:
    """Return all combinations of the values; the last key changes fastest. Without axes, return one empty one."""
    keys = [axis.key for axis in axes]
    return [dict(zip(keys, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def draw(axes: Sequence[Axis], random: Random) -> Values:
    """Return a random value for each axis; values of different axes are independent."""
    return {axis.key: axis.draw(random) for axis in axes}


def written(values: Values) -> str:
    """Return the values of a trial as text, so that trials with equal values can be recognised."""
    return json.dumps(values, sort_keys=True)


def draw_different(axes: Sequence[Axis], seed: int, count: int) -> list[Values]:
    """Return ``count`` different random combinations; a larger ``count`` only appends more.

    The axes must have at least ``count`` combinations (``count_all``), or else the function never returns.
    """
    random = Random(seed)
    found: dict[str, Values] = {}
    while len(found) < count:
        drawn = draw(axes, random)
        found.setdefault(written(drawn), drawn)
    return [*found.values()]


def count_all(axes: Sequence[Axis]) -> float:
    """Return the number of combinations; infinite if an axis has numbers that are not whole."""
    return math.prod(axis.count for axis in axes)
