"""The suite ``fast-dqn``: DQN's four ways by number of environments (Daley and Amato 2021, tables 1 to 3).

Rates are measured, interleaved; hours are worked out from them. The paper's stand below ours: 4 cores (8 threads) and a
GTX 1080, one thread to each environment, and epsilon fixed at 0.1 as here. A rollout is a tenth of the paper's 10,000
steps between two target networks, so that a measurement sees several; the work a step brings is the same.
"""

from __future__ import annotations

from functools import partial

from launch.bench.measure.interleaved import interleave
from launch.bench.measure.report import Report
from launch.bench.measure.request import Request, shipped
from launch.bench.measure.running import rate_of
from launch.machine.cores import begun_cores

STEPS = 50_000_000
COUNTS = (1, 2, 4, 8)
PERIOD_STEPS = 1_000
UPDATE_STEPS = 4
"""Between two minibatches (the paper's F): with fewer environments than that a rollout has several steps of each."""
WARMUP_S = 10.0
PAPER_HOURS = {
    "standard": (25.08, 19.10, 16.84, 16.92),
    "concurrent": (20.64, 14.00, 12.14, 11.68),
    "synchronised": (None, 19.32, 15.74, 14.60),
    "both": (None, 14.72, 11.08, 9.02),
}
"""Table 1: mean hours of 50 million steps. A single environment has no others to be synchronised with."""
CONCURRENT, BY_THEMSELVES = ("concurrent", "both"), ("standard", "concurrent")
SOON = (
    "evaluator.count=0",
    f"algorithm.target_every_steps={PERIOD_STEPS}",
    f"replay.learning_starts_steps={PERIOD_STEPS}",
    "replay.capacity_steps=100_000",
    "algorithm.epsilon_initial=0.1",
    "algorithm.epsilon_final=0.1",
)
"""Keys by which learning, and so a measurement, begins at once."""


def keys(way: str, environments: int) -> tuple[str, ...]:
    """Overrides of configs/atari/fast-dqn.yaml."""
    processes = min(environments, 2, begun_cores())
    each = environments // processes
    concurrent = way in CONCURRENT
    return (
        *SOON,
        f"simulators.count={processes}",
        f"simulators.envs={each}",
        f"simulators.groups={each if way in BY_THEMSELVES else 1}",
        f"simulators.blocks={2 if concurrent else 1}",
        f"simulators.weights={'rollout' if concurrent else 'newest'}",
        f"algorithm.horizon={PERIOD_STEPS // environments if concurrent else max(1, UPDATE_STEPS // environments)}",
    )


def fast_dqn(request: Request) -> Report:
    """Hours to 50 million steps of DQN, standard, concurrent, synchronised and both, beside the paper's tables."""
    counts = COUNTS[-1:] if request.quick else COUNTS
    topology = shipped("atari/fast-dqn.yaml")
    cases = {
        _case(way, count): partial(
            rate_of, topology, (*keys(way, count), *request.overrides), request.seconds, WARMUP_S
        )
        for count in counts
        for way, hours in PAPER_HOURS.items()
        if hours[COUNTS.index(count)]
    }
    measured = interleave(cases, request.repetitions)
    first = measured[_case("standard", counts[0])].median
    paper_first = PAPER_HOURS["standard"][COUNTS.index(counts[0])] or 1.0
    rows = []
    for way, hours in PAPER_HOURS.items():
        ours = [measured[_case(way, n)].median if _case(way, n) in measured else None for n in counts]
        theirs = [hours[COUNTS.index(n)] for n in counts]
        rows += [
            (f"{way}, here", *(f"{STEPS / r / 3600:.1f} h, {r / first:.2f}x" if r else "-" for r in ours)),
            (f"{way}, in the paper", *(f"{h:.1f} h, {paper_first / h:.2f}x" if h else "-" for h in theirs)),
        ]
    return Report(
        suite="fast-dqn",
        headings=("50 million steps", *(_environments(count) for count in counts)),
        rows=rows,
        bars=measured,
        unit="steps/s",
        notes=(
            f"here: hours at the median rate, speed-up over standard with {_environments(counts[0])}; rollouts of "
            f"{PERIOD_STEPS:,} steps, 8 samples learned from a step. In the paper: 4 cores and a GTX 1080",
        ),
    )


def _case(way: str, environments: int) -> str:
    return f"{way}, {_environments(environments)}"


def _environments(count: int) -> str:
    return f"{count} environment{'s' if count > 1 else ''}"
