"""The suite ``gpu``: rates of a topology and of its parts alone, on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from launch.bench.measure.interleaved import interleave
from launch.bench.measure.parts import Parts
from launch.bench.measure.report import Report, rate
from launch.bench.measure.request import Request
from launch.bench.measure.running import rate_of
from launch.machine.cores import begun_cores

WARMUP_S = 5.0
ENVIRONMENTS = (32, 128)
"""Environments of each simulator: a GPU needs larger batches than a core."""


def gpu(request: Request) -> Report:
    """Inference, learning and whole runs with inference and trainer on a CUDA device, beside the CPU."""
    cores = begun_cores()
    spread = {}
    with ExitStack() as opened:
        cases: dict[str, Callable[[], float]] = {}
        for envs in ENVIRONMENTS[:1] if request.quick else ENVIRONMENTS:
            for device, servers in (("cpu", 0), ("cuda", 1)):
                shape = (f"simulators.count={cores}", f"simulators.envs={envs}", f"inference.count={servers}")
                devices = (f"inference.device={device}", f"trainer.device={device}")
                keys = (*request.overrides, *shape, *devices)
                parts = opened.enter_context(Parts(request.topology, keys))
                name = f"{cores} x {envs}, {device}"
                cases[f"{name}: infer alone"] = partial(parts.infer, request.seconds)
                cases[f"{name}: learn alone"] = partial(parts.learn, request.seconds)
                cases[f"{name}: training"] = partial(rate_of, request.topology, keys, request.seconds, WARMUP_S)
            cases[f"{cores} x {envs}: simulate alone"] = partial(parts.simulate, request.seconds)
        spread = interleave(cases, request.repetitions)
    rows = [(name, rate(measured)) for name, measured in spread.items()]
    return Report("gpu", ("case", "steps/s"), rows, spread, "steps/s")
