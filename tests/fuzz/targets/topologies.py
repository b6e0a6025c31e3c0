"""Topologies and overrides, and the YAML that they are written in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from actorlearn.worker.roles import ROLES
from launch.topology import load, sources, strict_yaml
from launch.topology.keys import BASES, CHOSEN, Key, items_of, key_of, keys_of, structs_of
from launch.topology.load import TopologyError
from launch.topology.schema import TOPOLOGY
from tests.fuzz.nearly import nearly
from tests.fuzz.targets.door import Target, refused
from tests.fuzz.watched import watched

CARTPOLE = "env: {id: CartPole-v1}\nmodel: {name: mlp}\nalgorithm: {name: a2c}\n"


def _evaluate(keys: Iterable[Key]) -> None:
    """Evaluate the annotations of all sections below keys, so that no reader does it for foreign bytes."""
    for key in keys:
        if isinstance(key.kind, inspect.UnionType):
            _evaluate(key._replace(kind=part) for part in key.kind.types)
        elif key.section:
            _evaluate(keys_of(key.section).values())
        elif isinstance(key.kind, inspect.DictType):
            _evaluate([key_of(key.kind.key_type), key_of(key.kind.value_type)])
        else:
            _evaluate(map(key_of, items_of(key.kind, 1)))


_sections = [TOPOLOGY, *BASES.values(), *(struct for name in CHOSEN for struct in structs_of(name).values())]
_sections += [role.section for role in ROLES.specs() if role.section]
for _section in _sections:
    _evaluate(keys_of(_section).values())
    msgspec.json.Decoder(_section)  # evaluates them once more, for conversion


def _topology(data: bytes, _folder: Path) -> bool:
    try:
        with watched():
            made = load.parse(data)
    except TopologyError as error:
        return refused(error, printable=True)
    assert load.parse(load.dump(made)) == made
    return True


def _overrides(data: bytes, _folder: Path) -> bool:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        with watched():
            load.parse(CARTPOLE, lines)
    except TopologyError as error:
        return refused(error, printable=True)
    return True


def _strict(data: bytes, _folder: Path) -> bool:
    try:
        with watched():
            strict_yaml.read(data, "text")
    except TopologyError as error:
        return refused(error, printable=True)
    return True


@cache
def _topologies() -> list[Any]:
    files = sorted(sources.examples().rglob("*.yaml"))
    return [strict_yaml.read(path.read_bytes(), path.name).value for path in files]


def _flow(tree: Any) -> bytes:
    """Return a tree as YAML in flow style."""
    return yaml.dump(tree, default_flow_style=True, allow_unicode=True, sort_keys=False).encode("utf-8", "replace")


def _override_lines(tree: Any) -> bytes:
    lines = []
    for section, inside in tree.items() if isinstance(tree, dict) else ():
        pairs = inside.items() if isinstance(inside, dict) else [("", inside)]
        lines += [f"{section}.{key}={json.dumps(value)}".replace(".=", "=") for key, value in pairs]
    return "\n".join(lines).encode("utf-8", "replace")


_HOSTILE_TOPOLOGIES = (
    *(b"[" * 200_000, b"{a: " * 50_000, b"- " * 100_000, b"? " * 100_000, b"a: " + b"9" * 50_000),
    b"a: &a [x, x, x, x, x, x, x, x, x]\n"
    + b"".join(b"%c: &%c [*%c, *%c]\n" % (n, n, n - 1, n - 1) for n in range(98, 120)),
    *(
        b"a: !!python/object/apply:os.system ['true']\n",
        b'"' + b"\\x00" * 60_000,
        b"'" + b"\n" * 200_000,
        b"\x00" * 1_000,
    ),
    b"".join(b"k%d: 1\n" % n for n in range(20_000)),
)


def targets() -> dict[str, Target]:
    """Return targets for topologies and overrides."""
    texts = [path.read_bytes() for path in sorted(sources.examples().rglob("*.yaml"))]
    lines = _override_lines(_topologies()[0])
    return {
        "topology": Target(_topology, texts[0], nearly(_topologies(), _flow, texts)),
        "strict YAML": Target(
            _strict,
            texts[0],
            nearly(_topologies(), _flow, texts),
            hostile=_HOSTILE_TOPOLOGIES,
            peak_bound=lambda size: 8 * size + (1 << 20),  # an error splits the text into lines, to show one
        ),
        "overrides": Target(_overrides, lines, nearly(_topologies(), _override_lines)),
    }
