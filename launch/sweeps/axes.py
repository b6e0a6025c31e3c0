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
"""Digits of a number that is drawn from a range, so that it can be read, and written again as it is."""

Values = Mapping[str, Any]
"""Values of a trial: dotted key of the topology -> value."""


@dataclass(frozen=True)
class Choices:
    """An axis of listed values."""

    key: str
    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def examples(self) -> Sequence[Any]:
        """Values of which each must be accepted by the topology."""
        return self.values

    def draw(self, random: Random) -> Any:
        """Return one of the values, each as probable as another."""
        return random.choice(self.values)

    def move(self, value: Any, factors: Sequence[float], random: Random) -> Any:
        """Return a value beside this one in the list, up or down; at an end it may stay."""
        del factors
        place = self.values.index(value) + random.choice((-1, 1))
        return self.values[min(max(place, 0), len(self.values) - 1)]


@dataclass(frozen=True)
class Range:
    """An axis of numbers from low to high, both included; whole numbers where both are."""

    key: str
    low: float
    high: float
    log: bool = False
    """Whether equal factors, and not equal differences, are equally probable."""

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def count(self) -> float:
        """Number of values; infinite where they are not whole."""
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def examples(self) -> Sequence[Any]:
        """Values of which each must be accepted by the topology."""
        return (self.low, self.high)

    def draw(self, random: Random) -> float:
        """Return a number, all equally probable on the scale."""
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            return self.fit(math.exp(random.uniform(math.log(low), math.log(high))))
        return self.fit(random.uniform(low, high))

    def move(self, value: Any, factors: Sequence[float], random: Random) -> float:
        """Return the value times one of the factors, kept within the range; a whole number moves by one at least."""
        factor = random.choice(list(factors))
        moved = self.fit(value * factor)
        if self.whole and moved == value and factor != 1:
            return self.fit(value + (1 if factor > 1 else -1))
        return moved

    def fit(self, number: float) -> float:
        """Return the nearest value of the axis, with so many digits as are kept."""
        rounded = round(number) if self.whole else float(f"{number:.{DIGITS}g}")
        return min(max(rounded, self.low), self.high)


Axis = Choices | Range


def combinations(axes: Sequence[Choices]) -> list[Values]:
    """Return every combination of the values, the last key changing first; one of nothing where there are no axes."""
    keys = [axis.key for axis in axes]
    return [dict(zip(keys, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def draw(axes: Sequence[Axis], random: Random) -> Values:
    """Return a value of each axis, drawn independently."""
    return {axis.key: axis.draw(random) for axis in axes}


def written(values: Values) -> str:
    """Return values as text, by which equal ones are found whatever their types."""
    return json.dumps(values, sort_keys=True)


def draw_different(axes: Sequence[Axis], seed: int, count: int) -> list[Values]:
    """Return so many draws, none twice; of a larger count the first are the same. There must be as many values."""
    random = Random(seed)
    found: dict[str, Values] = {}
    while len(found) < count:
        drawn = draw(axes, random)
        found.setdefault(written(drawn), drawn)
    return [*found.values()]


def count_all(axes: Sequence[Axis]) -> float:
    """Return how many combinations there are; infinite where an axis has numbers that are not whole."""
    return math.prod(axis.count for axis in axes)
