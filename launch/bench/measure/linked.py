"""Runs whose nodes have links of a rate: the head and each node in a network namespace of its own on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from actorlearn.wire.keys import make_keys
from launch.bench.measure.running import Running
from launch.engines.shells import Shells, shell
from launch.engines.specs import NodeCommand
from launch.errors import RunError
from launch.machine.namespaces import HEAD, Namespaces, enter, own_namespace
from launch.topology.schema import NodesSection

PORT = 5555
_ENGINE = f"{__name__}:LinkedNodes"


class LinkedNodes:
    """Engine whose nodes are started in the namespaces that belong to the one of its head."""

    def __init__(self, run_dir: Path, _nodes: NodesSection) -> None:
        """Start nothing yet; raises RunError where the head is in no such namespace."""
        word, _, name = own_namespace().rpartition("-")
        if name != HEAD:
            raise RunError(f"--engine {_ENGINE}: a benchmark runs it in namespaces of its own; choose another engine")
        self._word, self._shells = word, Shells(run_dir)

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes, each in the namespace of its name; raises OSError."""
        for node in nodes:
            self._shells.start(node, [*enter(f"{self._word}-{node.name}"), *shell(node)])

    def gone(self) -> Mapping[str, str]:
        """Return the nodes that have ended since the last call, with the reason."""
        return self._shells.gone()

    def close(self) -> None:
        """End all nodes."""
        self._shells.close()


@contextmanager
def linked(topology: str, overrides: Sequence[str], network: Namespaces) -> Iterator[Running]:
    """Run a topology on all machines of a network; its nodes have the machines' names."""
    with tempfile.TemporaryDirectory(prefix="actorlearn-bench-") as folder:
        keys = Path(folder) / "keys"
        make_keys(keys, network.nodes)
        nodes = (f"nodes.count={len(network.nodes)}", f"nodes.listen={network.head}:{PORT}")
        by = network.enter(HEAD)
        with Running(topology, (*overrides, *nodes), engine=_ENGINE, keys=keys, by=by) as run:
            yield run
