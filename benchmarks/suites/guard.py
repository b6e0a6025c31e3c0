"""The suite ``guard``: fails if training has become slower than at earlier commits.

The measure is a share: the rate of training divided by the rate of its parts (simulation, inference, learning) if they
took turns. Parts and training are measured in turn, so that a slow or busy machine lowers both. Each measurement is a
line of ``guard.jsonl`` in the folder of ``-o``. The suite fails if training has lost more than ``LOSS`` of the share
that earlier commits had in this folder and on this kind of machine. Shares of single repetitions differ by 10 %, so a
loss must also be significant: use nine repetitions or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.kept import keep_result, read_results
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import Spread, interleave
from launch.bench.parts import Parts, bound
from launch.bench.report import SuiteReport, show
from launch.bench.running import rate_of
from launch.bench.training import WARMUP_S
from launch.errors import FailedError, RunError
from launch.plan.auto import BF16_PRODUCTS, cpu_flags
from launch.reports.statistics import interval, probability_of_improvement
from launch.runtime.metadata import machine

CASES = {
    "PAAC": ("atari/paac.yaml", ()),
    "PPO": ("pong-fast.yaml", ("evaluator.count=0",)),
    "DQN": (
        "atari/fast-dqn.yaml",
        (
            *("evaluator.count=0", "algorithm.target_every_steps=1_000", "algorithm.horizon=125"),
            *("replay.learning_starts_steps=1_000", "replay.capacity_steps=100_000"),
            *("simulators.count=2", "simulators.envs=4"),
        ),
    ),
}
"""Case -> topology and overrides; DQN learns from the beginning of the measurement."""
LOSS = 0.05
HEADINGS = ("case", "share of its parts in turn", "before", "commit of the last measurement", "verdict")


@dataclass(frozen=True)
class Guarded:
    """The shares of one case at one commit."""

    case: str
    machine: str
    shares: tuple[float, ...]
    """Rate of training divided by the rate of its parts in turn, for each repetition."""
    slower: bool
    """Whether this commit had lost more than LOSS; later measurements are then not compared with it."""
    commit: str = ""
    """The commit; set when the result is written to the file."""


def guard(request: BenchmarkRequest) -> SuiteReport:
    """Training of PAAC, PPO and DQN as a share of its parts; fails if a share is 5 % lower than before. Needs -o."""
    if request.output is None:
        raise RunError(
            "guard compares with the measurements of earlier commits: name the folder that keeps them, with -o"
        )
    earlier = read_results(request, "guard", Guarded)
    here = kind_of_machine()
    rows, spreads, lost = [], {}, []
    for case, (file, overrides) in CASES.items():
        shares = measure_shares(shipped(file), overrides, request)
        known = [one for one in earlier if (one.case, one.machine, one.slower) == (case, here, False)]
        slower = is_slower(shares, known)
        keep_result(request, "guard", Guarded(case, here, tuple(shares), slower))
        spreads[case] = Spread(tuple(shares))
        before = median(share for one in known for share in one.shares) if known else None
        last = known[-1].commit[:7] if known else "-"
        told = "slower" if slower else "as before" if known else "first on this kind of machine"
        rows.append((case, _written(shares), f"{before:.3f}" if before else "-", last, told))
        if slower:
            lost.append(f"{case}: training reaches {_written(shares)} of its parts, {before:.3f} up to commit {last}")
    notes = (f"machine: {here}", "before: median share of earlier measurements in the folder of -o")
    report = SuiteReport("guard", HEADINGS, rows, spreads, "share of the parts in turn", notes)
    if lost:
        show(report)
        raise FailedError(f"slower by more than {LOSS:.0%}: {'; '.join(lost)}")
    return report


def is_slower(shares: Sequence[float], earlier: Sequence[Guarded]) -> bool:
    """Return whether the median share is lower than the earlier ones by more than LOSS, and significantly.

    Not significant: the 95 % bootstrap interval of the probability that a share exceeds an earlier one contains 1/2.
    """
    before = [share for one in earlier for share in one.shares]
    if not before or median(shares) >= (1 - LOSS) * median(before):
        return False
    return interval(probability_of_improvement, [shares], [before]).high < 0.5


def kind_of_machine() -> str:
    """Return a text on what shares depend on: number of cores, processor, and whether it computes in bf16."""
    found = machine()
    native = any(flag in cpu_flags() for flag in BF16_PRODUCTS)
    return f"{found['usable_cores']} cores of {found['cpu']}, {'with' if native else 'without'} products in bf16"


def measure_shares(topology: str, overrides: Sequence[str], request: BenchmarkRequest) -> list[float]:
    """Return, for each repetition, the rate of training divided by the rate of its parts in turn."""
    with Parts(topology, overrides) as parts:
        alone = {"simulate": parts.simulate, "infer": parts.infer, "learn": parts.learn}
        cases = {part: partial(measure, request.seconds) for part, measure in alone.items()}
        cases["training"] = partial(rate_of, topology, tuple(overrides), request.seconds, WARMUP_S)
        found = interleave(cases, request.repetitions)
    rates = zip(*(found[case].values for case in cases), strict=True)
    return [training / bound(parts_alone) for *parts_alone, training in rates]


def _written(shares: Sequence[float]) -> str:
    return f"{median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"
