"""A head and its agents in this process, with connections that a test can cut, a clock that it sets, no processes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actorlearn.address import Ipc, Tcp
from launch.nodes import agent as agents
from launch.nodes.agent import Agent
from launch.nodes.head import Head
from launch.nodes.node import ProtocolWarning
from launch.nodes.workspace import NodeWorkspace
from launch.plan.plan import NodeMessage, Plan
from launch.runtime.workspace import Workspace
from launch.supervision import events as ev
from launch.topology.load import parse
from tests.launch.opened import opened
from tests.launch.runtime.no_processes import NoProcesses


class Lines:
    """In place of the head's router: a line, which is a connection, to each agent."""

    address: Ipc | Tcp = Tcp("127.0.0.1", 5555)
    fd = -1

    def __init__(self) -> None:
        self.arrived: deque[tuple[str, bytes]] = deque()
        self.lines: dict[str, Line] = {}
        self.cut: set[str] = set()
        """Nodes whose lines lose all messages."""

    def recv(self, timeout_ms: int = 0) -> tuple[str, bytes] | None:
        return self.arrived.popleft() if self.arrived else None

    def send(self, peer: str, body: bytes) -> bool:
        if peer not in self.cut:
            self.lines[peer].arrived.append(body)
        return True

    def refusals(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


class Line:
    """In place of an agent's socket: its end of a line."""

    trouble: str | None = None
    answered = False

    def __init__(self, lines: Lines, name: str) -> None:
        self.arrived: deque[bytes] = deque()
        self._lines, self._name = lines, name
        lines.lines[name] = self

    def send(self, body: bytes) -> bool:
        if self._name not in self._lines.cut:
            self._lines.arrived.append((self._name, body))
        return True

    def recv(self, timeout_ms: int = 0) -> bytes | None:
        return self.arrived.popleft() if self.arrived else None


class Cluster:
    """The head and the agents of a run on several nodes, without a supervisor."""

    def __init__(self, head: Head, lines: Lines, plan: Plan, workspace: Workspace, folder: Path) -> None:
        self.head, self.lines, self.plan, self.workspace = head, lines, plan, workspace
        self.agents: dict[str, Agent] = {}
        self.told: dict[str, list[str]] = {}
        self.stopped: set[str] = set()
        """Agents that do nothing."""
        self.events: list[ev.Event | ev.Note | ProtocolWarning] = []
        self.now_s = 1000.0
        self._folder = folder

    def agent(self, name: str) -> Agent:
        """Start an agent, which joins with the next turn."""
        said = self.told[name] = []
        if name in self.agents:
            self.agents[name].leave()  # without a message, as if its machine had failed
        made = self.agents[name] = Agent(Line(self.lines, name), "127.0.0.1", self._folder / name, 300.0, said.append)
        return made

    def node(self, name: str) -> NodeWorkspace:
        """Return the workspace of a node that has joined."""
        epoch = self.agents[name].epoch
        assert epoch and epoch.workspace
        return epoch.workspace

    def folder(self, name: str) -> Path:
        """Return the run folder on a node."""
        return self.node(name).addresses.run_dir

    def report(self, name: str, message: NodeMessage | Iterator[NodeMessage], lane: str = "") -> None:
        """Let a node send the head a message, or the messages of a copy."""
        epoch = self.agents[name].epoch
        assert epoch
        epoch.outbox.put(lane, message)

    def close(self) -> None:
        """End everything, without waiting."""
        self.head.nodes.clear()
        self.head.close()
        for agent in self.agents.values():
            agent.leave()

    def turn(self, times: int = 1, seconds: float = 0.1) -> list[Any]:
        """Give the agents and the head turns; return the new events of the head."""
        before = len(self.events)
        for _ in range(times):
            self.now_s += seconds
            for name, agent in self.agents.items():
                if name not in self.stopped:
                    agent.turn()
            self.events += self.head.events(self.now_s, 0.0)
        return self.events[before:]

    def go_on_without(self, name: str, seconds: float) -> None:
        """Let time pass in which this agent does nothing, while the other agents and the head go on."""
        self.stopped.add(name)
        self.turn(int(10 * seconds))
        self.stopped.remove(name)

    def of(self, kind: type) -> list[Any]:
        """Return the events of a type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def notes(self) -> list[str]:
        return [note.kind for note in self.of(ev.Note)]

    def started(self) -> list[tuple[str, str]]:
        """Return the processes that have been started so far, each with its node."""
        return [(event.name, event.node) for event in self.of(ev.Spawned)]

    def lose(self, name: str) -> None:
        """Cut a node off until it is lost."""
        self.lines.cut.add(name)
        self.turn(160)

    def begin(self, *names: str) -> None:
        """Let these nodes join, so that the run begins."""
        for name in names:
            self.agent(name)
        self.turn(4)
        assert self.of(ev.Begin), self.events


@contextmanager
def cluster(folder: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Iterator[Cluster]:
    """A head for a run of two learners on two nodes, without exchange unless ``overrides`` change that."""
    exchange = [] if "mode=sync" in overrides else ["mode=gossip", "gossip.graph=none"]
    keys = [*exchange, "learners.count=2", "simulators.count=1", "nodes.count=2", *overrides]
    topology = parse("env: {id: CartPole-v1}", keys)
    monkeypatch.setattr("launch.nodes.workspace.Spawner", NoProcesses)
    with ExitStack() as stack:
        plan, workspace = stack.enter_context(opened(folder / "run", topology))
        lines = Lines()
        head = Head(plan, lines, folder / "keys", ["node-0", "node-1", "node-2"])
        made = Cluster(head, lines, plan, workspace, folder)
        monkeypatch.setattr(agents, "clock_s", lambda: made.now_s)
        monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
        monkeypatch.setattr(agents, "usable_cores", lambda: 4.0)
        stack.callback(made.close)
        yield made
