"""The keys of a topology as msgspec describes them: type, range and meaning of the key at a path.

Reads the structs of ``schema.py``. In some sections the keys depend on a choice, such as the name of the algorithm:
their structs come from the registries. A name such as package.module:Name is imported, so it must be trusted like code.

A *raw topology* is the nested mapping that a file contains, before its sections are converted to structs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import NODEFAULT, inspect

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS
from actorlearn.models.specs import MODELS
from actorlearn.optim.specs import OPTIMIZERS
from actorlearn.registry import Registry
from actorlearn.worker.roles import ROLES
from launch.topology.schema import TOPOLOGY
from launch.topology.strict_yaml import Path

Struct = type[msgspec.Struct]

CHOSEN: Mapping[str, Registry[Any]] = {
    "env": ENVIRONMENTS,
    "model": MODELS,
    "algorithm": ALGORITHMS,
    "optimizer": OPTIMIZERS,
}
"""Sections whose keys depend on a choice -> the registry of the choices."""
BASES: Mapping[str, Struct] = {
    field.name: field.type for field in msgspec.structs.fields(TOPOLOGY) if field.name in CHOSEN
}
"""Section -> struct of the keys that all its choices have in common."""


def choice_key(name: str) -> str:
    """Return the key that makes the choice in a section of CHOSEN, such as ``name`` in ``algorithm``."""
    return "id" if name == "env" else "name"


class Key(NamedTuple):
    """The type and the description of a key of a topology, or of an item of a list."""

    kind: inspect.Type
    """Type of the key's value, without annotations."""
    description: str = ""
    """Meaning and unit of the value."""
    examples: tuple[Any, ...] = ()
    words: Mapping[str, str] = {}
    """Parts of error messages: a pattern's "rule" and "way_out" (remedy); "or": values besides ``examples``."""
    default: Any = NODEFAULT

    @property
    def section(self) -> Struct | None:
        """The struct of the section under this key; None if the key has a single value."""
        parts = self.kind.types if isinstance(self.kind, inspect.UnionType) else (self.kind,)
        return next((part.cls for part in parts if isinstance(part, inspect.StructType)), None)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping: a section, or keyword arguments of user code."""
        return self.section is not None or isinstance(self.kind, inspect.DictType)


_TOPOLOGY = Key(inspect.StructType(TOPOLOGY, ()))  # no fields here: ``keys_of`` reads them from the struct


@cache
def keys_of(section: Struct) -> dict[str, Key]:
    """Return the keys of a section in their order; the key ``name`` comes first if the section has it."""
    described = inspect.type_info(section)
    assert isinstance(described, inspect.StructType)
    found = {}
    for field in described.fields:
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        found[field.encode_name] = key_of(field.type)._replace(default=default)
    if described.tag_field != "name":
        return found
    names = next((CHOSEN[name].names() for name, base in BASES.items() if issubclass(section, base)), None)
    if names is None:  # a choice among structs that plug-ins cannot extend
        return {"name": Key(inspect.LiteralType((described.tag,)))} | found
    return {"name": Key(inspect.StrType(), f"{', '.join(names)} or package.module:Name")} | found


def structs_of(name: str) -> dict[str, Struct]:
    """Return the struct of settings for each choice of a section of CHOSEN, such as each algorithm, by its name."""
    return {spec.name: spec.settings for spec in CHOSEN[name].specs()}


def struct_at(name: str, tree: Mapping[str, Any]) -> Struct:
    """Return the struct of a section of a raw topology; raises ValueError if its choice cannot be found."""
    if name not in CHOSEN:
        static = keys_of(TOPOLOGY)[name].section
        assert static is not None
        return static
    section = tree.get(name)
    choice = str(section.get(choice_key(name), "")) if isinstance(section, Mapping) else ""
    found: Struct = (ENVIRONMENTS.of(choice) if name == "env" else CHOSEN[name].spec(choice)).settings
    return found


def section_of_role(name: str) -> Struct:
    """Return the struct of a plug-in role's keys, under ``roles``; raises ValueError with the reason if it has none."""
    if name not in ROLES.names():
        known = ", ".join(role.name for role in ROLES.specs() if role.section) or "none"
        raise ValueError(f"no installed package has a role of this name; the roles are {known}")
    section = ROLES.spec(name).section
    if section is None:
        raise ValueError("this role is built in; write its keys in its own section of the topology")
    return section


def learns_from_replay(tree: Mapping[str, Any]) -> bool:
    """Whether the algorithm of a raw topology learns from a replay; True if the algorithm cannot be found."""
    section = tree.get("algorithm")
    try:
        return ALGORITHMS.spec(str(section["name"] if isinstance(section, dict) else "")).replayed
    except (ValueError, KeyError):
        return True


def with_integers(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a raw topology in which keys that take integers but no floats have 1_000_000 instead of 1e6."""
    made = dict(tree)
    for name, value in made.items():
        if name in CHOSEN and isinstance(value, dict):
            structs = [*structs_of(name).values()]
            with suppress(ValueError):  # its choice does not exist, which validation reports
                structs = [struct_at(name, tree)] if choice_key(name) in value else structs
            keys = {inner: key for struct in structs for inner, key in keys_of(struct).items()}
            made[name] = integers_in(value, keys)
        elif name == "roles" and isinstance(value, dict):
            made[name] = {role: _integers(keys, _kind_of_role(role)) for role, keys in value.items()}
        elif key := keys_of(TOPOLOGY).get(name):
            made[name] = _integers(value, key.kind)
    return made


def integers_in(section: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Do as ``with_integers`` with one section; ``keys``: all keys that it may have."""
    return {name: _integers(value, keys[name].kind) if name in keys else value for name, value in section.items()}


def _integers(value: Any, kind: inspect.Type | None) -> Any:
    parts = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if isinstance(value, float):
        types = {type(part) for part in parts}
        whole = value.is_integer() and inspect.IntType in types and inspect.FloatType not in types
        return int(value) if whole else value
    for part in parts:
        if isinstance(value, list) and part and (items := items_of(part, len(value))):
            return [_integers(item, key_of(of).kind) for item, of in zip(value, items, strict=False)] + value[
                len(items) :
            ]
        if isinstance(value, dict) and isinstance(part, inspect.StructType):
            return integers_in(value, keys_of(part.cls))
        if isinstance(value, dict) and isinstance(part, inspect.DictType):
            return {name: _integers(item, key_of(part.value_type).kind) for name, item in value.items()}
    return value


def _kind_of_role(role: str) -> inspect.Type | None:
    try:
        return inspect.type_info(section_of_role(role))
    except ValueError:  # validation reports it
        return None


def key_of(kind: inspect.Type) -> Key:
    """Return the key that an annotated type describes; the first annotated type of a union describes the union."""
    if isinstance(kind, inspect.Metadata):
        schema, inner = kind.extra_json_schema or {}, key_of(kind.type)
        return Key(
            inner.kind,
            schema.get("description", inner.description),
            tuple(schema.get("examples", inner.examples)),
            kind.extra or inner.words,
        )
    if isinstance(kind, inspect.UnionType):
        found = [key_of(part) for part in kind.types]
        described = next((key for key in found if key.description or key.words), Key(kind))
        return described._replace(kind=inspect.UnionType(tuple(key.kind for key in found)))
    return Key(kind)


def key_at(path: Path) -> Key | None:
    """Return the key at a path in any topology, including items of lists; None if there is no such key."""
    found: Key | None = _TOPOLOGY
    for depth, part in enumerate(path):
        if depth == 1 and path[0] in CHOSEN:
            found = next((keys_of(s)[str(part)] for s in structs_of(str(path[0])).values() if part in keys_of(s)), None)
        else:
            found = _below(found, part) if found else None
    return found


def leaves() -> Iterator[str]:
    """Yield every dotted key that a topology may have."""
    for name, key in keys_of(TOPOLOGY).items():
        structs = structs_of(name).values() if name in CHOSEN else [key.section] if key.section else []
        inside = dict.fromkeys(inner for struct in structs for inner in keys_of(struct))
        yield from (f"{name}.{inner}" for inner in inside) if inside else [name]


def _below(key: Key, part: str | int) -> Key | None:
    if isinstance(part, str) and isinstance(key.kind, inspect.DictType):
        return key_of(key.kind.value_type)
    if isinstance(part, str):
        return keys_of(key.section).get(part) if key.section else None
    parts = key.kind.types if isinstance(key.kind, inspect.UnionType) else (key.kind,)
    return next((key_of(item) for kind in parts for item in items_of(kind, part + 1)[part : part + 1]), None)


def items_of(kind: inspect.Type, count: int) -> list[inspect.Type]:
    """Return the type of each item of a list with ``count`` items, or of a tuple; empty for other types."""
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return [kind.item_type] * count
    return list(kind.item_types) if isinstance(kind, inspect.TupleType) else []
