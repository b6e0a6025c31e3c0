"""The names of another library: the counterpart of each, and how its value becomes the values of keys.

Hints of error messages, ``actorlearn.from_stable_baselines3``, ``actorlearn.from_cleanrl`` and two pages of docs/ are
made from these tables. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from actorlearn.nearest import did_you_mean

WHOLE_COPIES = "dqn always copies the whole network, as with tau = 1"
EVERY_STEP = "sac moves the target critics after every optimizer step, as with the value 1"

STARTS = "learning_starts, or batch_size if it is larger"
EPSILON = "exploration_fraction x total_timesteps"

Values = Mapping[str, Any]
"""Name -> value: those that were given, and the library's defaults of the others."""
Keys = dict[str, Any]
"""Dotted key of a topology -> value."""
Convert = Callable[[Any, Values], Keys]
"""Returns the keys for the value of a name, given all values; may raise NoCounterpartError."""


class NoCounterpartError(Exception):
    """A value has no counterpart in actorlearn, though its name may have one; the text is the reason."""


class Name(NamedTuple):
    """A name of another library, for some of its algorithms."""

    name: str
    algorithms: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Its counterparts; empty if it has none."""
    how: str = ""
    """How its value becomes the values of the keys, if it is not the same value; without keys: why it has none."""
    convert: Convert | None = None
    """None: the value of the only key is the same."""
    default: Any = None
    """The library's default, unless ``Library.other_defaults`` has one for the algorithm; None if nothing reads it."""

    def converted(self, values: Values) -> Keys:
        """Return the keys for the value of this name; raises NoCounterpartError."""
        if self.convert is not None:
            return self.convert(values[self.name], values)
        if not self.keys:
            raise NoCounterpartError(self.how)
        return {self.keys[0]: values[self.name]}


class Converted(NamedTuple):
    """Hyperparameters of another library as keys of a topology."""

    keys: Keys
    """Keyword arguments of ``actorlearn.train``: dotted key -> value."""
    left_out: dict[str, str]
    """Given names whose values have no counterpart -> the reason."""


@dataclass(frozen=True)
class Library:
    """Another library's names."""

    title: str
    table: tuple[Name, ...]
    other_defaults: Mapping[str, dict[str, Any]]
    """Algorithm (CleanRL: script) -> the names whose defaults differ from those in the table, with its defaults."""
    fixed: Mapping[str, Keys]
    """Algorithm -> keys for what the library always does, without a name, and actorlearn does not do by default."""
    names_here: Mapping[str, str]
    """Algorithm -> ``algorithm.name``; has all algorithms."""

    def of(self, algorithm: str) -> dict[str, Name]:
        """Return the names of an algorithm; raises ValueError for an algorithm that has none."""
        if algorithm not in self.names_here:
            known = ", ".join(self.names_here)
            way_out = did_you_mean(str(algorithm), self.names_here, f"they are {known}")
            raise ValueError(
                f"{algorithm!r} is not one of the algorithms of {self.title} that can be converted; {way_out}"
            )
        return {name.name: name for name in self.table if algorithm in name.algorithms}

    def convert(self, algorithm: str, given: Mapping[str, Any]) -> Converted:
        """Return given hyperparameters, and the library's defaults of the others, as keys.

        Raises ValueError for a name that the algorithm does not have, and for a value of a wrong type.
        """
        names = self.of(algorithm)
        defaults = {name: entry.default for name, entry in names.items()} | self.other_defaults.get(algorithm, {})
        for name in given:
            if name not in names:
                way_out = did_you_mean(str(name), names, f"its hyperparameters are {', '.join(names)}")
                raise ValueError(f"{name!r}: {algorithm} of {self.title} has no such hyperparameter; {way_out}")
        values = {**defaults, **given}
        keys = {"algorithm.name": self.names_here[algorithm], **self.fixed[algorithm]}
        left_out = {}
        for name, entry in names.items():
            try:
                keys |= entry.converted(values)
            except NoCounterpartError as error:
                if name in given and not _same(values[name], defaults[name]):
                    left_out[name] = str(error)
            except (TypeError, ValueError, ZeroDivisionError) as error:
                raise ValueError(f"{name}: {values[name]!r:.100}: {error}") from None
        return Converted(keys, left_out)


def count(name: str, algorithms: tuple[str, ...], key: str, default: int) -> Name:
    """Return a name whose value is a count, which files often write as 1e6."""
    return Name(name, algorithms, (key,), "", lambda value, _: {key: integer(value)}, default)


def without(
    names: str, algorithms: tuple[str, ...], why: str, convert: Convert | None = None, default: Any = None
) -> Iterator[Name]:
    """Yield names, separated by spaces, that have no counterpart; ``convert`` refuses some values, or none."""
    yield from (Name(name, algorithms, (), why, convert, default) for name in names.split())


def integer(value: Any) -> int:
    """Return a count as an integer; raises ValueError for a fraction."""
    if int(value) != value:
        raise ValueError("must be a whole number")
    return int(value)


def only(accepted: Collection[Any], why: str) -> Convert:
    """Return the conversion of a name that needs no key for the accepted values; ``why``: the reason against others."""

    def convert(value: Any, _: Values) -> Keys:
        if value not in accepted:
            raise NoCounterpartError(why)
        return {}

    return convert


def unless(default: Any, key: str, convert: Callable[[Any], Any] = lambda value: value) -> Convert:
    """Return the conversion of a name that sets a key, unless it has this default."""
    return lambda value, _: {} if value == default else {key: convert(value)}


def switch(on: Keys, off: Keys) -> Convert:
    """Return the conversion of a name that is true or false."""
    return lambda value, _: on if value else off


def learning_starts(value: Any, values: Values) -> Keys:
    """Return the steps of the first minibatch, which cannot be fewer than its transitions."""
    return {"replay.learning_starts_steps": max(integer(value), integer(values["batch_size"]))}


def random_start(value: Any, values: Values) -> Keys:
    """Return the same steps, and the random actions with which SAC begins."""
    return {**learning_starts(value, values), "algorithm.random_steps": integer(value)}


def nothing(_value: Any, _values: Values) -> Keys:
    """Return no keys, for names whose values follow from the others or are used elsewhere."""
    return {}


def environments(value: Any, _: Values) -> Keys:
    """Return the keys for a number of environments: two simulators if it is even, else one."""
    number = integer(value)
    processes = 1 if number % 2 else 2
    return {"simulators.count": processes, "simulators.envs": number // processes}


def epsilon_steps(value: Any, values: Values) -> Keys:
    """Return the steps in which epsilon falls, which both libraries give as a share of all steps."""
    if values["total_timesteps"] is None:
        raise ValueError("it is a share of total_timesteps, which is missing; give total_timesteps too")
    return {"algorithm.epsilon_steps": max(1, round(value * values["total_timesteps"]))}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
