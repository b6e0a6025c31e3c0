"""Documents generated from the keys of a topology: the JSON schema that editors use, and the page that people read.

python -m launch.topology.page > docs/topology.md
python -m launch.topology.page --schema > launch/topology/topology.schema.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.envs.specs import ENVIRONMENTS, FINER
from actorlearn.registry import CODE
from launch.topology import defaults
from launch.topology.keys import BASES, CHOSEN, Key, items_of, keys_of, structs_of
from launch.topology.schema import TOPOLOGY
from launch.topology.strict_yaml import number, show
from launch.topology.validate import UNBOUNDED, interval

SCHEMA_FILE = Path(__file__).with_name("topology.schema.json")
HEAD = """# Topology reference

This page lists all keys of a topology. It is generated from the settings by
`python -m launch.topology.page > docs/topology.md`.

A topology is one YAML file. Only `env.id` is required. Two defaults, a / b, mean: a for Atari games (ids that start
with `ALE/` or `envpool:ALE/`) and b for all other environments. These are the defaults with the algorithm a2c; the last
section lists the defaults of the other algorithms. Steps are agent steps.

You can change every key on the command line with `section.key=value`. `section={key: value, …}` replaces the whole
section. `@FILE` reads changes from a file, one per line. The command line has precedence over the file:

* If you choose another algorithm, network, optimizer, kind of environment or mode, some keys of the file are no longer
  read. They are ignored, and `check`, `run` and `top` list them with the reason.
* Keys that both choices read keep the value of the file. For example, `algorithm.name=ppo` on a file for A2C keeps its
  `horizon`. To use all defaults of PPO, replace the section: `algorithm={name: ppo}`.
* A key on the command line that nothing reads is an error. A key in the file that the file's own choice does not read
  is an error too.
"""
KINDS = tuple({spec.like: spec.example for spec in reversed(ENVIRONMENTS.specs())}.values())[::-1]
"""An environment of each kind with defaults of its own: they are listed for all of these."""
_EACH = " / ".join(str(ENVIRONMENTS.of(env_id).environments) for env_id in KINDS)
FOLLOWS = {
    "name": "environment and algorithm",
    "env.id": "required",
    "simulators.count": "from the machine's cores",
    "simulators.envs": f"{_EACH} in all simulators together",
    "inference.count": "`0` with device cpu, else `1`",
    "trainer.threads": "from the machine's cores / `1`",
}
"""Defaults that follow from other keys or from the machine."""
WORDS = {
    inspect.BoolType: "`true` or `false`",
    inspect.NoneType: "`null`",
    inspect.StrType: "text",
    inspect.DictType: "mapping",
    inspect.StructType: "mapping",
}
_GROUPED_DIGITS = r"^[-+]?[1-9][0-9]{0,2}(_[0-9]{3})+$"
_REFERENCE = "#/$defs/{name}"


def schema_text() -> str:
    """Return the text of the shipped schema file."""
    return write_schema(json_schema())


def write_schema(schema: dict[str, Any]) -> str:
    """Return a JSON schema as it is shipped."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a topology file as users write it: defaults may be left out, digits may be grouped."""
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
    loosen([*defined.values(), *properties.values()])
    for environment in (defined[f"env-{kind}"] for kind in structs_of("env")):
        del environment["properties"]["kind"]  # which follows from the id
        environment["required"] = ["id"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": defined,
        "title": "actorlearn topology",
        "description": TOPOLOGY.__doc__,
        "type": "object",
        "properties": properties,
        "required": ["env"],
        "additionalProperties": False,
    }


def page() -> str:
    """Return the text of the page: every key with its type and range, its default and what it means."""
    topology = keys_of(TOPOLOGY)
    lines = [HEAD, *_table("", {name: key for name, key in topology.items() if not key.section})]
    for name, key in topology.items():
        if key.section:
            section = BASES[name] if name in CHOSEN else key.section
            lines += ["", f"## {name}", "", (section.__doc__ or "").partition("\n")[0].replace("``", "`")]
            lines += ["", *_table(name, keys_of(section))]
        if name in CHOSEN:
            for readers, keys in _of_some(name).items():
                lines += ["", f"### {name}: {', '.join(readers)}", "", *_table(name, keys, readers[0])]
    return "\n".join([*lines, "", *_of_algorithms()]) + "\n"


def _scalars() -> type[msgspec.Struct]:
    """A struct of the keys that stand in no section."""
    fields = [field for field in msgspec.structs.fields(TOPOLOGY) if not keys_of(TOPOLOGY)[field.name].section]
    return msgspec.defstruct("Scalars", [(field.name, field.type, field.default) for field in fields], kw_only=True)


def _defined(struct: type[msgspec.Struct], defined: dict[str, Any]) -> dict[str, Any]:
    """The schema of a section, in which any key may be left out; those of structs in it are added to ``defined``."""
    inside = msgspec.json.schema_components([struct], ref_template=_REFERENCE)[1]
    own: dict[str, Any] = inside.pop(struct.__name__)
    own.pop("required", None)
    defined |= inside
    return own


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=name)}


def _strangers() -> dict[str, Any]:
    """The schema of a section that names code, whose keys are not known here."""
    named = {"type": "string", "pattern": f"^{CODE.pattern}$"}
    return {"type": "object", "properties": {"name": named}, "required": ["name"]}


def loosen(node: Any) -> None:
    """Drop generated titles; let integers be written 250_000, which YAML 1.2 editors read as text."""
    if isinstance(node, list):
        for item in node:
            loosen(item)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("title"), str):
        del node["title"]
    if node.get("type") == "integer" and "const" not in node:
        node |= {"type": ["integer", "string"], "pattern": _GROUPED_DIGITS}
    for child in node.values():
        loosen(child)


def _of_some(name: str) -> dict[tuple[str, ...], dict[str, Key]]:
    """Return the keys of a section that only some choices have: choices -> name -> key."""
    structs, shared = structs_of(name), keys_of(BASES[name])
    found: dict[tuple[str, ...], dict[str, Key]] = {}
    for name, key in ((name, key) for struct in structs.values() for name, key in keys_of(struct).items()):
        if name not in shared:
            readers = tuple(chosen for chosen, struct in structs.items() if _alike(keys_of(struct).get(name), key))
            found.setdefault(readers, {})[name] = key
    return found


def _alike(one: Key | None, other: Key) -> bool:
    """Whether two keys take the same values and mean the same, whatever their defaults."""
    return one is not None and (one.kind, one.description) == (other.kind, other.description)


def _table(section: str, keys: dict[str, Key], chosen: str = "") -> Iterator[str]:
    """Yield the rows of a table of keys; defaults are those of the chosen algorithm, optimizer or network."""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, key in keys.items():
        dotted = f"{section}.{name}".strip(".")
        value, default, meaning = write_kind(key.kind), _default(section, name, chosen), key.description
        yield f"| `{dotted}` | {' | '.join(cell.replace('|', '/') for cell in (value, default, meaning))} |"


def _default(section: str, name: str, chosen: str) -> str:
    """Return a key's default for each kind of environments, as a / b."""
    if where := FOLLOWS.get(f"{section}.{name}".strip(".")):
        return where
    found = []
    for env_id in (ENVIRONMENTS.spec(chosen).example,) if section == "env" and chosen else KINDS:
        raw: dict[str, Any] = {"env": {"id": env_id}, "algorithm": {}}
        raw.setdefault(section if section in CHOSEN else "algorithm", {})
        if chosen and section != "env":
            raw[section]["name"] = chosen
        elif section == "replay":
            raw["algorithm"]["name"] = "dqn"
        tree = defaults.resolve(raw)
        tree = tree.get(section, {}) if section else tree
        found += [write_value(tree[name])] if name in tree else []
    return " / ".join(dict.fromkeys(found))


def write_value(value: object) -> str:
    """Write a value as code, as it is written in a file."""
    shown = (
        number(value) if isinstance(value, int | float) else show(list(value) if isinstance(value, tuple) else value)
    )
    return f"`{shown.strip(chr(39))}`"


def write_kind(kind: inspect.Type) -> str:
    """A type and its range, for people."""
    if isinstance(kind, inspect.Metadata):
        return write_kind(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(write_kind(part) for part in kind.types)
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(f"`{word}`" for word in kind.values)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        word, within = "integer" if isinstance(kind, inspect.IntType) else "number", interval(kind)
        return f"{word}, {within}" if within != UNBOUNDED else word
    if items := items_of(kind, 1):
        return f"list of {write_kind(items[0])}"
    return WORDS.get(type(kind), "")


def _of_algorithms() -> Iterator[str]:
    """Yield the table of defaults by algorithm, of all sections."""
    yield "## Defaults by algorithm"
    yield ""
    yield "This table lists the defaults of each algorithm that differ from the key's own default. The kind is atari"
    yield "for ids that start with `ALE/`, continuous for other environments with Box actions, and vector for the rest."
    yield "If the default of a missing key depends on this, the environment is created once to find out its actions."
    yield "For keys that a line of continuous does not list, the line of vector applies."
    yield ""
    yield "| algorithm | kind | defaults |"
    yield "|---|---|---|"
    for spec in ALGORITHMS.specs():
        for kind in (*(ENVIRONMENTS.of(env_id).like for env_id in KINDS), *FINER):
            wanted = {f"{s}.{k}": v for s, keys in spec.defaults.get(kind, {}).items() for k, v in keys.items()}
            numbers = {
                f"{k} ({optimizer})": v
                for optimizer, keys in spec.optimizers.get(kind, {}).items()
                for k, v in keys.items()
            }
            said = ", ".join(f"{key} {write_value(value)}" for key, value in (wanted | numbers).items())
            if said or kind not in FINER:
                yield f"| {spec.name} | {kind} | {said} |"


if __name__ == "__main__":
    print(schema_text() if sys.argv[1:] == ["--schema"] else page(), end="")
