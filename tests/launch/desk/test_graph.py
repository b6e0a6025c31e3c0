"""The processes of a run, as its events describe them, and the graph that the desk draws of them."""

from __future__ import annotations

from typing import Any

import pytest

from launch.desk.cast import Cast
from launch.desk.graph import MOST_BOXES, graph
from tests.launch.desk.folders import DIED, SPAWNED


def cast(*events: dict[str, Any]) -> Cast:
    found = Cast()
    for event in (*SPAWNED, *events):
        found.note(event)
    return found


def event(kind: str, process: str, incarnation: int = 0, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "process": process, "incarnation": incarnation, **more}


def spawned(name: str, role: str, learner: int, incarnation: int = 0) -> dict[str, Any]:
    return event("spawned", name, incarnation, role=role, learner=learner, pid=1)


def states(found: Cast, told: Any = (), alive: bool = True) -> dict[str, str]:
    return {own.name: own.state for own in found.processes(told, alive)}


def test_a_process_dies_comes_back_and_leaves() -> None:
    found = cast(event("ready", "trainer"), event("ready", "simulator-1"), DIED)
    assert states(found) == {"trainer": "running", "simulator-0": "starting", "simulator-1": "died"}
    found.note(spawned("simulator-1", "simulator", 0, incarnation=1))
    found.note(event("restarted", "simulator-1", 1))
    died = found.processes((), True)[2]
    assert (died.state, died.incarnation, died.deaths, died.cause) == ("running", 1, 1, "signal 9")
    found.note(event("detached", "simulator-0"))
    assert list(states(found)) == ["trainer", "simulator-1"]
    assert set(states(found, alive=False).values()) == {"exited"}


def test_states_from_the_supervisor_replace_those_of_events_and_a_resume_clears_all() -> None:
    found = cast()
    told = [{"name": "trainer", "state": "backoff", "busy": 0.5, "pid": 9}, {"name": "unheard of"}]
    assert states(found, told)["trainer"] == "backoff"
    assert states(found, None)["trainer"] == "backoff", "a supervisor that does not answer changes nothing"
    found.note(event("resumed", ""))
    assert states(found) == {}


def test_lines_show_rates_and_lags_and_boxes_show_deaths() -> None:
    found = cast(event("ready", "trainer"), event("ready", "simulator-0"), DIED)
    row = {"env_steps_per_s": 1000.0, "policy_lag_mean": 1.5, "env_steps": 640, "updates": 4}
    meta = {"observation_bytes": 1024, "weights_bytes": 16 * 2**20}
    drawn = graph(found.processes((), True), row, {"mode": "sync"}, meta)
    boxes = {box["name"]: box for box in drawn["boxes"]}
    assert boxes["simulator-1"]["said"] == "died, 1 death" and boxes["simulator-1"]["cause"] == "signal 9"
    assert boxes["trainer"]["column"] > boxes["simulator-0"]["column"]
    said = {line["kind"]: line["said"] for line in drawn["lines"] if line["said"]}
    assert said == {"experience": "1,000 steps/s · 1000.0 KiB/s", "weights": "lag 1.500 · 100.0 MiB/s"}
    ways = {(line["from"], line["to"]) for line in drawn["lines"]}
    assert ("simulator-1", "trainer") in ways and ("trainer", "simulator-0") in ways


def test_a_box_says_first_how_busy_a_process_is_and_counts_a_death_and_its_restart_once() -> None:
    found = cast(DIED, spawned("simulator-1", "simulator", 0, incarnation=1), event("restarted", "simulator-1", 1))
    told = [{"name": "simulator-1", "state": "running", "busy": 0.8}]

    def said() -> str:
        boxes = graph(found.processes(told, True), {}, {}, {})["boxes"]
        return str(next(box["said"] for box in boxes if box["name"] == "simulator-1"))

    assert said() == "running, 80% busy, 1 restart"
    told.clear()
    found.note({**DIED, "incarnation": 1})
    assert said() == "died, 80% busy, 1 restart, 2 deaths"


def test_processes_in_the_same_ordinary_state_share_a_box_and_others_have_their_own() -> None:
    many = [spawned(f"simulator-{n}", "simulator", 0) for n in range(20)]
    found = cast(*many, *(event("ready", f"simulator-{n}") for n in range(12)), DIED)
    boxes = graph(found.processes((), True), {}, {}, {"observation_bytes": "many"})["boxes"]
    assert [box["name"] for box in boxes] == ["trainer", "simulator-1", "11 × simulator", "8 × simulator"]
    assert [box["state"] for box in boxes] == ["starting", "died", "running", "starting"]
    assert len({box["id"] for box in boxes}) == len(boxes) < MOST_BOXES


def learners(mode: str, count: int, **keys: Any) -> dict[str, Any]:
    """The graph of a run of several learners, each with a simulator."""
    found = Cast()
    for learner in range(count):
        found.note(spawned(f"trainer-{learner}", "trainer", learner))
        found.note(spawned(f"simulator-{learner}", "simulator", learner))
    each = {
        f"trainer-{n}": {"env_steps_per_s": 100.0 + n, "policy_lag_mean": 0.0, "bytes_sent": 4096, "staleness_mean": n}
        for n in range(count)
    }
    return graph(found.processes((), True), {"learners": each}, {"mode": mode, "report": {"every_s": 2}, **keys}, {})


def exchange(drawn: dict[str, Any]) -> list[tuple[str, str]]:
    return [(line["from"], line["to"]) for line in drawn["lines"] if line["kind"] == "exchange"]


@pytest.mark.parametrize(
    "keys, edges",
    [
        ({}, [(2, 0), (0, 1), (1, 2)]),
        ({"gossip": {"graph": "none"}}, []),
        ({"gossip": {"graph": [[1], [], [0, 1]]}}, [(1, 0), (0, 2), (1, 2)]),
        ({"gossip": {"graph": "complete"}}, [(1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2)]),
        ({"gossip": {"graph": 7}}, []),
        ({"gossip": {"graph": "star"}}, []),
    ],
)
def test_gossip_is_drawn_as_the_edges_of_its_graph(keys: dict[str, Any], edges: list[tuple[int, int]]) -> None:
    drawn = learners("gossip", 3, **keys)
    assert exchange(drawn) == [(f"trainer-{begin}", f"trainer-{end}") for begin, end in edges]
    said = {line["from"]: line["said"] for line in drawn["lines"] if line["kind"] == "exchange" and line["said"]}
    told = {"trainer-0": "0.0", "trainer-1": "1.000", "trainer-2": "2.000"}
    assert said == {begin: f"staleness {told[begin]} · 2.0 KiB/s" for begin in said}
    assert len(said) == len({begin for begin, _ in edges})


@pytest.mark.parametrize("mode, name", [("sync", "mean of gradients"), ("async", "store of weights")])
def test_learners_without_servers_exchange_through_a_box_that_stands_for_memory(mode: str, name: str) -> None:
    drawn = learners(mode, 2)
    (memory,) = [box for box in drawn["boxes"] if box["role"] == "memory"]
    assert memory["name"] == name and memory["processes"] == []
    assert exchange(drawn) == [("trainer-0", "exchange"), ("trainer-1", "exchange")]
    rates = [line["said"] for line in drawn["lines"] if line["kind"] == "experience"]
    assert rates == ["100 steps/s", "101 steps/s"]


def test_one_learner_exchanges_with_nobody() -> None:
    assert exchange(learners("sync", 1)) == []
