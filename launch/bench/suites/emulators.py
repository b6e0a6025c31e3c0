"""The suite ``emulators``: the same environments by EnvPool and by the path that needs no extra, in turn and again.

Atari is ``configs/pong.yaml``, by ale-py and by EnvPool; CartPole is ``configs/cartpole.yaml``, by gymnasium and by
EnvPool.
Simulation alone is as many processes as the topology has simulators, with random actions; training is the whole run.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

from launch.bench.measure.interleaved import interleave
from launch.bench.measure.parts import Parts
from launch.bench.measure.report import Report, rate
from launch.bench.measure.request import Request, shipped
from launch.bench.measure.running import rate_of
from launch.errors import FailedError

PATHS = {
    "pong.yaml": ("ALE/Pong-v5", "envpool:ALE/Pong-v5"),
    "cartpole.yaml": ("CartPole-v1", "envpool:CartPole-v1"),
}
"""Shipped topology -> ids of one environment by two paths."""
WARMUP_S = 5.0


def emulators(request: Request) -> Report:
    """Simulation alone and training on EnvPool's environments, beside ale-py's and gymnasium's."""
    if find_spec("envpool") is None:
        raise FailedError("bench emulators: envpool is not installed: pip install 'actorlearn[envpool]'")
    cases = {}
    with ExitStack() as stack:
        for name, ids in PATHS.items():
            for env_id in ids:
                path, keys = shipped(name), (f"env.id={env_id}", *request.overrides)
                parts = stack.enter_context(Parts(path, keys))
                cases[f"{env_id}, simulation alone"] = partial(parts.simulate, request.seconds)
                cases[f"{env_id}, training"] = partial(rate_of, path, keys, request.seconds, WARMUP_S)
        spread = interleave(cases, request.repetitions)
    rows = []
    for ids in PATHS.values():
        for what in ("simulation alone", "training"):
            plain, pooled = (spread[f"{env_id}, {what}"] for env_id in ids)
            rows.append((ids[0], what, rate(plain), rate(pooled), f"{pooled.median / plain.median:.2f}"))
    headings = ("environment", "what", "steps/s", "steps/s, EnvPool", "ratio")
    return Report("emulators", headings, rows, spread, "steps/s")
