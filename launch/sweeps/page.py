"""Documents generated from the keys of a sweep file: the JSON schema that editors use, and the page that people read.

python -m launch.sweeps.page > docs/sweep-file.md
python -m launch.sweeps.page --schema > launch/sweeps/sweep.schema.json
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT

from launch.sweeps.axes import DIGITS
from launch.sweeps.file import RANGE, SCALES
from launch.sweeps.keys import OWN, SECTIONS, SweepKeys
from launch.topology.keys import keys_of
from launch.topology.page import loosen, write_kind, write_schema, write_value

SCHEMA_FILE = Path(__file__).with_name("sweep.schema.json")
HEAD = f"""# Sweep file reference

This page lists all keys of a sweep file. [Sweeps](sweeps.md) describes their use. The page is generated from the
settings by `python -m launch.sweeps.page > docs/sweep-file.md`.

A sweep is one YAML file. A key that nothing reads is an error, and so is a value that the topology does not allow. Only
`topology` is required. The name of the file is the name of the sweep. `overrides` and `vary` contain dotted keys of the
[topology](topology.md), except {", ".join(f"`{key}`" for key in OWN)}, which the sweep sets itself. Numbers that are
drawn from a range are rounded to {DIGITS} significant digits.
"""


def schema_text() -> str:
    """Return the text of the shipped schema file."""
    return write_schema(json_schema())


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a sweep file as users write it: defaults may be left out, digits may be grouped."""
    (_,), defined = msgspec.json.schema_components([SweepKeys], ref_template="#/$defs/{name}")
    own = defined.pop(SweepKeys.__name__)
    number = {"type": "number"}
    span = {
        "type": "object",
        "properties": {RANGE[0]: dict(number), RANGE[1]: dict(number), RANGE[2]: {"enum": [*SCALES]}},
        "required": [*RANGE[:2]],
        "additionalProperties": False,
    }
    own["properties"]["vary"]["additionalProperties"] = {"anyOf": [{"type": "array", "minItems": 1}, span]}
    loosen([*defined.values(), *own["properties"].values()])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": defined,
        "title": "actorlearn sweep",
        "description": SweepKeys.__doc__,
        "type": "object",
        "properties": own["properties"],
        "required": ["topology"],
        "additionalProperties": False,
    }


def page() -> str:
    """Return the text of the page: every key with its type and range, its default and what it means."""
    lines = [HEAD, *_table("", SweepKeys)]
    goal = keys_of(SweepKeys)["goal"].section
    assert goal is not None
    lines += ["", "## goal", "", *_about(goal), *_table("goal", goal)]
    for section, structs in SECTIONS.items():
        for name, struct in structs.items():
            lines += ["", f"## {section}: {name}", "", *_about(struct), *_table(section, struct)]
    return "\n".join(lines) + "\n"


def _about(struct: type[msgspec.Struct]) -> list[str]:
    return [(struct.__doc__ or "").partition("\n")[0].replace("``", "`"), ""]


def _table(section: str, struct: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the rows of a table of keys."""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, key in keys_of(struct).items():
        kind = f"`{struct.__struct_config__.tag}`" if name == "name" else write_kind(key.kind)
        if key.section:
            kind = "mapping, see below"
        default = "" if key.default is NODEFAULT else _default(key.default)
        meaning = key.description or (
            "the number by which trials are compared" if name == "goal" else "name of the method"
        )
        yield f"| `{f'{section}.{name}'.strip('.')}` | {' | '.join(_cell(text) for text in (kind, default, meaning))} |"


def _default(value: Any) -> str:
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return f"`{{{', '.join(f'{key}: {each}' for key, each in plain.items())}}}`"
    return write_value(plain)


def _cell(text: str) -> str:
    return text.replace("|", "/")


if __name__ == "__main__":
    print(schema_text() if sys.argv[1:] == ["--schema"] else page(), end="")
