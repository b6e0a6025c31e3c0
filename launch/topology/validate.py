"""Finds all problems with the single values of a topology, by comparing a raw topology with the types of ``schema.py``.

A problem has a path, a value, a rule and a remedy. `explain` writes a line for each problem: place, key = value, rule,
remedy. Ranges, patterns and words are read from the types, so they are not repeated here. msgspec is not used for the
check because it raises only the first problem and suggests no remedy. Rules between keys are in ``rules.py``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from actorlearn.nearest import did_you_mean, nearest
from actorlearn.registry import CODE, Registry
from launch.names.hints import NAMED_ELSEWHERE, hint, read_by
from launch.topology.keys import (
    BASES,
    CHOSEN,
    Key,
    choice_key,
    items_of,
    key_at,
    key_of,
    keys_of,
    learns_from_replay,
    leaves,
    section_of_role,
    struct_at,
    structs_of,
)
from launch.topology.schema import TOPOLOGY
from launch.topology.strict_yaml import (
    MAX_FAULTS,
    MAX_SHOWN,
    Origin,
    Path,
    TopologyError,
    fault,
    number,
    short,
    show,
    together,
    typed,
)

ALMOST = 0.85
"""Similarity (0 to 1) from which an unknown key counts as a mistyped key of its section.

This holds even if another library has a parameter of this name.
"""
LISTS = (inspect.ListType, inspect.VarTupleType, inspect.TupleType)
MISSING = msgspec.UNSET
"""Stands for the value of a missing key."""
UNBOUNDED = "a finite number"


class Problem(NamedTuple):
    """A problem of a topology: the value at a path breaks a rule."""

    path: Path
    value: object
    rule: str
    way_out: str
    default_helps: bool = False
    """Whether leaving the key out is a remedy too."""
    siblings: tuple[str, ...] | None = None
    """For an unknown key, the keys of its section; `explain` then finds the remedy. None for other problems."""


def problems(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield all problems with single values of a raw topology whose defaults are filled in."""
    keys = keys_of(TOPOLOGY)
    yield from _unknown_keys(tree, keys, ())
    for name, key in keys.items():
        if name in CHOSEN:
            yield from _of_choice(name, tree)
        elif name == "replay" and not learns_from_replay(tree):
            if tree.get(name) is not None:
                yield _no_replay(tree)
        elif name == "replay" and key.section and tree.get(name) is None:
            yield _no_mapping(None, keys_of(key.section), (name,))
        elif name == "roles" and isinstance(tree[name], dict):
            yield from _of_roles(tree[name])
        else:
            yield from problems_at(tree.get(name, MISSING), key, (name,))


def settings(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Convert the sections of a raw topology to structs.

    Returns all values of the topology by key, and the problems that the structs' own checks have found.
    """
    made, found = dict(tree), []
    for name, key in keys_of(TOPOLOGY).items():
        if key.section and tree.get(name) is not None:
            try:
                made[name] = msgspec.convert(tree[name], struct_at(name, tree))
            except msgspec.ValidationError as error:
                found.append(_of_own_rule(name, tree[name], str(error)))
    made["roles"] = {role: msgspec.convert(keys, section_of_role(role)) for role, keys in tree["roles"].items()}
    return {"replay": None} | made, found


def explain(problems: Sequence[Problem], origins: Mapping[Path, Origin], defaults: Mapping[str, Any]) -> TopologyError:
    """Return the problems as one error; those of overrides come first, then those of the file, in its order."""

    def order(problem: Problem) -> tuple[bool, int]:
        given = origin(problem.path, origins)
        return not given.override, given.line

    wrong_algorithm = any(problem.path == ("algorithm", "name") for problem in problems)

    def line(problem: Problem) -> TopologyError:
        given, path = origin(problem.path, origins), problem.path
        value = "is missing" if problem.value is MISSING else f"= {show(problem.value)}"
        way_out = problem.way_out
        if problem.siblings is not None:
            way_out = nearest_key(path, problem.siblings, {} if wrong_algorithm else defaults)
        if problem.default_helps and not given.over:
            way_out += _way_to_default(path, defaults)
        return fault(str(given), f"{dotted(path)} {value}", problem.rule, way_out)

    shown = sorted(problems, key=order)[:MAX_FAULTS]
    return together([line(problem) for problem in shown], others=f"{len(problems) - 1}")


def origin(path: Path, origins: Mapping[Path, Origin]) -> Origin:
    """Return the origin of a key; if the key was not given, that of the nearest section around it."""
    return next(origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in origins)


def _way_to_default(path: Path, defaults: Mapping[str, Any]) -> str:
    value: Any = defaults
    for part in path:
        if isinstance(part, int) or not isinstance(value, Mapping) or part not in value:
            return ""
        value = value[part]
    return f", or leave the key out for the default {typed(value)}"


def no_such_key(path: Path) -> str:
    """Return text which says that a section, or a topology, has no key of this name."""
    parent, word = path[:-1], str(path[-1])[:MAX_SHOWN]
    return f"{f'section {dotted(parent)}' if parent else 'a topology'} has no key {show(word)}"


def nearest_key(path: Path, siblings: Iterable[str], resolved: Mapping[str, Any]) -> str:
    """Return the remedy for an unknown key: the most similar known key that the topology's algorithm reads.

    ``siblings``: the keys of the section. If ``resolved`` names no existing algorithm, keys of all algorithms count.
    """
    parent, word, known = path[:-1], str(path[-1])[:MAX_SHOWN], [*siblings]
    section = resolved.get("algorithm")
    algorithm = str(section.get("name")) if isinstance(section, Mapping) else ""
    if "__" in word and key_at(tuple(word.split("__"))):
        return f"did you mean {word.replace('__', '.')}?"
    if closest := nearest(word, known, ALMOST):
        return f"did you mean {dotted((*parent, closest))}?"
    same = () if parent else [leaf for leaf in leaves() if leaf.rpartition(".")[2] == word]
    if usual := hint(word, algorithm, same) or hint("_".join(map(str, path)), algorithm):
        return usual
    if closest := nearest(word, known):
        return f"did you mean {dotted((*parent, closest))}?"
    if elsewhere := _elsewhere(word, algorithm):
        return f"did you mean {elsewhere}?"
    return f"remove the key; the known keys are {', '.join(known)}"


def dotted(path: Path) -> str:
    """Return a path as text, such as simulators.count or optimizer.betas[1]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return short("".join(parts)[1:]) or "topology"


def _of_choice(name: str, tree: Mapping[str, Any]) -> Iterator[Problem]:
    section, path, registry = tree.get(name), (name,), CHOSEN[name]
    if not isinstance(section, dict):
        yield _no_mapping(section, keys_of(BASES[name]), path)
        return
    by = choice_key(name)
    if not isinstance(section.get(by), str):
        yield from problems_at(section.get(by, MISSING), keys_of(BASES[name])[by], (*path, by))
        return
    try:
        keys = keys_of(struct_at(name, tree))
    except ValueError as error:
        yield no_entry((*path, by), section[by], registry, str(error))
        return
    yield from problems_of(section, keys, path)


def _of_roles(roles: Mapping[str, Any]) -> Iterator[Problem]:
    for role, section in roles.items():
        path: Path = ("roles", role)
        try:
            keys = keys_of(section_of_role(role))
        except ValueError as error:
            yield Problem(path, section, str(error), "remove it, or install the package of the role")
            continue
        yield from problems_of(section, keys, path) if isinstance(section, dict) else [_no_mapping(section, keys, path)]


def no_entry(path: Path, name: str, registry: Registry[Any], error: str) -> Problem:
    """Return the problem of a name that is in no registry, or whose code cannot be imported."""
    if CODE.fullmatch(name):
        rule = error.removeprefix(f"{registry.kind}.name: {name!r}").lstrip(": ")
        fits = not rule.startswith("does not fit")
        return Problem(
            path, name, rule, "write a name that can be imported here" if fits else "correct it, or name another"
        )
    if name in registry.names():  # a package provides it, but it cannot be loaded
        return Problem(path, name, f"cannot be used: {error}", "repair or uninstall the package, or name another")
    meant = NAMED_ELSEWHERE.get(name.lower(), "")
    way_out = f"did you mean {meant}?" if meant in registry.names() else ""
    way_out = way_out or did_you_mean(name, registry.names(), f"write for example {registry.names()[0]}")
    return Problem(path, name, f"must be {', '.join(registry.names())} or package.module:Name", way_out)


def _of_own_rule(name: str, section: Mapping[str, Any], error: str) -> Problem:
    """Return a struct's own error, such as "algorithm.value_max: 1.0 must be above value_min, 5.0", as a problem."""
    key, _, rule = error.removesuffix(" - at `$`").partition(": ")
    path = tuple(key.split("."))
    if path[0] != name or path[-1] not in section:
        return Problem((name,), section, error, "correct the value")
    return Problem(path, section[path[-1]], rule.removeprefix(f"{section[path[-1]]!r} "), "write another value")


def _no_replay(tree: Mapping[str, Any]) -> Problem:
    having = join_words([spec.name for spec in CHOSEN["algorithm"].specs() if spec.replayed])
    rule = f"algorithm {tree['algorithm']['name']} does not learn from a replay"
    return Problem(("replay",), tree["replay"], rule, f"remove the section, or choose an algorithm that does: {having}")


def problems_of(section: Mapping[str, Any], keys: Mapping[str, Key], path: Path) -> Iterator[Problem]:
    """Yield problems of the keys of a section and of everything below them."""
    yield from _unknown_keys(section, keys, path)
    for name, key in keys.items():
        yield from problems_at(section.get(name, MISSING), key, (*path, name))


def _unknown_keys(section: Mapping[str, Any], keys: Mapping[str, Key], path: Path) -> Iterator[Problem]:
    """Yield a problem for each unknown key; if other algorithms (networks, ...) have the key, the remedy names them."""
    for name, value in section.items():
        if name in keys:
            continue
        others = structs_of(str(path[0])).items() if len(path) == 1 and path[0] in CHOSEN else ()
        readers = [chosen for chosen, struct in others if name in keys_of(struct)]
        if readers:
            chosen = str(section["name"]) if "name" in keys else f"of {section['id']}"
            rule = f"{path[0]} {short(chosen)} has no key {name!r}"
            yield Problem(
                (*path, name),
                value,
                rule,
                f"remove the key; only {join_words(readers)} ha{'ve' if readers[1:] else 's'} it",
            )
        else:
            yield Problem((*path, name), value, no_such_key((*path, name)), "", siblings=(*keys,))


def join_words(words: Sequence[str]) -> str:
    """Return words joined as in a sentence: a, b and c."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


def _no_mapping(value: object, keys: Mapping[str, Key], path: Path) -> Problem:
    first = next(iter(keys))
    word = f"{value:.64}" if isinstance(value, str) and first in ("id", "name") else "..."
    return Problem(
        path, value, f"must be a mapping with keys {', '.join(keys)}", f"write for example {{{first}: {word}}}"
    )


def _elsewhere(word: str, algorithm: str) -> str:
    """Return the most similar key of any section that the algorithm reads, as section.key; "" if none is similar."""
    read = read_by(algorithm, leaves())
    keys = {leaf.rpartition(".")[2]: leaf for leaf in reversed(read)}  # the first of several
    return keys.get(nearest(word, keys), "")


def problems_at(value: Any, key: Key, path: Path) -> Iterator[Problem]:
    """Yield problems of one value, or of its items."""
    kind = key.kind
    if value is MISSING:
        yield _missing(key, path)
    elif isinstance(kind, inspect.UnionType):
        yield from _of_union(value, key, kind, path)
    elif key.section:
        keys = keys_of(key.section)
        yield from problems_of(value, keys, path) if isinstance(value, dict) else [_no_mapping(value, keys, path)]
    elif isinstance(kind, inspect.LiteralType):
        yield from _of_words(value, key, kind, path)
    elif isinstance(kind, LISTS):
        yield from _of_list(value, key, kind, path)
    elif isinstance(kind, inspect.StrType):
        yield from _of_text(value, key, kind, path)
    elif isinstance(kind, inspect.DictType) and (section := key_of(kind.value_type).section):
        yield from _of_named_sections(value, section, path)
    elif isinstance(kind, inspect.DictType):
        yield from _of_arguments(value, kind, path)
    elif isinstance(kind, inspect.IntType | inspect.FloatType):
        yield from _of_number(value, key, kind, path)
    elif isinstance(kind, inspect.BoolType) and not isinstance(value, bool):
        yield _wrong_type(path, value, key, "true or false", "write true or false without quotes")


def _missing(key: Key, path: Path) -> Problem:
    if path == ("env", "id"):
        rule, way_out = "every topology names its environment", "add env: {id: ALE/Pong-v5}, or another gymnasium id"
    else:
        rule, way_out = f"{dotted(path[:-1])} needs this key{_unit(key)}", f"write {{{path[-1]}: ...}}"
    return Problem(path, MISSING, rule, way_out)


def _of_union(value: Any, key: Key, kind: inspect.UnionType, path: Path) -> Iterator[Problem]:
    """Yield problems of a value whose type is a union, checked by the type in it that fits, or else by the first."""
    parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
    if value is None and len(parts) < len(kind.types):
        return
    if isinstance(value, bool) and any(isinstance(part, inspect.BoolType) for part in parts):
        return
    alike = LISTS if isinstance(value, list) and value else () if isinstance(value, str) else inspect.StructType
    chosen = next((part for part in parts if isinstance(part, alike)), parts[0])
    yield from problems_at(value, key._replace(kind=chosen, words=_or(key, parts)), path)


def _or(key: Key, parts: list[inspect.Type]) -> dict[str, str]:
    """Return the ``words`` of a key; if a type in its union is bool, they also say that true and false are accepted."""
    truth = any(isinstance(part, inspect.BoolType) for part in parts)
    return {"or": "true or false", **key.words} if truth else {**key.words}


def _of_arguments(value: Any, kind: inspect.DictType, path: Path) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name in value:
            yield from problems_at(name, key_of(kind.key_type), path)
    else:
        yield Problem(
            path, value, "must be a mapping of arguments", "write for example {size: 6}, or leave the key out"
        )


def _of_named_sections(value: Any, section: type[msgspec.Struct], path: Path) -> Iterator[Problem]:
    """Yield problems of a mapping whose values are sections, in which any key may be left out."""
    keys = keys_of(section)
    if not isinstance(value, dict):
        example = f"write for example {{NAME: {{{next(iter(keys))}: ...}}}}, or leave the key out"
        yield Problem(path, value, "must be a mapping of names", example)
        return
    for name, inside in value.items():
        if isinstance(inside, dict):
            yield from _unknown_keys(inside, keys, (*path, name))
            for key in filter(inside.__contains__, keys):
                yield from problems_at(inside[key], keys[key], (*path, name, key))
        else:
            yield _no_mapping(inside, keys, (*path, name))


def _of_words(value: Any, key: Key, kind: inspect.LiteralType, path: Path) -> Iterator[Problem]:
    words = [str(word) for word in kind.values]
    if isinstance(value, str) and value in words:
        return
    closest = nearest(str(value)[:MAX_SHOWN], words)
    usual = key.default if key.default in words else words[0]
    example = f"{usual} or {key.examples[0]}" if key.examples else usual
    way_out = f"did you mean {closest}?" if closest else f"write {example}"
    rule = f"must be {' or '.join([*words, *filter(None, [key.words.get('or')])])}"
    yield Problem(path, value, rule, way_out, default_helps=not closest)


def _of_list(value: Any, key: Key, kind: inspect.Type, path: Path) -> Iterator[Problem]:
    if not isinstance(value, list):
        example = key.examples[0] if key.examples else [value] if path == ("env", "wrappers") else [64, 64]
        yield _wrong_type(path, value, key, "a list", f"write for example {example}")
        return
    whole = len(kind.item_types) if isinstance(kind, inspect.TupleType) else None
    least, most = getattr(kind, "min_length", whole), getattr(kind, "max_length", whole)
    if least is not None and len(value) < least:
        yield Problem(path, value, f"must have at least {least} items", "write a list of that length", True)
    if most is not None and len(value) > most:
        yield Problem(path, value, f"must have at most {most} items", "write a list of that length", True)
        return
    examples = tuple(key.examples[0][:1]) if key.examples else ()
    for place, (item, inside) in enumerate(zip(value, items_of(kind, len(value)), strict=False)):
        yield from problems_at(item, key_of(inside)._replace(examples=examples), (*path, place))


def _of_text(value: Any, key: Key, kind: inspect.StrType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield _wrong_type(path, value, key, "text", "write a word, quoted if it looks like a number")
        return
    # In re, $ also matches before a final newline; the patterns of JSON schema do not, so fullmatch is used.
    if kind.pattern is None or re.fullmatch(kind.pattern.removesuffix("$"), value):
        return
    if not key.examples:
        rule = key.words.get("rule", f"must match {kind.pattern}{_unit(key)}")
        yield Problem(path, value, rule, key.words.get("way_out", "write another value"))
        return
    way_out = did_you_mean(value, key.examples, f"write for example {key.examples[0]}")
    yield Problem(path, value, f"must be {', '.join(key.examples)} or {key.words['or']}", way_out)


def _of_number(value: Any, key: Key, kind: inspect.IntType | inspect.FloatType, path: Path) -> Iterator[Problem]:
    whole = isinstance(kind, inspect.IntType)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        usual = next((example for example in key.examples if isinstance(example, int)), 8)
        word, example = (
            ("an integer", f"a whole number such as {usual:_}") if whole else ("a number", "a number such as 0.5")
        )
        if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9_.]+", value):
            yield _wrong_type(path, value, key, word, "write it without quotes, thousands split as in 250_000")
        else:
            yield _wrong_type(path, value, key, word, f"write {example}")
    elif not (math.isfinite(value) and all(keeps(value, bound) for _, bound, keeps in _bounds(kind))):
        yield Problem(path, value, f"must be {interval(kind)}", "write a number in that range", True)


def interval(kind: inspect.IntType | inspect.FloatType) -> str:
    """Return the whole range of a number as text, not only the bound that was broken."""
    return " and ".join(f"{words} {number(bound)}" for words, bound, _ in _bounds(kind)) or UNBOUNDED


def _bounds(kind: inspect.IntType | inspect.FloatType) -> Iterator[tuple[str, float, Callable[[float, float], bool]]]:
    """Yield each bound of a number: its words, the bound, and the comparison that holds for allowed values."""
    for words, bound, keeps in (
        ("at least", kind.ge, operator.ge),
        ("more than", kind.gt, operator.gt),
        ("at most", kind.le, operator.le),
        ("less than", kind.lt, operator.lt),
    ):
        if bound is not None:
            yield words, bound, keeps


def _wrong_type(path: Path, value: object, key: Key, what: str, way_out: str) -> Problem:
    """Return the problem of a value of a wrong type; for null, the remedy is to write a value."""
    way_out = "write a value after the key" if value is None else way_out
    return Problem(path, value, f"must be {what}{_unit(key)}", way_out, default_helps=True)


def _unit(key: Key) -> str:
    return f" ({key.description})" if key.description else ""
