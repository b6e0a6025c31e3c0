"""Finds everything that is wrong with the values of a topology: walks a raw tree along the types of ``schema.py``.

Pure. Yields problems of path, value, rule and way out; where each stood, and how it is said on one line, is for
``messages.py``. Ranges, patterns and words are read from the types, so that nothing is told here a second time; msgspec
would raise the first problem only, and knows no way out. Rules that tie keys together are in ``rules.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import inspect

from actorlearn.nearest import nearest
from launch.topology.keys import Key, Struct, key_at, keys_of, leaves, told
from launch.topology.strict_yaml import MAX_SHOWN, Path, number, short, show

USUAL_NAMES = {
    "lr": "optimizer.learning_rate",
    "gamma": "algorithm.discount",
    "gae_lam": "algorithm.gae_lambda",
    "lam": "algorithm.gae_lambda",
    "ent_coef": "algorithm.entropy_cost",
    "vf_coef": "algorithm.value_cost",
    "clip_range": "algorithm.ratio_clip",
    "max_grad_norm": "optimizer.clip_norm",
    "n_steps": "algorithm.horizon",
    "num_steps": "algorithm.horizon",
    "rollout": "algorithm.horizon",
    "n_envs": "simulators.envs",
    "num_envs": "simulators.envs",
    "num_workers": "simulators.count",
    "buffer_size": "replay.capacity_steps",
    "learning_starts": "replay.learning_starts_steps",
    "target_update_interval": "algorithm.target_every_steps",
    "total_timesteps": "total_steps",
    "env_id": "env.id",
}
"""What other programs call our keys."""
RENAMED = {("simulators.weights", "round"): "rollout"}
"""Values that are called otherwise now: key, what it was -> what it is."""


class Problem(NamedTuple):
    """Something that is wrong with a topology."""

    path: Path
    value: object
    rule: str
    way_out: str
    default_helps: bool = False
    """Whether leaving the key out is a way out too."""


class Missing:
    """What stands where a key is missing."""


MISSING = Missing()


def problems(tree: object, section: Struct, path: Path = ()) -> Iterator[Problem]:
    """Everything that is wrong with the keys of a section and with what stands below them."""
    keys = keys_of(section)
    if not isinstance(tree, dict):
        first = next(iter(keys))
        word = f"{tree:.64}" if isinstance(tree, str) and first in ("id", "name") else "..."
        rule = f"must be a mapping with keys {', '.join(keys)}"
        yield Problem(path, tree, rule, f"write for example {{{first}: {word}}}")
        return
    for name, value in tree.items():
        if name not in keys:
            yield Problem((*path, name), value, *unknown_key((*path, name)))
    for name, key in keys.items():
        yield from _of_key(tree.get(name, MISSING), key, (*path, name))


def unknown_key(path: Path) -> tuple[str, str]:
    """Return rule and way out for a key that does not exist, naming the nearest that does."""
    parent = path[:-1]
    owner = key_at(parent)
    siblings = list(keys_of(owner.section)) if owner and owner.section else []
    where = f"section {dotted(parent)}" if parent else "a topology"
    word = str(path[-1])[:MAX_SHOWN]
    closest = nearest(word, siblings)
    if closest:
        return f"{where} has no key {show(word)}", f"did you mean {dotted((*parent, closest))}?"
    if elsewhere := _elsewhere(word):
        return f"{where} has no key {show(word)}", f"did you mean {elsewhere}?"
    return f"{where} has no key {show(word)}", f"remove it; the keys are {', '.join(siblings)}"


def dotted(path: Path) -> str:
    """Write a path as simulators.count or optimizer.betas[1]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return short("".join(parts)[1:]) or "topology"


def _elsewhere(word: str) -> str:
    """Return the key of any section that this word stands for, or is closest to; or nothing."""
    keys = {leaf.rpartition(".")[2]: leaf for leaf in reversed([*leaves()])}  # of several the first
    return USUAL_NAMES.get(word) or keys.get(nearest(word, keys), "")


def _of_key(value: Any, key: Key, path: Path) -> Iterator[Problem]:
    """What is wrong with one value, or with an item of one."""
    kind = key.kind
    if value is MISSING:
        yield _missing(key, path)
    elif key.section:
        yield from problems(value, key.section, path)
    elif isinstance(kind, inspect.UnionType):
        yield from _of_union(value, key, kind, path)
    elif isinstance(kind, inspect.LiteralType):
        yield from _of_words(value, key, kind, path)
    elif isinstance(kind, inspect.ListType):
        yield from _of_list(value, key, kind, path)
    elif isinstance(kind, inspect.StrType):
        yield from _of_text(value, key, kind, path)
    elif isinstance(kind, inspect.DictType):
        if not isinstance(value, dict):
            way_out = "write for example {size: 6}, or leave the key out"
            yield Problem(path, value, "must be a mapping of arguments", way_out)
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        yield from _of_number(value, key, kind, path)
    elif isinstance(kind, inspect.BoolType) and not isinstance(value, bool):
        yield _retype(path, value, key, "true or false", "write true or false without quotes")


def _missing(key: Key, path: Path) -> Problem:
    if len(path) > 2:
        rule = f"{dotted(path[:-1])} needs it ({key.description})"
        return Problem(path, MISSING, rule, f"write {{{path[-1]}: ...}}")
    return Problem(
        path, MISSING, "every topology names its environment", "add env: {id: ALE/Pong-v5}, or another gymnasium id"
    )


def _of_union(value: Any, key: Key, kind: inspect.UnionType, path: Path) -> Iterator[Problem]:
    """Judge by the part of the union that the value is of; by the first where it is of none."""
    parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
    if value is None and len(parts) < len(kind.types):
        return
    if isinstance(value, bool) and any(isinstance(part, inspect.BoolType) for part in parts):
        return
    listed = next((part for part in parts if isinstance(part, inspect.ListType)), None)
    chosen = listed if isinstance(value, list) and value and listed else parts[0]
    yield from _of_key(value, key._replace(kind=chosen, words=_or(key, parts)), path)


def _or(key: Key, parts: list[inspect.Type]) -> dict[str, str]:
    truth = any(isinstance(part, inspect.BoolType) for part in parts)
    return {"or": "true or false", **key.words} if truth else {**key.words}


def _of_words(value: Any, key: Key, kind: inspect.LiteralType, path: Path) -> Iterator[Problem]:
    words = [str(word) for word in kind.values]
    if isinstance(value, str) and value in words:
        return
    now = RENAMED.get((dotted(path), str(value)))
    if now:
        yield Problem(path, value, f"it is called {now} now", f"write {now}")
        return
    closest = nearest(str(value)[:MAX_SHOWN], words)
    example = f"{words[0]} or {key.examples[0]}" if key.examples else words[0]
    way_out = f"did you mean {closest}?" if closest else f"write {example}"
    rule = f"must be {' or '.join([*words, *filter(None, [key.words.get('or')])])}"
    yield Problem(path, value, rule, way_out, default_helps=not closest)


def _of_list(value: Any, key: Key, kind: inspect.ListType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, list):
        example = key.examples[0] if key.examples else [64, 64]
        yield _retype(path, value, key, "a list", f"write for example {example}")
        return
    least, most = kind.min_length or 0, kind.max_length
    if len(value) < least:
        yield Problem(path, value, f"must have at least {least} items", "write a list of that length", True)
    if most is not None and len(value) > most:
        yield Problem(path, value, f"must have at most {most} items", "write a list of that length", True)
        return
    inside = told(kind.item_type)._replace(examples=tuple(key.examples[0][:1]) if key.examples else ())
    for place, item in enumerate(value):
        yield from _of_key(item, inside, (*path, place))


def _of_text(value: Any, key: Key, kind: inspect.StrType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _retype(path, value, key, "text", "write a word, quoted if it looks like a number")
        return
    # $ also matches before a line's end, at which editors' schemas would stop.
    if kind.pattern is None or re.fullmatch(kind.pattern.removesuffix("$"), value):
        return
    if not key.examples:
        yield Problem(path, value, key.words["rule"], key.words["way_out"])
        return
    closest = nearest(value, key.examples)
    way_out = f"did you mean {closest}?" if closest else f"write for example {key.examples[0]}"
    yield Problem(path, value, f"must be {', '.join(key.examples)} or {key.words['or']}", way_out)


def _of_number(value: Any, key: Key, kind: inspect.IntType | inspect.FloatType, path: Path) -> Iterator[Problem]:
    whole = isinstance(kind, inspect.IntType)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        word, example = ("an integer", "a whole number such as 8") if whole else ("a number", "a number such as 0.5")
        if whole and isinstance(value, float) and value.is_integer():
            yield Problem(path, value, f"must be an integer{_unit(key)}", f"write {number(int(value))}")
        elif isinstance(value, str) and re.fullmatch(r"[-+]?[0-9_.]+", value):
            yield _retype(path, value, key, word, "write it without quotes, thousands split as in 250_000")
        else:
            yield _retype(path, value, key, word, f"write {example}")
    elif not (math.isfinite(value) and _within(value, kind)):
        yield Problem(path, value, f"must be {interval(kind)}", "write a number in that range", True)


def _within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def interval(kind: inspect.IntType | inspect.FloatType) -> str:
    """Write the whole range of a number, not only the bound it broke."""
    bounds = {"at least": kind.ge, "more than": kind.gt, "at most": kind.le, "less than": kind.lt}
    said = [f"{words} {number(bound)}" for words, bound in bounds.items() if bound is not None]
    return " and ".join(said) or "a finite number"


def _retype(path: Path, value: object, key: Key, what: str, way_out: str) -> Problem:
    """A value of another type; the way out says how to write what was probably meant."""
    way_out = "write a value after it" if value is None else way_out
    return Problem(path, value, f"must be {what}{_unit(key)}", way_out, default_helps=True)


def _unit(key: Key) -> str:
    return f" ({key.description})" if key.description else ""
