"""The suite ``learners``: hours to 50 million steps by number of learners (Stooke & Abbeel 2018, table 2).

Rates are measured, interleaved; hours are worked out from them. The paper's figures stand below ours: a DGX-1 with 5
CPU cores to each of its GPUs, one learner to a GPU. Here all learners share this machine's cores.
"""

from __future__ import annotations

from functools import partial

from launch.bench.interleaved import interleave
from launch.bench.report import Report
from launch.bench.request import Request, shipped
from launch.bench.running import rate_of
from launch.defaults import allowed_cores

STEPS = 50_000_000
WARMUP_S = 5.0
COUNTS = (1, 2, 4, 8)
ALGORITHMS = ("a2c", "a3c", "ppo", "appo")
"""Shipped topologies under configs/atari."""
PAPER_HOURS = {
    "a2c": (3.8, 2.2, 1.2, 0.59),
    "a3c": (None, 2.4, 1.3, 0.65),
    "ppo": (4.4, 2.6, 1.5, 1.1),
    "appo": (None, 2.8, 1.5, 0.71),
}


def learners(request: Request) -> Report:
    """Hours to 50 million steps by number of learners, A2C, A3C, PPO and APPO, beside the paper's table 2."""
    counts = [count for count in COUNTS if count <= max(2, allowed_cores())]
    names = ALGORITHMS[::2] if request.quick else ALGORITHMS
    cases = {
        (name, count): partial(
            rate_of,
            shipped(f"atari/{name}.yaml"),
            (*request.overrides, f"learners.count={count}"),
            request.seconds,
            WARMUP_S,
        )
        for name in names
        for count in counts
    }
    measured = interleave({_case(*case): measure for case, measure in cases.items()}, request.repetitions)
    rows = []
    for name in names:
        ours = [f"{_hours(measured[_case(name, count)].median):.1f}" for count in counts]
        theirs = [_shown(PAPER_HOURS[name][COUNTS.index(count)]) for count in counts]
        rows += [(f"{name}, hours here", *ours), (f"{name}, hours in the paper", *theirs)]
    return Report(
        suite="learners",
        headings=("50 million steps", *(_learners(count) for count in counts)),
        rows=rows,
        bars=measured,
        unit="steps/s",
        notes=("hours here: 50 million steps at the median rate; in the paper: a GPU and 5 cores to each learner",),
    )


def _case(name: str, count: int) -> str:
    return f"{name}, {_learners(count)}"


def _learners(count: int) -> str:
    return f"{count} learner{'s' if count > 1 else ''}"


def _hours(steps_per_s: float) -> float:
    return STEPS / steps_per_s / 3600


def _shown(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:g}"
