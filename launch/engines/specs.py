"""Engines, which start and end the nodes of a run on several machines. A node is ``actorlearn node`` on one machine.

An engine is described by a spec, which a package registers as an entry point:

    [project.entry-points."actorlearn.engines"]
    my-engine = "my_package.my_engine:SPEC"

Then ``actorlearn run TOPOLOGY --engine my-engine`` starts the nodes with it. Without ``--engine``, users start them.
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
    """A node that an engine is to start."""

    name: str
    key: Path
    """Key file of the node on the head's machine. The engine copies it to the node's machine, for its user only."""
    words: tuple[str, ...]
    """The command. The engine adds ``--key FILE``, with the path of the key file on the node's machine."""


class Engine(Protocol):
    """Starts and ends nodes. ``actorlearn run``, not the engine, checks whether they are alive."""

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes, each on a separate machine if there are several; called once.

        Raises OSError or RunError if nodes cannot be started.
        """

    def gone(self) -> Mapping[str, str]:
        """Return name -> reason for nodes that have ended for good, or cannot be started; each once. Does not wait."""

    def close(self) -> None:
        """End the remaining nodes; also called if ``start`` was not called or has failed."""


Open = Callable[[Path, NodesSection], Engine]
"""Opens an engine from the run's folder (absolute) and the topology's section ``nodes``; starts no node.

Raises RunError if a command, a package or a key of the topology is missing.
"""


@dataclass(frozen=True, kw_only=True)
class EngineSpec(PlugIn):
    """The spec of an engine; ``made_by`` names the class or function that makes the engine (`Open`)."""

    methods = ("start", "gone", "close")
    described_in = "launch/engines/specs.py"
    here: bool = False
    """Whether the engine's nodes are on the head's machine, so that the head may listen on a local address only."""

    def load(self) -> Open:
        """Import and return the class or function that makes the engine; raises ValueError."""
        return cast("Open", super().load())

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Return a spec for an engine's class that a user has named, or registered, without a spec."""
        return cls(name=name, made_by=name)


ENGINES = PlugIns("engine", "actorlearn.engines", EngineSpec)


def node_command(name: str, key: Path, address: str, command: Sequence[str] | None) -> NodeCommand:
    """Return the command of a node that connects to ``actorlearn run`` at ``address``; ``key``: file with its key.

    ``command``: words that start actorlearn on the node's machine; None: those that start it on this machine.
    """
    start = (sys.executable, "-m", "actorlearn") if command is None else tuple(command)
    return NodeCommand(name, key, (*start, "node", "--join", address))
