"""Suites of Fast DQN (Daley and Amato 2021).

``fast-dqn`` measures its four ways by number of environments (tables 1 to 3), ``fast-dqn-learning`` their scores,
``fast-dqn-games`` the scores of two games (table 4), and ``fast-dqn-repeated`` whether a run repeats bit by bit.

Cases are measured in turn, and hours are computed from rates. The table has the paper's hours below: with 4 cores
(8 threads), a GTX 1080, a thread for each environment, and epsilon fixed at 0.1 as here. A rollout is a tenth of the
paper's 10,000 steps between two target networks, so that a measurement has several; the work of a step is the same.

Unlike in the authors' code, ``standard`` and ``synchronised`` act with the newest weights, not with the target network.
8 environments learn two minibatches every 8 steps, where the code joins its threads every 4; this baseline is faster.
At most two simulator processes play, and each has its own batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.learning import learn
from benchmarks.papers.dba3c_learning import ONLINE
from benchmarks.request import BenchmarkRequest, shipped
from launch.bench.interleaved import interleave
from launch.bench.report import SuiteReport
from launch.bench.running import Running, rate_of
from launch.errors import FailedError
from launch.machine.cores import begun_cores
from launch.runs.jsonl import read_object

STEPS = 50_000_000
COUNTS = (1, 2, 4, 8)
GAMES = ("ALE/Pong-v5", "ALE/Breakout-v5")
PERIOD_STEPS = 1_000
UPDATE_STEPS = 4
"""Steps between two minibatches (F in the paper); with fewer environments, a rollout has several steps of each."""
WARMUP_S = 10.0
PAPER_HOURS = {
    "standard": (25.08, 19.10, 16.84, 16.92),
    "concurrent": (20.64, 14.00, 12.14, 11.68),
    "synchronised": (None, 19.32, 15.74, 14.60),
    "both": (None, 14.72, 11.08, 9.02),
}
"""Table 1: mean hours for 50 million steps. A single environment cannot be synchronised with others."""
CONCURRENT, BY_THEMSELVES = ("concurrent", "both"), ("standard", "concurrent")
SOON = (
    "evaluator.count=0",
    f"algorithm.target_every_steps={PERIOD_STEPS}",
    f"replay.learning_starts_steps={PERIOD_STEPS}",
    "replay.capacity_steps=100_000",
    "algorithm.epsilon_initial=0.1",
    "algorithm.epsilon_final=0.1",
)
"""Keys with which learning begins at once, so that the warm-up is short."""

REPEATED: Mapping[str, tuple[int, Sequence[str]]] = {
    "seed 1, all cores": (1, ()),
    "seed 1, one core": (1, ("taskset", "--cpu-list", "0")),
    "seed 2, all cores": (2, ()),
}
"""Name of a run of ``fast-dqn-repeated`` -> its seed, and the command that is put before its own."""


def keys(way: str, environments: int) -> tuple[str, ...]:
    """Return overrides of configs/atari/fast-dqn.yaml with which learning begins at once."""
    return (*SOON, *shape(way, environments))


def shape(way: str, environments: int) -> tuple[str, ...]:
    """Return the keys of one of the four ways: which processes wait for which, and which weights act."""
    processes = min(environments, 2, begun_cores())
    each = environments // processes
    concurrent = way in CONCURRENT
    return (
        f"simulators.count={processes}",
        f"simulators.envs={each}",
        f"simulators.groups={each if way in BY_THEMSELVES else 1}",
        f"simulators.blocks={2 if concurrent else 1}",
        f"simulators.weights={'rollout' if concurrent else 'newest'}",
        f"algorithm.horizon={PERIOD_STEPS // environments if concurrent else max(1, UPDATE_STEPS // environments)}",
    )


def fast_dqn(request: BenchmarkRequest) -> SuiteReport:
    """Hours to 50 million steps of DQN, standard, concurrent, synchronised and both, beside the paper's tables."""
    counts = COUNTS[-1:] if request.quick else COUNTS
    topology = shipped("atari/fast-dqn.yaml")
    cases = {
        case(way, count): partial(rate_of, topology, (*keys(way, count), *request.overrides), request.seconds, WARMUP_S)
        for count in counts
        for way, hours in PAPER_HOURS.items()
        if hours[COUNTS.index(count)]
    }
    measured = interleave(cases, request.repetitions)
    first = measured[case("standard", counts[0])].median
    paper_first = PAPER_HOURS["standard"][COUNTS.index(counts[0])] or 1.0
    rows = []
    for way, hours in PAPER_HOURS.items():
        ours = [measured[case(way, n)].median if case(way, n) in measured else None for n in counts]
        theirs = [hours[COUNTS.index(n)] for n in counts]
        rows += [
            (f"{way}, here", *(f"{STEPS / r / 3600:.1f} h, {r / first:.2f}x" if r else "-" for r in ours)),
            (f"{way}, in the paper", *(f"{h:.1f} h, {paper_first / h:.2f}x" if h else "-" for h in theirs)),
        ]
    return SuiteReport(
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


def fast_dqn_learning(request: BenchmarkRequest) -> SuiteReport:
    """Score of the four ways after equal steps, with eight environments, beside Fast DQN's section 5.2."""
    own = (*ONLINE, "algorithm.name=dqn", f"algorithm.target_every_steps={PERIOD_STEPS}")
    cases = {way: (*own, *shape(way, COUNTS[-1])) for way in PAPER_HOURS}
    return learn("fast-dqn-learning", request, cases)


def fast_dqn_games(request: BenchmarkRequest) -> SuiteReport:
    """Scores of Pong and Breakout by Fast DQN's own topology, beside its table of 49 games; --seconds a run."""
    return learn("fast-dqn-games", request, {game: (f"env.id={game}", "evaluator.count=0") for game in GAMES})


def fast_dqn_repeated(request: BenchmarkRequest) -> SuiteReport:
    """Weights of the fastest way with the same seed on all cores and on one, and with another seed."""
    if shutil.which("taskset") is None:
        raise FailedError("the command taskset, which keeps a run on one core, is not installed; install util-linux")
    own = (*ONLINE, "algorithm.name=dqn", f"algorithm.target_every_steps={PERIOD_STEPS}", *shape("both", COUNTS[-1]))
    found: dict[str, dict[str, str]] = {}
    for name, (seed, by) in REPEATED.items():
        with Running(request.topology, (*request.overrides, *own, f"seed={seed}"), total_steps=None, by=by) as run:
            run.wait(request.seconds)
            summary = read_object(run.run_dir / "summary.json")
        if summary.get("status") != "finished":
            raise FailedError(f"{name}: not finished in {request.seconds:g} s; give it more --seconds")
        found[name] = {at: str(summary[at]) for at in ("env_steps", "updates", "weights_sha256")}
    return SuiteReport(
        suite="fast-dqn-repeated",
        headings=("", "steps", "updates", "SHA-256 of the weights"),
        rows=[(name, *values.values()) for name, values in found.items()],
        figures={"found": found},
    )


def case(way: str, environments: int) -> str:
    """Return the name of a measurement."""
    return f"{way}, {_environments(environments)}"


def _environments(count: int) -> str:
    return f"{count} environment{'s' if count > 1 else ''}"
