"""The engine ``ssh``: a node on each machine of ``nodes.hosts``, started by the user's own ``ssh``.

Whatever ssh asks for a password or about an unknown host must have been answered before: it is called with BatchMode.
``nodes.options`` are more words for it, such as ``-p 2222``.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from launch.engines.shells import Shells, shell
from launch.engines.specs import EngineSpec, NodeCommand
from launch.errors import RunError
from launch.topology.schema import NodesSection

SSH = EngineSpec(name="ssh", made_by="launch.engines.ssh:SshEngine")
_COMMAND = ("ssh", "-T", "-o", "BatchMode=yes")


class SshEngine:
    """Nodes at the other ends of ssh connections, which they do not outlive."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        """Start nothing yet; raises RunError where ssh or hosts are missing."""
        if shutil.which("ssh") is None:
            raise RunError("--engine ssh: there is no command ssh; install OpenSSH's client")
        if len(nodes.hosts) != nodes.count:
            raise RunError(
                f"nodes.hosts: {len(nodes.hosts)} hosts for nodes.count = {nodes.count}; the engine ssh starts one "
                "node on each, so name as many"
            )
        if odd := [host for host in nodes.hosts if host.startswith("-")]:
            raise RunError(f"nodes.hosts: {odd[0]!a}: ssh would take it for an option; write [user@]host")
        self._nodes = nodes
        self._shells = Shells(run_dir)

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes, in the order of the hosts; raises OSError."""
        for node, host in zip(nodes, self._nodes.hosts, strict=True):
            self._shells.start(node, [*_COMMAND, *self._nodes.options, host, shlex.join(shell(node))])

    def gone(self) -> Mapping[str, str]:
        """Return the nodes whose connections have ended since the last call, with the reason."""
        return self._shells.gone()

    def close(self) -> None:
        """End all nodes, by ending their connections."""
        self._shells.close()
