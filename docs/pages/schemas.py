"""JSON schemas of topology and sweep files, for editors; the wheel has the generated files."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from actorlearn.registry import CODE
from launch.sweeps.file import RANGE, SCALES
from launch.sweeps.keys import SweepKeys
from launch.topology.keys import CHOSEN, keys_of, structs_of
from launch.topology.schema import TOPOLOGY

TOPOLOGY_FILE = "launch/topology/topology.schema.json"
SWEEP_FILE = "launch/sweeps/sweep.schema.json"
_GROUPED_DIGITS = r"^[-+]?[1-9][0-9]{0,2}(_[0-9]{3})+$"
_REFERENCE = "#/$defs/{name}"


def topology_schema_text() -> str:
    """Return the text of the topology's schema file."""
    return json.dumps(topology_schema(), indent=2, sort_keys=True) + "\n"


def sweep_schema_text() -> str:
    """Return the text of the sweep's schema file."""
    return json.dumps(sweep_schema(), indent=2, sort_keys=True) + "\n"


def topology_schema() -> dict[str, Any]:
    """Return the schema of a topology file as users write it: defaults may be left out, digits may be grouped."""
    defined: dict[str, Any] = {}
    properties: dict[str, Any] = msgspec.json.schema(_scalars())["$defs"]["Scalars"]["properties"]
    for name, key in keys_of(TOPOLOGY).items():
        if name in CHOSEN:
            structs = structs_of(name)
            names = [f"{name}-{chosen}" for chosen in structs]
            defined |= dict(zip(names, (_defined(struct, defined) for struct in structs.values()), strict=True))
            properties[name] = {"anyOf": [*map(_reference, names), *([] if name == "env" else [_strangers()])]}
        elif key.section:
            defined[name] = _defined(key.section, defined)
            properties[name] = _reference(name)
    properties["roles"]["additionalProperties"] = {"type": "object"}  # whose keys are not known here
    schema = _schema(TOPOLOGY, "topology", defined, properties, "env")
    for environment in (defined[f"env-{kind}"] for kind in structs_of("env")):
        del environment["properties"]["kind"]  # which follows from the id
        environment["required"] = ["id"]
    return schema


def sweep_schema() -> dict[str, Any]:
    """Return the schema of a sweep file as users write it: defaults may be left out, digits may be grouped."""
    (_,), defined = msgspec.json.schema_components([SweepKeys], ref_template=_REFERENCE)
    properties = defined.pop(SweepKeys.__name__)["properties"]
    number = {"type": "number"}
    span = {
        "type": "object",
        "properties": {RANGE[0]: dict(number), RANGE[1]: dict(number), RANGE[2]: {"enum": [*SCALES]}},
        "required": [*RANGE[:2]],
        "additionalProperties": False,
    }
    properties["vary"]["additionalProperties"] = {"anyOf": [{"type": "array", "minItems": 1}, span]}
    return _schema(SweepKeys, "sweep", defined, properties, "topology")


def _schema(
    struct: type[msgspec.Struct], what: str, defined: dict[str, Any], properties: dict[str, Any], required: str
) -> dict[str, Any]:
    _loosen([*defined.values(), *properties.values()])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": defined,
        "title": f"actorlearn {what}",
        "description": struct.__doc__,
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


def _scalars() -> type[msgspec.Struct]:
    """Return a struct of the keys that stand in no section."""
    fields = [field for field in msgspec.structs.fields(TOPOLOGY) if not keys_of(TOPOLOGY)[field.name].section]
    return msgspec.defstruct("Scalars", [(field.name, field.type, field.default) for field in fields], kw_only=True)


def _defined(struct: type[msgspec.Struct], defined: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a section, all keys optional; those of structs in it are added to ``defined``."""
    inside = msgspec.json.schema_components([struct], ref_template=_REFERENCE)[1]
    own: dict[str, Any] = inside.pop(struct.__name__)
    own.pop("required", None)
    defined |= inside
    return own


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=name)}


def _strangers() -> dict[str, Any]:
    """Return the schema of a section that names code, whose keys are not known here."""
    named = {"type": "string", "pattern": f"^{CODE.pattern}$"}
    return {"type": "object", "properties": {"name": named}, "required": ["name"]}


def _loosen(node: Any) -> None:
    """Drop generated titles; let integers be written 250_000, which YAML 1.2 editors read as text."""
    if isinstance(node, list):
        for item in node:
            _loosen(item)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("title"), str):
        del node["title"]
    if node.get("type") == "integer" and "const" not in node:
        node |= {"type": ["integer", "string"], "pattern": _GROUPED_DIGITS}
    for child in node.values():
        _loosen(child)
