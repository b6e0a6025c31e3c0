"""The keys ``simulate.…`` of the command line: machines, links, slow learners, and costs in place of measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from actorlearn.nearest import nearest
from launch.errors import RunError
from launch.simulate.scenario import Costs
from launch.topology import strict_yaml
from launch.topology.keys import integers_in, keys_of

PREFIX = "simulate."
STAGES = tuple(field.name for field in msgspec.structs.fields(Costs) if field.required)
"""Costs without defaults; unless all of them are given, costs are measured."""


class SimulateKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys ``simulate.…`` of the command line, which no topology has."""

    machines: (
        Annotated[int, Meta(ge=1, le=256, description="number of machines, to which the nodes are assigned in turn")]
        | None
    ) = None
    cores: Annotated[float, Meta(gt=0, le=65_536, description="cores of each machine")] | None = None
    link_mbit_per_s: Annotated[float, Meta(gt=0, description="rate of a machine's link, in each direction")] = 1000.0
    latency_ms: Annotated[float, Meta(ge=0, description="delay between machines on an idle link")] = 0.1
    slow_learners: Annotated[
        int, Meta(ge=0, le=64, description="number of learners that are slower than the others")
    ] = 0
    slow_factor: Annotated[
        float, Meta(ge=1, le=1_000_000, description="factor by which the slow learners are slower")
    ] = 5.0
    servers: (
        Annotated[int, Meta(ge=1, le=64, description="number of parameter servers; default: the topology's")] | None
    ) = None
    servers_apart: Annotated[bool, Meta(description="whether parameter servers are on separate machines")] = False
    weights: (
        Annotated[int, Meta(ge=1, description="number of weights that are exchanged; default: the network's")] | None
    ) = None
    weight_bytes: Annotated[float, Meta(gt=0, le=8, description="bytes of each weight in a message")] | None = None
    updates: (
        Annotated[int, Meta(ge=1, le=10_000_000, description="number of updates to simulate, of all learners together")]
        | None
    ) = None


def read(words: Sequence[str]) -> tuple[SimulateKeys, dict[str, float], list[str]]:
    """Divide overrides into keys ``simulate.…``, costs such as ``simulate.step_s=…``, and overrides of the topology.

    Raises RunError for an unknown key after ``simulate.``, and for a value out of its range.
    """
    keys: dict[str, object] = {}
    costs: dict[str, object] = {}
    others: list[str] = []
    for word in words:
        name, equals, text = word.partition("=")
        if not name.startswith(PREFIX):
            others.append(word)
            continue
        key = name.removeprefix(PREFIX)
        into = keys if key in SimulateKeys.__struct_fields__ else costs if key in Costs.__struct_fields__ else None
        if into is None or not equals:
            raise RunError(f"{word!r} is not a key of simulate{_meant(key)}; docs/simulate.md lists the keys")
        into[key] = strict_yaml.read(text, word).value
    try:
        made = msgspec.convert(integers_in(keys, keys_of(SimulateKeys)), SimulateKeys)
        given = msgspec.convert({**dict.fromkeys(STAGES, 0.0), **costs}, Costs)
    except msgspec.ValidationError as error:
        raise RunError(f"simulate.…: {error}; docs/simulate.md lists the range of each key") from None
    return made, {name: getattr(given, name) for name in costs}, others


def _meant(key: str) -> str:
    near = nearest(key, [*SimulateKeys.__struct_fields__, *Costs.__struct_fields__])
    return f", perhaps {PREFIX}{near}" if near else ""
