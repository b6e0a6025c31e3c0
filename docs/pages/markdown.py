"""Tables of Markdown, and keys of settings in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import inspect

from launch.topology.keys import items_of
from launch.topology.strict_yaml import typed
from launch.topology.validate import UNBOUNDED, interval

KEY_COLUMNS = ("key", "value", "default", "meaning")
_WORDS = {
    inspect.BoolType: "`true` or `false`",
    inspect.NoneType: "`null`",
    inspect.StrType: "text",
    inspect.DictType: "mapping",
    inspect.StructType: "mapping",
}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars within cells are escaped."""
    lines = [_row(columns), "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary(struct: type[msgspec.Struct]) -> str:
    """Return the first line of a struct's docstring."""
    return (struct.__doc__ or "").partition("\n")[0].replace("``", "`")


def value(value: object) -> str:
    """Write a value as it is written in a file, as code."""
    return f"`{typed(list(value) if isinstance(value, tuple) else value).strip(chr(39))}`"


def kind(described: inspect.Type) -> str:
    """Write the type of a key and its range."""
    if isinstance(described, inspect.Metadata):
        return kind(described.type)
    if isinstance(described, inspect.UnionType):
        return " or ".join(kind(part) for part in described.types)
    if isinstance(described, inspect.LiteralType):
        return ", ".join(f"`{word}`" for word in described.values)
    if isinstance(described, inspect.IntType | inspect.FloatType):
        word, within = "integer" if isinstance(described, inspect.IntType) else "number", interval(described)
        return f"{word}, {within}" if within != UNBOUNDED else word
    if items := items_of(described, 1):
        return f"list of {kind(items[0])}"
    return _WORDS.get(type(described), "")
