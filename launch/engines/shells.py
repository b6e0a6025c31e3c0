"""The common part of engines that start each node in a shell, on this machine or through ``ssh`` or ``srun``.

The shell receives the node's key on its standard input and writes it to a folder that only its user can read. The
folder also has the node's files; the shell removes it when the node has ended. A second process on the node's machine
ends the node when the standard input of the shell is closed, and removes the folder if the shell was killed. So a node
ends whenever its head (``actorlearn run``) ends.

The shell, or the ``ssh`` or ``srun`` that runs it, holds a lock on the node's log while it lives. After a head was
killed, the lock shows whether its nodes have ended too.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from launch.engines.specs import NodeCommand
from launch.machine.locks import last_line, open_beside, somebody_prints_to
from launch.topology.schema import NodesSection

FOLDER = "nodes"
"""Folder in the run's folder with the output of each node."""
SCRIPT = """
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/actorlearn-node-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
while IFS= read -r line && [ -n "$line" ]; do printf '%s\\n' "$line"; done > "$folder/key"
exec 3<&0
"$@" --key "$folder/key" --folder "$folder" < /dev/null 3<&- &
node=$!
(
    while read -r line; do :; done
    kill "$node"
    trap 'kill -KILL "$!"; exit' TERM  # between fork and exec it would not heed TERM
    seconds=20
    while kill -0 "$node" && [ "$seconds" -gt 0 ]; do
        seconds=$((seconds - 1))
        sleep 1 &
        wait "$!"
    done
    kill -KILL "$node"
    rm -rf "$folder"  # the shell is killed too, or else it would have ended this
) <&3 3<&- > /dev/null 2>&1 &
watch=$!
trap 'kill "$node"' HUP INT TERM
exec 3<&-
wait "$node"; status=$?
while kill -0 "$node" 2> /dev/null; do wait "$node"; status=$?; done
kill "$watch" 2> /dev/null
wait "$watch" 2> /dev/null
exit "$status"
"""
"""Program for a POSIX shell; its arguments are the command of the node."""
_LEAVE_S, _END_S = 3.0, 25.0
"""Longest waits in seconds: for nodes to end because the run has ended, and then because they were told to end."""


class ShellEngine:
    """Starts each node in a shell on this machine; its output goes to ``nodes/NAME.log`` in the run's folder."""

    def __init__(self, run_dir: Path, nodes: NodesSection) -> None:
        self.nodes = nodes
        self._folder = run_dir / FOLDER
        self._shells: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, nodes: Sequence[NodeCommand]) -> None:
        """Start nodes; raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number, node in enumerate(nodes):
            self._start(node, self.command(number, node))

    def command(self, number: int, node: NodeCommand) -> list[str]:
        """Return the command that starts the shell of a node; overridden by engines for other machines."""
        return shell(node)

    def _start(self, node: NodeCommand, command: Sequence[str]) -> None:
        """Run a command that starts a shell, and send the shell the node's key."""
        key = node.key.read_bytes()
        log = open_beside(self._log(node.name))
        try:
            # a session of its own, so that Ctrl-C in a terminal reaches the head only
            shell = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        finally:
            os.close(log)
        self._shells[node.name] = shell
        assert shell.stdin is not None
        with suppress(BrokenPipeError):  # the shell has ended; `gone` reports it
            shell.stdin.write(key + b"\n")
            shell.stdin.flush()

    def gone(self) -> dict[str, str]:
        """Return name -> reason for nodes that have ended since the last call: exit status, last line of output."""
        ended = {name: status for name, shell in self._shells.items() if (status := shell.poll()) is not None}
        for name in ended:
            _hang_up(self._shells.pop(name))
        words = {name: (said := last_line(self._log(name))) and f": {said:.300}" for name in ended}
        return {
            name: f"it has ended with exit status {status}{words[name]} ({FOLDER}/{name}.log)"
            for name, status in ended.items()
        }

    def close(self) -> None:
        """Wait until all nodes have ended; after _LEAVE_S, end them."""
        self._wait(_LEAVE_S)
        for shell in self._shells.values():
            _hang_up(shell)
        self._wait(_END_S)
        for shell in self._shells.values():
            shell.kill()
            shell.wait()
        self._shells = {}

    def _wait(self, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        for shell in self._shells.values():
            with suppress(subprocess.TimeoutExpired):
                shell.wait(max(0.0, deadline_s - time.monotonic()))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def shells_live(run_dir: Path) -> bool:
    """Whether a node of this run that was started through a shell is alive, also one from before a resume."""
    return any(somebody_prints_to(log) for log in (run_dir / FOLDER).glob("*.log"))


def shell(node: NodeCommand) -> list[str]:
    """Return the command that starts a node's shell on this machine."""
    return ["sh", "-c", SCRIPT, "actorlearn", *node.words]


def _hang_up(shell: subprocess.Popen[bytes]) -> None:
    assert shell.stdin is not None
    with suppress(OSError):
        shell.stdin.close()
