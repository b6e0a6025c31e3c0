"""The engine ``ssh``: a node on each machine of ``nodes.hosts``, started by the user's own ``ssh``.

It calls ssh with BatchMode, so ssh must be able to connect without asking for a password or about an unknown host.
``nodes.options`` are additional arguments of ssh, such as ``-p 2222``.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from launch.engines.shells import ShellEngine, shell
from launch.engines.specs import EngineSpec, NodeCommand
from launch.errors import RunError
from launch.topology.schema import NodesSection

SSH = EngineSpec(name="ssh", made_by="launch.engines.ssh:SshEngine")
_COMMAND = ("ssh", "-T", "-o", "BatchMode=yes")


class SshEngine(ShellEngine):
    """Starts nodes through ssh; each ends with its connection."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        """Raises RunError if ssh is missing, or for unsuitable ``nodes.hosts``; starts no node yet."""
        if shutil.which("ssh") is None:
            raise RunError("--engine ssh: the command ssh is not installed; install the client of OpenSSH")
        if len(nodes.hosts) != nodes.count:
            raise RunError(
                f"nodes.hosts: {len(nodes.hosts)} hosts for nodes.count = {nodes.count}; the engine ssh starts one "
                "node on each host, so name one host for each node"
            )
        if odd := [host for host in nodes.hosts if host.startswith("-")]:
            raise RunError(f"nodes.hosts: {odd[0]!a}: ssh would read this name as an option; write [user@]host")
        super().__init__(run_dir, nodes)

    def command(self, number: int, node: NodeCommand) -> list[str]:
        """Return the command that starts a node's shell on its host."""
        return [*_COMMAND, *self.nodes.options, self.nodes.hosts[number], shlex.join(shell(node))]
