"""Converts hyperparameters of another library into keys of a topology, by a table of the library's names. Pure.

For each name, the table has its counterpart (the keys with the same meaning) and the conversion of its value.
The tables are used for ``actorlearn.from_stable_baselines3`` and ``actorlearn.from_cleanrl``, for hints in error
messages, and for two pages of docs/.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from actorlearn.nearest import did_you_mean

# Remarks that entries of several tables share.
WHOLE_COPIES = "dqn always copies the whole network, as with tau = 1"
EVERY_STEP = "sac moves the target critics after every optimizer step, as with the value 1"

STARTS = "learning_starts, or batch_size if it is larger"
EPSILON = "exploration_fraction x total_timesteps"

Values = Mapping[str, Any]
"""The library's names -> values: those that the user has given, and the library's defaults for the others."""
Keys = dict[str, Any]
"""Dotted key of a topology -> value."""
Convert = Callable[[Any, Values], Keys]
"""Function of a hyperparameter's value and of all values that returns keys; may raise NoCounterpartError."""


class NoCounterpartError(Exception):
    """No key has the effect of this value of a hyperparameter; other values may have one. The text says why."""


class OtherNameError(ValueError):
    """A hyperparameter on which the conversion of another depends is wrong. Arguments: its name, and the rule."""


class Name(NamedTuple):
    """A hyperparameter of another library, and the keys that have the same effect for some of its algorithms."""

    name: str
    algorithms: tuple[str, ...]
    """The library's algorithms for which this entry is valid."""
    keys: tuple[str, ...] = ()
    """The keys that are its counterpart; empty if it has none."""
    how: str = ""
    """A remark on the conversion of the value; without keys, the reason why there are none."""
    convert: Convert | None = None
    """Function that converts the value; None: the only key gets the same value."""
    default: Any = None
    """The library's default, unless ``Library.other_defaults`` has one for the algorithm."""

    def converted(self, values: Values) -> Keys:
        """Return the keys with the effect of this hyperparameter's value; raises NoCounterpartError if none have it."""
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
    """The hyperparameters of another library, and their counterparts in actorlearn."""

    title: str
    table: tuple[Name, ...]
    other_defaults: Mapping[str, dict[str, Any]]
    """Algorithm of the library (for CleanRL, its script) -> defaults that differ from those in the table, by name."""
    fixed: Mapping[str, Keys]
    """Algorithm of the library -> keys for its fixed behaviour that differs from the defaults of actorlearn."""
    names_here: Mapping[str, str]
    """Algorithm of the library -> value of ``algorithm.name``. It has all algorithms that can be converted."""

    def of(self, algorithm: str) -> dict[str, Name]:
        """Return the hyperparameters of an algorithm by name; raises ValueError if the table does not have it."""
        if algorithm not in self.names_here:
            known = ", ".join(self.names_here)
            way_out = did_you_mean(str(algorithm), self.names_here, f"they are {known}")
            raise ValueError(
                f"{algorithm!r} is not one of the algorithms of {self.title} that can be converted; {way_out}"
            )
        return {name.name: name for name in self.table if algorithm in name.algorithms}

    def convert(self, algorithm: str, given: Mapping[str, Any]) -> Converted:
        """Return keys with the effect of the given hyperparameters, and of the library's defaults for the others.

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
            except OtherNameError as error:
                raise self._wrong(error.args[0], values, defaults, error.args[1]) from None
            except (TypeError, ValueError, ZeroDivisionError) as error:
                rule = str(error) if isinstance(error, ValueError) else "cannot be converted"
                raise self._wrong(name, values, defaults, rule) from None
        return Converted(keys, left_out)

    def _wrong(self, name: str, values: Values, defaults: Values, rule: str) -> ValueError:
        """Return the error for a wrong value of a hyperparameter; if ``rule`` has no remedy, one is added."""
        example = "" if defaults[name] is None else f", for example its default, {defaults[name]!r}"
        way_out = "" if "; " in rule else f"; write a value that {self.title} accepts{example}"
        return ValueError(f"{name}: {values[name]!r:.100}: {rule}{way_out}")


def count(name: str, algorithms: tuple[str, ...], key: str, default: int) -> Name:
    """Return a table entry for a hyperparameter that is a whole number; a float such as 1e6 becomes an integer."""
    return Name(name, algorithms, (key,), "", lambda value, _: {key: integer(value)}, default)


def without(
    names: str, algorithms: tuple[str, ...], why: str, convert: Convert | None = None, default: Any = None
) -> Iterator[Name]:
    """Yield table entries for hyperparameters that have no counterpart.

    ``names``: the names, separated by spaces. ``why``: the reason. ``convert``: returns {} for values that need no key;
    None: all values except the default are reported as left out.
    """
    yield from (Name(name, algorithms, (), why, convert, default) for name in names.split())


def integer(value: Any) -> int:
    """Return a number as an integer; raises ValueError if it is not whole."""
    if isinstance(value, str) or not number(value).is_integer():
        raise ValueError("must be a whole number")
    return int(value)


def whole(name: str, values: Values) -> int:
    """Return the value of the hyperparameter ``name`` as an integer; raises OtherNameError if it is not whole."""
    try:
        return integer(values[name])
    except ValueError as error:
        raise OtherNameError(name, str(error)) from None


def number(value: Any) -> float:
    """Return a number or its text as a float; raises ValueError for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError("must be a number") from None


def only(accepted: Collection[Any], why: str) -> Convert:
    """Return a conversion that needs no key for the accepted values, and for others raises NoCounterpartError."""

    def convert(value: Any, _: Values) -> Keys:
        if value not in accepted:
            raise NoCounterpartError(why)
        return {}

    return convert


def unless(default: Any, key: str, convert: Callable[[Any], Any] = lambda value: value) -> Convert:
    """Return a conversion that sets a key to the converted value; with the value ``default`` it sets none."""
    return lambda value, _: {} if value == default else {key: convert(value)}


def switch(on: Keys, off: Keys) -> Convert:
    """Return a conversion that sets the keys ``on`` for a true value, and the keys ``off`` for a false one."""
    return lambda value, _: on if value else off


def learning_starts(value: Any, values: Values) -> Keys:
    """Convert ``learning_starts``, raised to ``batch_size``, as the replay must have a whole minibatch."""
    return {"replay.learning_starts_steps": max(integer(value), whole("batch_size", values))}


def random_start(value: Any, values: Values) -> Keys:
    """Convert ``learning_starts`` of SAC, which also acts at random for these steps."""
    return {**learning_starts(value, values), "algorithm.random_steps": integer(value)}


def nothing(_value: Any, _values: Values) -> Keys:
    """Return no keys, for a hyperparameter that other conversions use or that follows from others."""
    return {}


def environments(value: Any, _: Values) -> Keys:
    """Convert a number of environments into two simulators with half of them each, or one if the number is odd."""
    environments = integer(value)
    processes = 1 if environments % 2 else 2
    return {"simulators.count": processes, "simulators.envs": environments // processes}


def epsilon_steps(value: Any, values: Values) -> Keys:
    """Convert ``value``, the part of total_timesteps in which epsilon falls, into a number of steps."""
    if values["total_timesteps"] is None:
        raise ValueError("it is a share of total_timesteps, which is missing; give total_timesteps too")
    return {"algorithm.epsilon_steps": max(1, round(number(value) * whole("total_timesteps", values)))}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
