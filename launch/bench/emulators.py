"""The suite ``emulators``: rates with EnvPool, and with ale-py or gymnasium, which simulate an environment by default.

It measures simulation alone, with random actions in as many processes as the topology has simulators, and whole runs.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

from launch.bench import SuiteRequest
from launch.bench.interleaved import interleave
from launch.bench.parts import Parts
from launch.bench.report import SuiteReport, rate
from launch.bench.running import rate_of
from launch.errors import FailedError
from launch.topology.load import load

WARMUP_S = 5.0


def emulators(request: SuiteRequest) -> SuiteReport:
    """Compare EnvPool with ale-py or gymnasium: the steps/s of simulation alone, and of training."""
    if find_spec("envpool") is None:
        raise FailedError("bench emulators: envpool is not installed: pip install 'actorlearn[envpool]'")
    env_id = load(request.topology, request.overrides).env.id.removeprefix("envpool:")
    paths = (env_id, f"envpool:{env_id}")
    cases = {}
    with ExitStack() as stack:
        for path in paths:
            keys = (*request.overrides, f"env.id={path}")
            parts = stack.enter_context(Parts(request.topology, keys))
            cases[f"{path}, simulation alone"] = partial(parts.simulate, request.seconds)
            cases[f"{path}, training"] = partial(rate_of, request.topology, keys, request.seconds, WARMUP_S)
        spread = interleave(cases, request.repetitions)
    rows = []
    for what in ("simulation alone", "training"):
        plain, pooled = (spread[f"{path}, {what}"] for path in paths)
        rows.append((env_id, what, rate(plain), rate(pooled), f"{pooled.median / plain.median:.2f}"))
    headings = ("environment", "what", "steps/s", "steps/s, EnvPool", "ratio")
    return SuiteReport("emulators", headings, rows, spread, "steps/s")
