"""The keys of a topology as msgspec describes them: what a path names, which type, range and meaning it has.

Pure. Reads the structs of ``schema.py`` and of the owners they are put together from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, inspect

from launch.topology.schema import Topology
from launch.topology.strict_yaml import Path

Struct = type[msgspec.Struct]


class Key(NamedTuple):
    """One key of a section, or what a list's items are."""

    kind: inspect.Type
    """Without annotations."""
    description: str = ""
    """What it means, and its unit."""
    examples: tuple[Any, ...] = ()
    words: Mapping[str, str] = {}
    """What errors say: "rule" and "way_out" of a pattern, "or" of what else it may be."""
    default: Any = NODEFAULT

    @property
    def section(self) -> Struct | None:
        """The struct of its keys; None of a value."""
        return self.kind.cls if isinstance(self.kind, inspect.StructType) else None

    @property
    def is_mapping(self) -> bool:
        """Say whether keys stand below it: those of a section, or arguments of somebody else's code."""
        return isinstance(self.kind, inspect.StructType | inspect.DictType)


_TOPOLOGY = Key(inspect.type_info(Topology))


@cache
def keys_of(section: Struct) -> dict[str, Key]:
    """The keys of a section, in their order."""
    described, hints = inspect.type_info(section), get_type_hints(section, include_extras=True)
    assert isinstance(described, inspect.StructType)
    found = {field.encode_name: told(field.type)._replace(default=_default(field)) for field in described.fields}
    return {name: key._replace(kind=_in_order(key.kind, hints[name])) for name, key in found.items()}


def told(kind: inspect.Type) -> Key:
    """What a type's annotations say; those of a key that may be null stand on what else it may be."""
    if isinstance(kind, inspect.Metadata):
        schema, inner = kind.extra_json_schema or {}, told(kind.type)
        return Key(
            inner.kind,
            schema.get("description", inner.description),
            tuple(schema.get("examples", inner.examples)),
            kind.extra or inner.words,
        )
    if isinstance(kind, inspect.UnionType):
        found = [told(part) for part in kind.types]
        described = next((key for key in found if key.description), Key(kind))
        return described._replace(kind=inspect.UnionType(tuple(key.kind for key in found)))
    return Key(kind)


def key_at(path: Path) -> Key | None:
    """What a path names, items of lists included; None where nothing is known of it."""
    found: Key | None = _TOPOLOGY
    for part in path:
        found = _below(found, part) if found else None
    return found


def leaves() -> Iterator[str]:
    """Every dotted key of a topology."""
    for name, key in keys_of(Topology).items():
        yield from (f"{name}.{inner}" for inner in keys_of(key.section)) if key.section else [name]


def _below(key: Key, part: str | int) -> Key | None:
    if isinstance(part, str):
        return keys_of(key.section).get(part) if key.section else None
    parts = key.kind.types if isinstance(key.kind, inspect.UnionType) else (key.kind,)
    listed = next((kind for kind in parts if isinstance(kind, inspect.ListType)), None)
    return told(listed.item_type) if listed else None


def _in_order(kind: inspect.Type, hint: Any) -> inspect.Type:
    """The type with its words in the order in which they are written; msgspec sorts them."""
    if isinstance(kind, inspect.LiteralType):
        return inspect.LiteralType(_words(hint))
    if isinstance(kind, inspect.UnionType):
        return inspect.UnionType(tuple(_in_order(part, hint) for part in kind.types))
    return kind


def _words(hint: Any) -> tuple[str, ...]:
    """The words of the one Literal in an annotation."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((words for part in get_args(hint) if (words := _words(part))), ())


def _default(field: inspect.Field) -> Any:
    made = field.default_factory
    return field.default if made is NODEFAULT else made()
