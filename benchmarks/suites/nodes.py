"""The suite ``nodes``: rates of learners on several nodes of this machine, compared with the same learners on one.

Each learner and its node are pinned to a core; more learners than cores share cores. The processor time of all
processes for a step is measured too, because it varies less than rates on a machine that others use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from statistics import median

import psutil

from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport, rate
from launch.bench.running import Running
from launch.errors import FailedError
from launch.plan.roles import first_processes
from launch.topology.load import load

WARMUP_S = 3.0
SMALL = (
    *("simulators.count=1", "simulators.envs=8", "inference.count=0", "evaluator.count=0"),
    *("trainer.threads=1", "checkpoint.every_steps=1_000_000_000", "checkpoint.every_s=null"),
)
"""Keys of each learner, which has two processes for one core."""
_EXCHANGES: Mapping[str, Mapping[str, str]] = {
    "alone": {"mode": "sync", "learners.count": "1"},
    "gossip with nobody": {"mode": "gossip", "gossip.graph": "none"},
    "gossip on a ring": {"mode": "gossip", "gossip.graph": "ring"},
    "in step": {"mode": "sync"},
}


def cases(overrides: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the keys of each case by name, without cases that contradict ``overrides``; raises FailedError if none."""
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


def nodes(request: BenchmarkRequest) -> SuiteReport:
    """Rates of learners with and without nodes on this machine; mode, gossip.graph and learners.count choose cases."""
    wanted = cases(request.overrides)
    turns: dict[str, Callable[[], float]] = {}
    cpu: dict[str, list[float]] = {}
    for name, keys in wanted.items():
        written = [f"{key}={value}" for key, value in keys.items()]
        many = ["nodes.listen=127.0.0.1:0", f"nodes.count={keys['learners.count']}"]
        for case, more, engine in ((name, [], None), (f"{name}, on nodes", many, "local")):
            own = (*SMALL, *request.overrides, *written, *more)
            turns[case] = partial(_measure, request.topology, own, request.seconds, engine, cpu.setdefault(case, []))
    rates = interleave(turns, request.repetitions)
    rows = []
    for name in wanted:
        without, on = rates[name], rates[f"{name}, on nodes"]
        spent, spent_on = cpu[name], cpu[f"{name}, on nodes"]
        fewer = [100 * (1 - there / here) for here, there in zip(without.values, on.values, strict=True)]
        dearer = [100 * (there / here - 1) for here, there in zip(spent, spent_on, strict=True)]
        cpu_shown = (f"{median(spent):.0f}", f"{median(spent_on):.0f}", _percents(dearer))
        rows.append((name, rate(without), rate(on), _percents(fewer), *cpu_shown))
    return SuiteReport(
        suite="nodes",
        headings=("steps/s", "without nodes", "on nodes", "less", "CPU us a step, without", "with", "more"),
        rows=rows,
        bars=rates,
        unit="steps/s",
        notes=(
            "a learner and its node are pinned to one core, which learners share where there are more than cores",
            "less, more: median of the differences within a turn, and the smallest and the largest",
        ),
        figures={"cpu_us_per_step": cpu},
    )


def _percents(values: Sequence[float]) -> str:
    return f"{median(values):.1f} % ({min(values):.1f} to {max(values):.1f})"


def _measure(topology: str, overrides: Sequence[str], seconds: float, engine: str | None, cpu: list[float]) -> float:
    """Measure a run; return its steps/s, and add the microseconds of processor time for a step to ``cpu``."""
    learners = {process.name: process.id.learner for process in first_processes(load(topology, overrides))}
    with Running(topology, overrides, engine=engine) as run:
        pin(run, learners)
        run.rate(0.0, WARMUP_S)
        before, spent_s = run.seen[-1]["env_steps"], cpu_s(run)
        found = run.rate(seconds)
        cpu.append(1e6 * (cpu_s(run) - spent_s) / (run.seen[-1]["env_steps"] - before))
    return found


def pin(run: Running, learners: Mapping[str, int]) -> None:
    """Pin the processes of each learner and of its node to a core."""
    allowed, head = sorted(os.sched_getaffinity(0)), psutil.Process(run.pid)
    for event in run.events("spawned"):
        core = allowed[learners[event["process"]] % len(allowed)]
        above = psutil.Process(event["pid"]).parents()
        agents = above[: above.index(head)] if event.get("node") else []
        for pid in (event["pid"], *(agent.pid for agent in agents)):
            for thread in psutil.Process(pid).threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, {core})


def cpu_s(run: Running) -> float:
    """Return the processor time of all processes of a run so far, in seconds."""
    head = psutil.Process(run.pid)
    times = [process.cpu_times() for process in (head, *head.children(recursive=True))]
    return sum(each.user + each.system for each in times)
