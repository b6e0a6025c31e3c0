"""Nodes that an engine starts: when their loss ends the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launch.engines.specs import NodeCommand
from launch.nodes import started
from launch.nodes.head import Head, NodeEvent
from launch.nodes.started import EngineHead
from launch.supervision import events as ev

NODES = [NodeCommand(name, Path(f"{name}.key"), ("actorlearn", "node")) for name in ("a", "b")]

NODE: Any = object()


class FakeEngine:
    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, str] = {}

    def start(self, nodes: Any) -> None:
        self.started += [node.name for node in nodes]

    def gone(self) -> dict[str, str]:
        ended, self.ended = self.ended, {}
        return ended

    def close(self) -> None:
        """There is nothing to close."""


class Run:
    """A run whose nodes a fake engine has started; its head yields the events in ``told``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Head, "__init__", lambda *_: None)
        monkeypatch.setattr(Head, "events", lambda *_: self.tell())
        self.engine = FakeEngine()
        nothing: Any = None
        self.head = EngineHead(nothing, nothing, nothing, (), self.engine, NODES)
        self.head.nodes = {}
        self.told: list[NodeEvent] = []
        assert self.turn() == [] and self.engine.started == ["a", "b"]

    def tell(self) -> Iterator[NodeEvent]:
        told, self.told = self.told, []
        yield from told

    def turn(self) -> list[str]:
        """Return the reasons why the run cannot go on, from the events of one turn."""
        return [event.reason for event in self.head.events(0.0, 0.0) if isinstance(event, ev.CannotRun)]

    def begin(self) -> None:
        self.head.nodes, self.told = {"a": NODE, "b": NODE}, [ev.Begin()]
        assert self.turn() == []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(started, "ASK_EVERY_S", 0.0)
    return Run(monkeypatch)


def test_a_run_that_one_node_will_not_join_cannot_begin(run: Run) -> None:
    run.engine.ended = {"a": "no such command"}
    assert run.turn() == ["node a ended before the run began: no such command"]
    run.engine.ended = {"b": "no such command"}
    assert run.turn() == [], "the reason is given once"


def test_a_run_goes_on_while_there_is_a_node_or_one_may_come(run: Run) -> None:
    run.begin()
    run.engine.ended, run.head.nodes = {"a": "killed"}, {}
    assert run.turn() == [], "b may join anew"
    run.engine.ended, run.head.nodes = {"b": "killed"}, {"by-hand": NODE}
    assert run.turn() == []


def test_a_run_whose_nodes_are_all_gone_for_good_ends(run: Run) -> None:
    run.begin()
    run.engine.ended = {"a": "cancelled", "b": "cancelled"}
    assert run.turn() == [], "the head has not lost them yet"
    run.head.nodes = {}
    assert run.turn() == ["all nodes have ended for good; `actorlearn resume` continues the run on other nodes"]
    assert run.turn() == []
