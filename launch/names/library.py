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

Values = Mapping[str, Any]
"""Name -> value: those that were given, and the library's defaults of the others."""
Keys = dict[str, Any]
"""Dotted key of a topology -> value."""


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
    convert: Callable[[Values], Keys] | None = None
    """Returns the keys; may raise NoCounterpartError. None: the value of the only key is the same."""
    default: Any = None
    """The library's default, unless ``Library.other_defaults`` has one for the algorithm; None if nothing reads it."""

    def converted(self, values: Values) -> Keys:
        """Return the keys for the value of this name; raises NoCounterpartError."""
        if self.convert is not None:
            return self.convert(values)
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
    return Name(name, algorithms, (key,), "", lambda values: {key: integer(values[name])}, default)


def without(
    names: str,
    algorithms: tuple[str, ...],
    why: str,
    convert: Callable[[Values], Keys] | None = None,
    default: Any = None,
) -> Iterator[Name]:
    """Yield names, separated by spaces, that have no counterpart; ``convert`` refuses some values, or none."""
    yield from (Name(name, algorithms, (), why, convert, default) for name in names.split())


def integer(value: Any) -> int:
    """Return a count as an integer; raises ValueError for a fraction."""
    if int(value) != value:
        raise ValueError("must be a whole number")
    return int(value)


def only(name: str, accepted: Collection[Any], why: str) -> Callable[[Values], Keys]:
    """Return the conversion of a name that needs no key for the accepted values; ``why``: the reason against others."""

    def convert(values: Values) -> Keys:
        if values[name] not in accepted:
            raise NoCounterpartError(why)
        return {}

    return convert


def unless(
    default: Any, name: str, key: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Values], Keys]:
    """Return the conversion of a name that sets a key, unless it has this default."""
    return lambda values: {} if values[name] == default else {key: convert(values[name])}


def learning_starts(values: Values) -> Keys:
    """Return the steps of the first minibatch, which cannot be fewer than its transitions."""
    first = max(integer(values["learning_starts"]), integer(values["batch_size"]))
    return {"replay.learning_starts_steps": first}


def random_start(values: Values) -> Keys:
    """Return the same steps, and the random actions with which SAC begins."""
    return {**learning_starts(values), "algorithm.random_steps": integer(values["learning_starts"])}


def nothing(values: Values) -> Keys:
    """Return no keys, for names whose values follow from the others or are used elsewhere."""
    del values
    return {}


def environments(name: str) -> Callable[[Values], Keys]:
    """Return the conversion of a number of environments: two simulators if it is even, else one."""

    def convert(values: Values) -> Keys:
        number = integer(values[name])
        processes = 1 if number % 2 else 2
        return {"simulators.count": processes, "simulators.envs": number // processes}

    return convert


def minibatches(steps: int, size: Any) -> int:
    """Return the number of minibatches of a size, of which the last may be smaller."""
    return -(-steps // integer(size))


def share_of_steps(values: Values, total: str) -> Keys:
    """Return the steps in which epsilon falls, which both libraries give as a share of all steps."""
    if values[total] is None:
        raise ValueError(f"it is a share of {total}, which is missing; give {total} too")
    return {"algorithm.epsilon_steps": max(1, round(values["exploration_fraction"] * values[total]))}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
