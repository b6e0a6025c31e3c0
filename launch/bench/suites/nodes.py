"""The suite ``nodes``: learners on nodes of this machine beside the same learners without nodes.

Each learner and its node are pinned to a core; learners share cores where there are more of them. The processor time of
what supervises (head and agents, or the sole supervisor) is measured too: rates vary by more than a node costs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from statistics import median

import psutil

from launch.bench.measure.interleaved import Spread, interleave
from launch.bench.measure.report import Report, rate
from launch.bench.measure.request import Request
from launch.bench.measure.running import Running
from launch.errors import FailedError
from launch.plan.processes import first_processes
from launch.topology.load import load

WARMUP_S = 3.0
SMALL = (
    *("simulators.count=1", "simulators.envs=8", "inference.count=0", "evaluator.count=0"),
    *("trainer.threads=1", "checkpoint.every_steps=1_000_000_000"),
)
"""Keys of each learner: two processes for one core."""
_EXCHANGES: Mapping[str, Mapping[str, str]] = {
    "alone": {"mode": "sync", "learners.count": "1"},
    "gossip with nobody": {"mode": "gossip", "gossip.graph": "none"},
    "gossip on a ring": {"mode": "gossip", "gossip.graph": "ring"},
    "in step": {"mode": "sync"},
}


def cases(overrides: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return name of a case -> its keys, without cases that contradict ``overrides``; raises FailedError for none."""
    wanted = dict(override.split("=", 1) for override in overrides)
    found = {}
    for name, exchange in _EXCHANGES.items():
        for learners in ("1",) if name == "alone" else ("2", "4"):
            keys = {**exchange, "learners.count": learners}
            if all(wanted.get(key, value) == value for key, value in keys.items()):
                found[name if name == "alone" else f"{learners} {name}"] = keys
    if not found:
        raise FailedError(
            f"{' '.join(overrides)}: no case has these keys; leave mode, gossip.graph or learners.count out"
        )
    return found


def nodes(request: Request) -> Report:
    """Rates of learners on nodes of this machine beside the same without nodes; keys of a case choose among cases."""
    wanted = cases(request.overrides)
    turns: dict[str, Callable[[], float]] = {}
    busy: dict[str, list[float]] = {}
    for name, keys in wanted.items():
        written = [f"{key}={value}" for key, value in keys.items()]
        many = ["nodes.listen=127.0.0.1:0", f"nodes.count={keys['learners.count']}"]
        for case, more, engine in ((name, [], None), (f"{name}, on nodes", many, "local")):
            own = (*SMALL, *request.overrides, *written, *more)
            spent = busy.setdefault(case, [])
            turns[case] = partial(_measure, request.topology, own, request.seconds, engine, spent)
    rates = interleave(turns, request.repetitions)
    rows = []
    for name in wanted:
        without, on = rates[name], rates[f"{name}, on nodes"]
        less = Spread(tuple(100 * (1 - there / here) for here, there in zip(without.values, on.values, strict=True)))
        shown = f"{less.median:.1f} % ({less.low:.1f} to {less.high:.1f})"
        supervising = (f"{median(busy[case]):.3f}" for case in (name, f"{name}, on nodes"))
        rows.append((name, rate(without), rate(on), shown, *supervising))
    return Report(
        suite="nodes",
        headings=(
            "steps/s",
            "without nodes",
            "on nodes",
            "less on nodes",
            "supervisor, cores",
            "head and agents, cores",
        ),
        rows=rows,
        bars=rates,
        unit="steps/s",
        notes=(
            "a learner and its node are pinned to one core, which learners share where there are more than cores",
            "less on nodes: median of the differences within a turn, and the smallest and the largest",
        ),
        figures={"supervision_cores": busy},
    )


def _measure(topology: str, overrides: Sequence[str], seconds: float, engine: str | None, busy: list[float]) -> float:
    """Return the steps a second of a run; adds to ``busy`` the cores that supervision kept busy meanwhile."""
    learners = {process.name: process.id.learner for process in first_processes(load(topology, overrides))}
    with Running(topology, overrides, engine=engine) as run:
        supervising = pin(run, learners)
        spent_s, began_s = _cpu_s(supervising), time.monotonic()
        found = run.rate(seconds, WARMUP_S)
        busy.append((_cpu_s(supervising) - spent_s) / (time.monotonic() - began_s))
    return found


def pin(run: Running, learners: Mapping[str, int]) -> set[psutil.Process]:
    """Pin each learner's processes, and its node's, to a core; returns the processes that supervise."""
    allowed, head = sorted(os.sched_getaffinity(0)), psutil.Process(run.pid)
    supervising = {head}
    for event in run.events("spawned"):
        core = allowed[learners[event["process"]] % len(allowed)]
        above = psutil.Process(event["pid"]).parents()
        agents = above[: above.index(head)]
        supervising |= set(agents)
        for pid in (event["pid"], *(agent.pid for agent in agents if event.get("node"))):
            for thread in psutil.Process(pid).threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, {core})
    return supervising


def _cpu_s(processes: Collection[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)
