"""A head together with the engine that starts its nodes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actorlearn.address import Tcp
from actorlearn.wire.keys import LIST_FOLDER
from launch.engines.specs import Engine, EngineSpec, NodeCommand, node_command
from launch.errors import RunError
from launch.machine.network import interfaces
from launch.nodes.head import Head, NodeEvent
from launch.nodes.node import NodeAction
from launch.supervision import events as ev
from launch.topology.schema import NodesSection

ASK_EVERY_S = 1.0


class StartedNodes:
    """A head, as a `Node`, whose nodes are started when it listens; the caller closes the engine after it."""

    def __init__(self, head: Head, engine: Engine, commands: Sequence[NodeCommand]) -> None:
        """Nodes are started by the first call of ``events``."""
        self._head, self._engine, self._commands = head, engine, commands
        self._started = self._begun = self._over = False
        self._coming = {command.name for command in commands}
        """Names of nodes that may still join, or join again."""
        self._asked_s = 0.0

    @property
    def fds(self) -> tuple[int, ...]:
        """The head's descriptors."""
        return self._head.fds

    @property
    def section_ns(self) -> NDArray[np.int64]:
        """The head's table."""
        return self._head.section_ns

    def do(self, action: NodeAction) -> ev.Event | None:
        """Pass an action to the head."""
        return self._head.do(action)

    def add_learners(self, learners: Collection[int]) -> None:
        """Place learners on nodes of the head."""
        self._head.add_learners(learners)

    def events(self, now_s: float, gap_s: float) -> Iterator[NodeEvent]:
        """Yield the head's events, and a note for each node that has ended for good.

        Yields CannotRun if a node ends before the run has begun, and once no node is left.
        """
        for event in self._head.events(now_s, gap_s):
            self._begun |= isinstance(event, ev.Begin)
            self._over |= isinstance(event, ev.CannotRun)
            yield event
        if not self._started:
            self._started = True
            try:
                self._engine.start(self._commands)
            except (OSError, RunError) as error:
                yield from self._cannot_run(f"no nodes can be started: {error}")
        elif time.monotonic() - self._asked_s >= ASK_EVERY_S:
            self._asked_s = time.monotonic()
            for name, why in self._engine.gone().items():
                yield ev.Note("gone", cause=f"node {name}: {why}", fields={"node": name})
                self._coming.discard(name)
                if not self._begun:
                    yield from self._cannot_run(f"node {name} is gone before the run could begin: {why}")
            if not self._coming and not self._head.nodes:
                yield from self._cannot_run("all its nodes are gone for good; resume goes on with others")

    def _cannot_run(self, reason: str) -> Iterator[NodeEvent]:
        if not self._over:
            self._over = True
            yield ev.CannotRun(reason)

    def end(self) -> None:
        """End all processes of the head's nodes."""
        self._head.end()

    def close(self) -> None:
        """Close the head."""
        self._head.close()


def open_engine(spec: EngineSpec, run_dir: Path, nodes: NodesSection, keys: Path | None) -> Engine:
    """Open the engine of a run on several machines.

    Raises RunError if the engine cannot be used, if there are too few keys, or if nodes could not reach the head;
    ValueError if the engine cannot be imported.
    """
    listen = Tcp.read(nodes.listen) if nodes.listen else None
    if listen is None and not spec.here:
        raise RunError(
            f"nodes.listen: null; nodes of the engine {spec.name} may be on other machines, so write the address of "
            "this one that they reach and a port, such as 10.0.0.1:5555"
        )
    if listen and listen.ip and listen.ip.is_unspecified:
        here = (f"{Tcp(address, listen.port)} ({name})" for name, found in interfaces().items() for address in found)
        raise RunError(
            f"nodes.listen: {listen}: an engine gives nodes this address, so write one of this machine's that they can "
            f"dial: {', '.join(here)}"
        )
    if keys is not None:
        node_files(keys, nodes.count)
    return spec.load()(run_dir.absolute(), nodes)


def commands_of(head: Head, nodes: NodesSection) -> list[NodeCommand]:
    """Return the commands of the nodes that a head waits for; raises RunError if there are too few keys."""
    files = node_files(head.keys, nodes.count)
    return [node_command(file.stem, file, str(head.address), nodes.command) for file in files]


def node_files(keys: Path, count: int) -> list[Path]:
    """Return the first ``count`` key files of nodes, by name; raises RunError if the folder has fewer."""
    files = sorted(file for file in keys.glob("*.key") if (keys / LIST_FOLDER / f"{file.stem}.pub").exists())
    if len(files) < count:
        more = " ".join(f"--node node-{number}" for number in range(len(files), min(count, len(files) + 3)))
        raise RunError(
            f"--keys {keys}: has the keys of {len(files)} nodes, and nodes.count is {count}; an engine gives each node "
            f"its key, so make more with `actorlearn keys new {more} {keys}`"
        )
    return files[:count]
