"""The topology: one YAML file that defines the processes of a run, their placement and all their settings.

Reads a file or text and dotted overrides (``simulators.count=4``), and writes a resolved topology as YAML. It fills in
defaults (``defaults.py``), checks every value (``validate.py``) and the rules between keys (``rules.py``). Every error
is a TopologyError. This module starts no process of the run and does not look at devices.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from actorlearn.parameters.modes import MODES
from launch.topology import defaults, rules, sources, spaces, strict_yaml
from launch.topology.keys import keys_of
from launch.topology.overrides import Override, apply, expand, keep_proportions, leave_out_unread, placed
from launch.topology.schema import TOPOLOGY, Topology
from launch.topology.strict_yaml import Origin, TopologyError, number
from launch.topology.validate import Problem, explain, origin, problems, settings

__all__ = [
    "Topology",
    "TopologyError",
    "as_text",
    "by_key",
    "dump",
    "in_all",
    "literal",
    "load",
    "parse",
    "plain",
    "sizes",
    "tree",
    "with_defaults",
    "written_tree",
]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def load(path: str | os.PathLike[str], overrides: Sequence[str | Override] = ()) -> Topology:
    """Read a topology file and apply overrides; raises TopologyError.

    An override is ``section.key=value``, or ``@file`` for a file with one override a line. If defaults depend on the
    environment's actions and observations, the environment is made once in a child process.
    """
    return parse(sources.read(os.fspath(path)), expand(overrides), os.fspath(path), spaces.ask)


def parse(
    text: str | bytes,
    overrides: Sequence[str | Override] = (),
    source: str = "topology",
    ask: defaults.Ask = defaults.unasked,
) -> Topology:
    """Read a topology from text; ``source`` is its name in errors. Raises TopologyError.

    ``ask`` may make the environment, to find the properties of its spaces. Modules that the text names
    (``package.module:Name``) are imported, so it must be trusted like code.
    """
    raw, origins = strict_yaml.read_mapping(text, source)
    file = copy.deepcopy(raw)
    given = placed(overrides)
    faults = (_fault(override, raw, origins, given) for override in given)
    if refused := [*islice(filter(None, faults), strict_yaml.MAX_FAULTS)]:  # each takes some milliseconds
        least = "at least " if len(refused) == strict_yaml.MAX_FAULTS else ""
        raise strict_yaml.together(refused, others=f"{least}{len(refused) - 1}")
    before = defaults.resolve(file) if given else {}
    left_out = leave_out_unread(raw, before, origins) if given else {}
    in_proportion = keep_proportions(raw, before, origins) if given else {}
    resolved = defaults.resolve(raw, ask)
    made = _made(resolved)
    if isinstance(made, list):
        if given and not isinstance(_made(defaults.resolve(file, ask)), list):  # overrides cause them
            of_the_file = {path for path, *_ in made if not origin(path, origins).override}
            origins |= dict.fromkeys(of_the_file, Origin(given[-1].origin.source, override=True, over=True))
        raise explain(made, origins, _defaults_alone(raw, made, ask))
    # A run writes this as its own topology.yaml, which resume must be able to read.
    strict_yaml.read(dump(made), f"{source}, resolved", "a topology with its defaults and overrides")
    written = frozenset(by_key(raw).keys() - in_proportion.keys())
    made.__dict__.update(written=written, left_out=left_out, in_proportion=in_proportion)
    return made


def _fault(
    override: Override, raw: dict[str, Any], origins: dict[strict_yaml.Path, Origin], given: Sequence[Override]
) -> TopologyError | None:
    """Apply an override (`overrides.apply`); return its fault, if there is one."""
    try:
        apply(override, raw, origins, given)
    except TopologyError as refused:
        return refused
    return None


def by_key(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a raw topology by dotted key, such as simulators.count."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= {f"{key}.{inner}": part for inner, part in value.items()} if isinstance(value, dict) else {key: value}
    return found


def plain(value: object) -> Any:
    """Return a value with mappings instead of structs, and lists instead of tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def tree(topology: Topology) -> dict[str, Any]:
    """Return a topology as nested mappings of plain values, as strict YAML reads them from a file."""
    values: dict[str, Any] = plain(topology)
    del values["env"]["kind"]  # it follows from the id
    if values["replay"] is None:
        del values["replay"]
    for other in MODES.specs():  # the package of another mode may be removed later, and the run must stay readable
        if other.section and other.name != topology.mode:
            del values[other.name]
    return values


def written_tree(topology: Topology) -> dict[str, Any]:
    """Return the part of `tree` that the file and overrides set; another machine chooses defaults for the rest."""
    keys = topology.written | topology.in_proportion.keys()
    found: dict[str, Any] = {}
    for name, value in tree(topology).items():
        if name in keys:
            found[name] = value
        elif isinstance(value, dict) and (own := {key: value[key] for key in value if f"{name}.{key}" in keys}):
            found[name] = own
    return found


def with_defaults(values: Mapping[str, Any], topology: Topology, keys: Iterable[str]) -> dict[str, Any]:
    """Return a saved topology, dotted key -> value, with defaults for those of ``keys`` that it lacks.

    ``topology`` determines the structs of the sections.
    """
    made = dict(values)
    for name in keys:
        section, dot, key = name.partition(".")
        if dot and name not in made:
            struct: type[msgspec.Struct] = type(getattr(topology, section))
            default = keys_of(struct)[key].default
            made |= {} if default is msgspec.NODEFAULT else {name: plain(default)}
    return made


def dump(topology: Topology) -> str:
    """Return a topology as YAML with every key and its description; ``parse(dump(t)) == t``."""
    lines = ["# A resolved topology: every key, defaults included. Steps are agent steps."]
    values = tree(topology)
    for name, key in keys_of(TOPOLOGY).items():
        section = getattr(topology, name)
        if isinstance(section, msgspec.Struct) and name in values:
            inside = keys_of(type(section)).items()
            lines += ["", f"{name}:", *(_entry(f"  {k}", values[name][k], inner.description) for k, inner in inside)]
        elif not key.section:
            lines.append(_entry(name, values[name], key.description))
    return "\n".join(lines) + "\n"


def sizes(topology: Topology) -> dict[str, int]:
    """Return the number of learners, of their environments, and of the steps in their batches, each in total."""
    learners, environments = topology.learners.count, topology.learners.count * topology.simulators.environments
    return {
        "learners": learners,
        "environments": environments,
        "batch_steps": topology.algorithm.horizon * environments,
    }


def in_all(topology: Topology) -> str:
    """Return the numbers of `sizes` as a phrase; with several learners, also the numbers of each."""
    learners, environments, steps = sizes(topology).values()
    if learners == 1:
        several, many = ("s" if number > 1 else "" for number in (environments, steps))
        return f"1 learner with {environments:,} environment{several} and {steps:,} step{many} per batch"
    return (
        f"{learners:,} learners with {environments:,} environments and {steps:,} steps per batch in all "
        f"({environments // learners:,} and {steps // learners:,} for each learner)"
    )


def _made(resolved: dict[str, Any]) -> Topology | list[Problem]:
    """Return the topology with the resolved values; if they have problems, return the problems instead."""
    if found := [*problems(resolved)]:
        return found
    values, found = settings(resolved)
    if found:
        return found
    made = TOPOLOGY(**values)
    return [*rules.broken(made)] or made


def _defaults_alone(raw: dict[str, Any], found: Sequence[Problem], ask: defaults.Ask) -> dict[str, Any]:
    """Return the resolved topology with defaults instead of refused values, so that an error message can show them."""
    remaining = copy.deepcopy(raw)
    for path, *_ in found:
        section: Any = remaining
        for part in path[:1] if len(path) > 1 else ():
            section = section.get(part)
        if isinstance(section, dict) and path:
            section.pop(path[min(1, len(path) - 1)], None)
    return defaults.resolve(remaining, ask)


def _entry(key: str, value: object, unit: str | None) -> str:
    entry = f"{key}: {literal(value)}"
    return f"{entry:<40}  # {unit}" if unit else entry


def as_text(tree: Mapping[str, Any]) -> str:
    """Return a raw topology as text that is read as the same values."""
    return "".join(f"{key}: {literal(value)}\n" for key, value in tree.items())


def literal(value: object) -> str:
    """Return one value as text that strict YAML reads as the same value."""
    if isinstance(value, list):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return number(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and strict_yaml.read(text, "value").value == text:
        return text
    return '"' + "".join(f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else json.dumps(c)[1:-1] for c in text) + '"'
