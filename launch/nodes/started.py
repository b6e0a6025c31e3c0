"""A head whose nodes are started by an engine, such as ssh or Slurm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from actorlearn.address import Ipc, Tcp
from actorlearn.wire.channel import Router
from actorlearn.wire.keys import LIST_FOLDER
from launch.engines.specs import Engine, EngineSpec, NodeCommand, node_command
from launch.errors import RunError
from launch.machine.network import interfaces
from launch.nodes.head import Head, NodeEvent
from launch.plan.plan import Plan
from launch.supervision import events as ev
from launch.topology.schema import NodesSection

ASK_EVERY_S = 1.0


class EngineHead(Head):
    """A head that lets an engine start its nodes. The caller closes the engine after the head."""

    def __init__(
        self,
        plan: Plan,
        router: Router,
        keys: Path,
        names: Sequence[str],
        engine: Engine,
        commands: Sequence[NodeCommand],
    ) -> None:
        """Nodes are started by the first call of ``events``. Raises ChannelError."""
        super().__init__(plan, router, keys, names)
        self._engine, self._commands = engine, commands
        self._started = self._can_run = self._cannot = False
        self._coming = {command.name for command in commands}
        """Names of nodes that may still join, or join again."""
        self._asked_s = 0.0

    def events(self, now_s: float, gap_s: float) -> Iterator[NodeEvent]:
        """Yield the head's events, and a note for each node that has ended for good.

        If a node ends before the run has begun, or if no node is left, yield CannotRun.
        """
        for event in super().events(now_s, gap_s):
            self._can_run |= isinstance(event, ev.Begin)
            self._cannot |= isinstance(event, ev.CannotRun)
            yield event
        if not self._started:
            self._started = True
            try:
                self._engine.start(self._commands)
            except (OSError, RunError) as error:
                yield from self._cannot_run(f"the engine cannot start nodes: {error}")
        elif time.monotonic() - self._asked_s >= ASK_EVERY_S:
            self._asked_s = time.monotonic()
            for name, why in self._engine.gone().items():
                yield ev.Note("gone", cause=f"node {name}: {why}", fields={"node": name})
                self._coming.discard(name)
                if not self._can_run:
                    yield from self._cannot_run(f"node {name} ended before the run began: {why}")
            if not self._coming and not self.nodes:
                yield from self._cannot_run(
                    "all nodes have ended for good; `actorlearn resume` continues the run on other nodes"
                )

    def _cannot_run(self, reason: str) -> Iterator[NodeEvent]:
        if not self._cannot:
            self._cannot = True
            yield ev.CannotRun(reason)


def open_engine(spec: EngineSpec | None, run_dir: Path, nodes: NodesSection, keys: Path | None) -> Engine | None:
    """Return the engine that starts the nodes of a run; None if no engine does.

    Raises RunError if the engine cannot be used, if there are too few keys, or if nodes could not reach the head;
    ValueError if the engine cannot be imported.
    """
    if spec is None or (spec.here and not nodes.several):
        return None
    if not nodes.several:
        raise RunError(
            f"--engine {spec.name}: an engine starts nodes, and this topology has none; write nodes.listen and, for "
            "more than one node, nodes.count"
        )
    listen = Tcp.read(nodes.listen) if nodes.listen else None
    if listen is None and not spec.here:
        raise RunError(
            f"nodes.listen: null; the engine {spec.name} may start nodes on other machines, so set an address of this "
            "machine that they can reach, and a port, such as 10.0.0.1:5555"
        )
    if listen and listen.ip and listen.ip.is_unspecified:
        here = (f"{Tcp(address, listen.port)} ({name})" for name, found in interfaces().items() for address in found)
        raise RunError(
            f"nodes.listen: {listen}: an engine gives nodes this address, and they cannot connect to it; set one of "
            f"this machine's addresses: {', '.join(here)}"
        )
    if keys is not None:
        node_files(keys, nodes.count)
    return spec.load()(run_dir.absolute(), nodes)


def commands_of(address: Ipc | Tcp, keys: Path, nodes: NodesSection) -> list[NodeCommand]:
    """Return the commands of nodes that join a head at an address; raises RunError if there are too few keys."""
    return [node_command(file.stem, file, str(address), nodes.command) for file in node_files(keys, nodes.count)]


def node_files(keys: Path, count: int) -> list[Path]:
    """Return the first ``count`` key files of nodes, by name; raises RunError if the folder has fewer."""
    files = sorted(file for file in keys.glob("*.key") if (keys / LIST_FOLDER / f"{file.stem}.pub").exists())
    if len(files) < count:
        more = " ".join(f"--node node-{number}" for number in range(len(files), min(count, len(files) + 3)))
        raise RunError(
            f"--keys {keys}: has the keys of {len(files)} nodes, and nodes.count is {count}; an engine needs a key for "
            f"each node, so make more with `actorlearn keys new {more} {keys}`"
        )
    return files[:count]
