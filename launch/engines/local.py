"""The engine ``local``: all nodes on this machine, to try out a topology with several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from launch.engines.shells import Shells, shell
from launch.engines.specs import EngineSpec, NodeCommand
from launch.topology.schema import NodesSection

LOCAL = EngineSpec(name="local", made_by="launch.engines.local:LocalEngine", here=True)


class LocalEngine:
    """Nodes on this machine, which share its cores and memory."""

    def __init__(self, run_dir: Path, _nodes: NodesSection) -> None:
        self._shells = Shells(run_dir)

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes; raises OSError."""
        for node in nodes:
            self._shells.start(node, shell(node))

    def gone(self) -> Mapping[str, str]:
        """Return the nodes that have ended since the last call, with the reason."""
        return self._shells.gone()

    def close(self) -> None:
        """End all nodes."""
        self._shells.close()
