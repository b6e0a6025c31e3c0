"""Agents of nodes as a test starts and ends them, on this machine or in network namespaces of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tests.system.launched import Launched, hear_ctrl_c
from tests.waiting import free_port

if TYPE_CHECKING:
    from tests.system.conftest import Command


class Where(Protocol):
    """The machines on which nodes are started."""

    head: str
    """Host at which the head listens."""

    def enter(self, name: str) -> Sequence[str]:
        """Return the words that go before a command that is to run on this machine."""


class Here:
    """This machine, for all nodes."""

    head = "127.0.0.1"

    def enter(self, name: str) -> Sequence[str]:
        """Return no words."""
        return ()


class Agents:
    """Agents by the names of their nodes, and the keys of their head."""

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        command: Command,
        names: Sequence[str],
        where: Where | None = None,
    ) -> None:
        """Make a key for each name; start nothing yet."""
        self.folder, self.keys, self._environment, self._command = folder, folder / "keys", environment, command
        self._where: Where = where or Here()
        self.names = names
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = f"{self._where.head}:{free_port()}"
        made = command("keys", "new", *(word for name in names for word in ("--node", name)), self.keys)
        assert made.returncode == 0, made.stderr

    def __enter__(self) -> Agents:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Kill those that are left, and clear away what they have made."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._command("clean")
        for left in Path(self._environment["XDG_RUNTIME_DIR"]).iterdir():
            shutil.rmtree(left)

    @property
    def options(self) -> list[str]:
        """Words of a command with which a run waits for these nodes."""
        listening = [f"nodes.count={len(self.names)}", f"nodes.listen={self.address}", "nodes.lease_s=3"]
        return [*listening, "--keys", str(self.keys)]

    def start(self, *names: str, at: str = "", key: Path | None = None) -> None:
        """Start agents; ``at``: address to which they connect instead of the head's; ``key``: instead of their own."""
        for name in names:
            if name in self.processes:
                self.processes[name].wait()
            words = ["--join", at or self.address, "--key", key or self.keys / f"{name}.key"]
            command = [sys.executable, "-m", "launch", "node", *words, "--folder", self.folder / name]
            with (self.folder / f"{name}.out").open("ab") as out:
                self.processes[name] = subprocess.Popen(
                    [*self._where.enter(name), *map(str, command)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=self._environment,
                    preexec_fn=hear_ctrl_c,
                )

    def said(self, name: str) -> str:
        """Everything that an agent has printed."""
        return (self.folder / f"{name}.out").read_text()

    def end(self) -> list[int]:
        """Exit statuses, when all have ended."""
        return [process.wait(60) for process in self.processes.values()]


def node_of(run: Launched, process: str) -> str:
    """The node on which a process was started last."""
    return str(run.events("spawned", process)[-1]["node"])


def lost(run: Launched, node: str) -> Callable[[], bool]:
    """Whether the head has said that a node is lost, as a function."""
    return lambda: any(event.get("node") == node for event in run.new_events("lost"))
