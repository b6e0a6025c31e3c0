"""Suites ``learners`` and ``learners-dqn``: hours to 50 million steps by number of learners (Stooke & Abbeel 2018).

Tables 2 and 3. Cases are measured in turn, and hours are computed from rates. The table has the paper's hours below: of
a DGX-1 with a learner and 5 CPU cores for each GPU. Here all learners share this machine's cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport
from launch.bench.running import rate_of
from launch.machine.cores import begun_cores

STEPS = 50_000_000
WARMUP_S = 10.0
COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class System:
    """One row of a table of the paper."""

    topology: str
    """Name of a shipped topology in configs/atari."""
    paper_hours: tuple[float | None, ...]
    """The paper's hours for each number of learners in ``COUNTS``; None: not given."""
    keys: Callable[[int], tuple[str, ...]] = lambda _count: ()
    """Function that returns the keys for a number of learners."""


def values(batch: int, environments: int, *more: str) -> Callable[[int], tuple[str, ...]]:
    """Return a function of the number of learners, which returns the keys for value learning with DQN-Net.

    ``batch`` and ``environments`` are divided among the learners. The paper does not say how its batch is divided; a
    constant sum explains why its DQN-512 gains nothing from more than two. The number of environments is that of the
    paper's code, max(32, batch / 32) with horizon 4, so that a rollout brings one or two updates. Learning begins at
    once. The replay has a tenth of the paper's capacity, which costs as much time.
    """

    def keys(count: int) -> tuple[str, ...]:
        return (
            *("env.preset=stooke-abbeel", "model.name=dqn-net", "simulators.decorrelation_steps=2_000"),
            "evaluator.count=0",
            f"learners.count={count}",
            "simulators.count=2",
            f"simulators.envs={environments // (2 * count)}",
            f"replay.batch_size={batch // count}",
            "replay.base_batch_size=null",  # rates and epsilons below are for the batch of all learners
            f"replay.capacity_steps={100_000 // count}",
            f"replay.learning_starts_steps={batch // count}",
            *more,
        )

    return keys


def _sharing(count: int) -> tuple[str, ...]:
    return (f"learners.count={count}",)


EPSILON_RAINBOW = (
    *("model.noisy=0.0", "algorithm.epsilon_initial=1.0", "algorithm.epsilon_final=0.01"),
    *("algorithm.epsilon_steps=62_500", "algorithm.epsilon_hold_steps=20_000", "algorithm.epsilon_eval=0.001"),
    "optimizer.epsilon=9.765625e-6",
)
"""Keys that make configs/atari/rainbow.yaml epsilon-greedy, as it says; Adam's epsilon is 0.005 / batch (§5.4.1)."""

TABLE_2 = {
    "a2c": System("a2c", (3.8, 2.2, 1.2, 0.59), _sharing),
    "a3c": System("a3c", (None, 2.4, 1.3, 0.65), _sharing),
    "ppo": System("ppo", (4.4, 2.6, 1.5, 1.1), _sharing),
    "appo": System("appo", (None, 2.8, 1.5, 0.71), _sharing),
}
TABLE_3 = {
    "DQN-512": System("dqn", (8.3, 4.8, 3.1, 2.6), values(512, 32, "optimizer.learning_rate=7.5e-4")),
    "ε-Rainbow-512": System("rainbow", (14.1, 8.6, 6.6, 6.4), values(512, 32, *EPSILON_RAINBOW)),
    "C51-2048": System(
        "c51",
        (10.7, 6.0, 2.8, 1.8),
        values(2048, 64, "optimizer.learning_rate=4.2e-4", "optimizer.epsilon=4.8828125e-6"),
    ),
}


def learners(request: BenchmarkRequest) -> SuiteReport:
    """Hours to 50 million steps by number of learners, A2C, A3C, PPO and APPO, beside the paper's table 2."""
    return _report("learners", TABLE_2, request)


def learners_dqn(request: BenchmarkRequest) -> SuiteReport:
    """Hours to 50 million steps by number of learners, DQN, C51 and ε-Rainbow, beside the paper's table 3."""
    also = ("batch and environments are those of all learners together; DQN-512 asynchronously: 3.9 hours with four",)
    return _report("learners-dqn", TABLE_3, request, also)


def _report(
    suite: str, table: Mapping[str, System], request: BenchmarkRequest, also: tuple[str, ...] = ()
) -> SuiteReport:
    counts = [count for count in COUNTS if count <= max(2, begun_cores())]
    systems = dict(list(table.items())[::2]) if request.quick else table
    cases = {
        _case(name, count): partial(
            rate_of,
            shipped(f"atari/{system.topology}.yaml"),
            (*system.keys(count), *request.overrides, *_sharing(count)),
            request.seconds,
            WARMUP_S,
        )
        for name, system in systems.items()
        for count in counts
    }
    measured = interleave(cases, request.repetitions)
    rows = []
    for name, system in systems.items():
        ours = [f"{_hours(measured[_case(name, count)].median):.1f}" for count in counts]
        theirs = [_shown(system.paper_hours[COUNTS.index(count)]) for count in counts]
        rows += [(f"{name}, hours here", *ours), (f"{name}, hours in the paper", *theirs)]
    return SuiteReport(
        suite=suite,
        headings=("50 million steps", *(_learners(count) for count in counts)),
        rows=rows,
        bars=measured,
        unit="steps/s",
        notes=(
            "hours here: 50 million steps at the median rate; in the paper: a GPU and 5 cores to each learner",
            *also,
        ),
    )


def _case(name: str, count: int) -> str:
    return f"{name}, {_learners(count)}"


def _learners(count: int) -> str:
    return f"{count} learner{'s' if count > 1 else ''}"


def _hours(steps_per_s: float) -> float:
    return STEPS / steps_per_s / 3600


def _shown(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:g}"
