"""Engines start the nodes of a run on several machines, and end them. Each is described by a spec and registered by an
entry point.

    [project.entry-points."actorlearn.engines"]
    my-engine = "my_package.my_engine:SPEC"

``actorlearn run TOPOLOGY --engine my-engine`` then has that engine start ``actorlearn node`` on each machine. What the
nodes do is between them and the head: an engine knows nothing of it. Without an engine, people start the nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self, cast

from actorlearn.registry import PlugIn, PlugIns
from launch.topology.schema import NodesSection


class NodeCommand(NamedTuple):
    """A node to be started."""

    name: str
    key: Path
    """Its key file, on the head's machine; an engine brings it to the node's, readable by its user alone."""
    words: tuple[str, ...]
    """The command, to which the engine adds ``--key FILE``, with the file's path on the node's machine."""


class Engine(Protocol):
    """Starts nodes, and ends those that it has started; only the head knows whether a node is well."""

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes, each on a machine of its own where there are several; called once.

        Raises OSError or RunError where none can be started."""

    def gone(self) -> Mapping[str, str]:
        """Return the nodes that will not come, or not come back, with the reason; each once. Never waits."""

    def close(self) -> None:
        """End the nodes that are still there, also where ``start`` was not called or has failed."""


Open = Callable[[Path, NodesSection], Engine]
"""Opens an engine, given the run's folder (absolute) and the topology's nodes. It has made nothing yet.

Raises RunError, which says what is missing: a command, a package, a key of the topology."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec(PlugIn):
    """An engine, before it is opened; ``made_by`` names a class or function that can be called as an `Open`."""

    methods = ("start", "gone", "close")
    described_in = "launch/engines/specs.py"
    here: bool = False
    """Whether its nodes are on the head's machine, so that the head need not listen beyond it."""

    def load(self) -> Open:
        """Import the class or function that opens an engine; raises ValueError, one line."""
        return cast("Open", super().load())

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Describe a class of engines that brings no spec."""
        return cls(name=name, made_by=name)


ENGINES = PlugIns("engine", "actorlearn.engines", EngineSpec)


def node_command(name: str, key: Path, address: str, command: Sequence[str] | None) -> NodeCommand:
    """Return the command of a node that joins a head; ``command`` starts actorlearn there, None: as it is here."""
    start = (sys.executable, "-m", "actorlearn") if command is None else tuple(command)
    return NodeCommand(name, key, (*start, "node", "--join", address))
