"""The suite ``training``: the rate of a topology, what limits it, and which keys may raise it.

The rate of a whole run is compared with the rates of simulation, inference and learning, each measured alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from launch.bench import SuiteRequest
from launch.bench.interleaved import interleave
from launch.bench.parts import Parts, bound
from launch.bench.report import SuiteReport, percent, rate
from launch.bench.running import Reading, Running, learning_soon

WARMUP_S = 5.0
"""Seconds of a run that are left out before each measurement."""
ADVICE = {
    "simulate": "simulators.count up to the cores; simulators.blocks: 2 lets them work while the trainer learns",
    "infer": "inference.count: 0 without a GPU; with inference servers, more inference.threads, or more "
    "simulators.envs for larger batches",
    "learn": "trainer.precision: bf16; trainer.threads up to the cores; simulators.blocks: 2",
    "copy": "fewer and larger blocks: algorithm.horizon, simulators.envs",
    "publish": "a longer algorithm.horizon: weights are published once an update",
}
"""Slowest stage -> keys that may help."""


def training(request: SuiteRequest) -> SuiteReport:
    """Measure the steps/s of training a topology, find the slowest stage, and name keys that may speed it up."""
    readings: list[Reading] = []
    pss_bytes: list[int] = []

    def train() -> float:
        with Running(request.topology, learning_soon(request.topology, request.overrides)) as run:
            readings.append(run.read(request.seconds, WARMUP_S))
            pss_bytes.append(run.pss_bytes())
        return readings[-1].steps_per_s

    with Parts(request.topology, request.overrides) as parts:
        alone = {"simulate": parts.simulate, "infer": parts.infer, "learn": parts.learn}
        if parts.topology.algorithm.epochs == 0:
            del alone["learn"]
        cases = {f"{part} alone": partial(measure, request.seconds) for part, measure in alone.items()}
        spread = interleave({**cases, "training": train}, request.repetitions)
    trained, simulated = spread["training"].median, spread["simulate alone"].median
    limit = bound([spread[case].median for case in cases])
    stage, process = slow_stage(readings[-1])
    notes = [f"rate if the parts took turns: {limit:,.0f} steps/s; training reaches {percent(trained / limit)} of it"]
    if parts.topology.simulators.blocks > 1:
        notes = [f"{notes[0]}; the parts overlap, because there are {parts.topology.simulators.blocks} blocks"]
    return SuiteReport(
        suite="training",
        headings=("part", "steps/s", "ratio to simulation"),
        rows=[(name, rate(measured), percent(measured.median / simulated)) for name, measured in spread.items()],
        bars=spread,
        unit="steps/s",
        notes=(
            *notes,
            "shares of wall time in the last repetition:",
            *shares(readings[-1]),
            f"slowest stage: {stage}, in {process}; keys that may help: {ADVICE[stage]}",
            f"memory: {max(pss_bytes) / 1e9:.2f} GB resident, shared pages counted once",
        ),
        figures={
            "topology": parts.topology.name,
            "bound_steps_per_s": limit,
            "share_of_simulation": trained / simulated,
            "share_of_bound": trained / limit,
            "slow_stage": stage,
            "slow_process": process,
            "wall_shares": {name: dict(sections) for name, sections in readings[-1].wall.items()},
            "cpu_cores": dict(readings[-1].cpu),
            "pss_bytes": max(pss_bytes),
        },
    )


def shares(reading: Reading) -> list[str]:
    """Return a line for each process, with its share of time in each stage, and the cores that it used."""
    return [
        f"{name}: "
        + ", ".join(f"{stage} {percent(share)}" for stage, share in sections.items() if share >= 0.005)
        + f"; {reading.cpu.get(name, 0.0):.2f} cores of CPU time"
        for name, sections in reading.wall.items()
    ]


def slow_stage(reading: Reading) -> tuple[str, str]:
    """Return the stage that limits the rate, and the name of its process.

    It is the stage with the most time in the process that waits the least, because the others wait for that one.
    Evaluators are excluded, because no process waits for them.
    """
    waits = {name: shares["wait"] for name, shares in reading.wall.items() if sum(shares.values()) > 0}
    process = min((name for name in waits if reading.roles.get(name) != "evaluator"), key=lambda name: waits[name])
    work: Mapping[str, float] = {stage: share for stage, share in reading.wall[process].items() if stage != "wait"}
    return max(work, key=lambda stage: work[stage]), process
