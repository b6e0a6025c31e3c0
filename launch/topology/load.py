"""The topology: one YAML file that says which processes run, where, with which numbers.

Reads a file or text and dotted overrides (``simulators.count=4``); writes a resolved topology back as YAML. Fills
defaults in (``defaults.py``), checks every value (``validate.py``) and what ties them together (``rules.py``).
Every refusal is one TopologyError on one line. Refuses to know processes, devices and files other than the topology.
"""

from __future__ import annotations

import copy
import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import msgspec

from launch.topology import defaults, rules, strict_yaml
from launch.topology.keys import CHOSEN, key_at, keys_of
from launch.topology.messages import Origin, explain
from launch.topology.schema import Topology
from launch.topology.strict_yaml import Path, TopologyError, fault, number, show
from launch.topology.validate import Problem, dotted, problems, settings, unknown_key

__all__ = ["Topology", "TopologyError", "dump", "load", "parse", "tree"]

COMMAND_LINE = "command line"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def load(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Topology:
    """Read a topology file and apply ``key=value`` overrides, or ``@file`` with one a line; raises TopologyError."""
    return parse(_read(os.fspath(path)), expand(overrides), os.fspath(path))


def expand(overrides: Sequence[str]) -> list[str]:
    """The overrides, with those of every ``@file`` in its place."""
    return [line for override in overrides for line in _lines_of(override)]


def parse(text: str | bytes, overrides: Sequence[str] = (), source: str = "topology") -> Topology:
    """Read a topology from text; ``source`` is what errors call it. Raises TopologyError."""
    document = strict_yaml.read(text, source)
    raw = {} if document.value is None else document.value
    origins = {path: Origin(source, line) for path, line in document.lines.items()} | {(): Origin(source, 1)}
    if not isinstance(raw, dict):
        raise fault(f"{source}:1", show(raw), "a topology is a mapping of keys", "start with 'env: {id: ALE/Pong-v5}'")
    for override in overrides:
        _apply(override, raw, origins)
    resolved = defaults.resolve(raw)
    if found := [*problems(resolved)]:
        raise explain(found, origins, _defaults_alone(raw, found))
    values, found = settings(resolved)
    if not found:
        made = Topology(**values)
        found = [*rules.broken(made)]
    if found:
        raise explain(found, origins, _defaults_alone(raw, found))
    left = (f"{section}.{key}" for section, key in defaults.BY_CORES if key not in defaults.section(raw, section))
    made.__dict__["left_to_cores"] = frozenset(left)
    return made


def tree(topology: Topology) -> dict[str, Any]:
    """Every key that a topology has and its value, as plain as they are read from a file."""
    plain: dict[str, Any] = _plain(msgspec.to_builtins(topology))
    del plain["env"]["kind"]  # which follows from the id
    if plain["replay"] is None:
        del plain["replay"]
    return plain


def dump(topology: Topology) -> str:
    """Write a topology as YAML, every key with its unit; ``parse(dump(t)) == t``."""
    lines = ["# A resolved topology: every key, defaults included. Steps are agent steps."]
    values = tree(topology)
    for name, key in keys_of(Topology).items():
        section = getattr(topology, name)
        if isinstance(section, msgspec.Struct):
            inside = keys_of(type(section)).items()
            lines += ["", f"{name}:", *(_entry(f"  {k}", values[name][k], inner.description) for k, inner in inside)]
        elif not key.section:
            lines.append(_entry(name, values[name], key.description))
    return "\n".join(lines) + "\n"


def _lines_of(override: str) -> list[str]:
    """The override itself, or those of the file that ``@file`` names; lines that start with # are comments."""
    if not override.startswith("@"):
        return [override]
    lines = [line.strip() for line in _read(override[1:]).decode(errors="replace").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _read(path: str) -> bytes:
    """Read a regular file, no more than a topology may have; never waits on a pipe or device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        rule = "topologies, and files of overrides (@FILE), are readable files"
        raise fault(path, str(reason), rule, f"check the path; examples are in {examples()}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            rule = "a topology is a regular file of YAML"
            raise fault(path, "a folder, pipe or device", rule, "name the file, for example configs/pong.yaml")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(strict_yaml.MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def examples() -> FilePath:
    """The folder of shipped topologies: in a checkout, or where a wheel put it."""
    checkout = FilePath(__file__).resolve().parents[2] / "configs"
    return checkout if checkout.is_dir() else FilePath(sys.prefix) / "share" / "actorlearn" / "configs"


def _apply(override: str, raw: dict[str, Any], origins: dict[Path, Origin]) -> None:
    """Set one ``section.key=value`` in the raw mapping."""
    dotted_key, equals, text = override.partition("=")
    path: Path = tuple(dotted_key.strip().split("."))
    if not equals or "" in path:
        raise fault(COMMAND_LINE, show(override), "an override is key=value", "write for example simulators.count=4")
    for end in range(1, min(2, len(path)) + 1):
        known = key_at(path[:end])
        if known is None and end == 2 and path[0] in CHOSEN:  # a stranger's may have it
            break
        if known is None:
            section = Topology if end == 1 else keys_of(Topology)[str(path[0])].section
            siblings = keys_of(section) if section else ()
            raise fault(COMMAND_LINE, show(override), *unknown_key(path[:end], siblings))
        if len(path) > end and not known.is_mapping:
            rule = f"{dotted(path[:-1])} is one value, not a section"
            raise fault(COMMAND_LINE, show(override), rule, f"write {dotted(path[:-1])}=VALUE")
    where = f"{COMMAND_LINE}, {show(override)}"
    value = strict_yaml.read(text, where).value
    target = raw
    for depth, part in enumerate(path[:-1], start=1):
        target = target.setdefault(str(part), {})
        if not isinstance(target, dict) and depth <= 2:  # a broken section of the file: reported there
            return
        if not isinstance(target, dict):
            rule = f"{dotted(path[:depth])} is {show(target)}, no mapping"
            raise fault(COMMAND_LINE, show(override), rule, f"write {dotted(path[:depth])}={{...}}")
    target[str(path[-1])] = value
    stale = [found for found in origins if found[: len(path)] == path]
    for found in stale:
        del origins[found]
    origins[path] = Origin(COMMAND_LINE, over=bool(stale))


def _defaults_alone(raw: dict[str, Any], found: Sequence[Problem]) -> dict[str, Any]:
    """Return what the refused keys would be if they were left out."""
    remaining = copy.deepcopy(raw)
    for path, *_ in found:
        section: Any = remaining
        for part in path[:1] if len(path) > 1 else ():
            section = section.get(part)
        if isinstance(section, dict) and path:
            section.pop(path[min(1, len(path) - 1)], None)
    return defaults.resolve(remaining)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _entry(key: str, value: object, unit: str | None) -> str:
    entry = f"{key}: {_literal(value)}"
    return f"{entry:<40}  # {unit}" if unit else entry


def _literal(value: object) -> str:
    """Write one value so that strict YAML reads the same value back."""
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return number(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and strict_yaml.read(text, "value").value == text:
        return text
    return '"' + "".join(f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else json.dumps(c)[1:-1] for c in text) + '"'
