"""Suites that measure figures 3 to 6, 8 and 9 of Stooke and Abbeel (2018) at reduced sizes.

``a2c-environments``, ``a3c-learners`` and ``ppo-environments`` are panels of figure 3, ``dqn-batches`` is figure 4,
``policy-gradients`` and ``pong`` are of figure 5, ``secondary-learner`` of figures 6 and 8, ``update-rules`` is figure
9. If no topology is named, the environment is Catch with a small network (for ``pong``, Pong). The quantities that a
figure varies, and the numbers that follow from them, are the paper's. The suites ``scaling`` and ``learners`` have
the paper's own sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from benchmarks.kept import mixed
from benchmarks.learning import compare, learn, run_all, score
from benchmarks.papers.paac import environments
from benchmarks.papers.paac import keys as spread_over_simulators
from benchmarks.request import BenchmarkRequest
from launch.bench.interleaved import Spread, progress_bar
from launch.bench.report import SuiteReport
from launch.bench.running import Running
from launch.errors import FailedError
from launch.runs.jsonl import Lines
from launch.topology.load import load

BASE_ENVIRONMENTS = 16
"""Number of environments for which A2C's learning rate is given (section 5.3)."""
A2C_ENVIRONMENTS = (16, 64, 256)
A3C_LEARNERS = (1, 2, 4)
"""Numbers of learners; each has 16 environments."""
PPO_BATCH = 2_048
PPO_ENVIRONMENTS = (8, 32, 128, 512)
DQN_BATCHES = {32: 1.0, 512: 3.0, 1_024: 6.0}
"""Steps of a minibatch -> factor of the learning rate: the paper's 2.5, 7.5 and 15 x 10^-4 (section 5.4.1)."""
INTENSITY = 8.0
"""Mean number of times that each step is learned from, for all sizes of minibatches."""
SECONDARY = {"2,048 acts, 64 beside it": (2_048, 64), "64 acts, 2,048 beside it": (64, 2_048), "256 both": (256, 256)}
"""Minibatch sizes of the learner that acts, and of the second one that learns from the same replay (section 5.4.2)."""
POLICY_GRADIENTS = {
    "A2C": ("algorithm.name=a2c", "mode=sync"),
    "A3C": ("algorithm.name=a2c", "mode=async"),
    "PPO": ("algorithm.name=ppo", "algorithm.normalize_reward=false", "mode=sync"),
    "APPO": ("algorithm.name=ppo", "algorithm.normalize_reward=false", "mode=async"),
}
"""The paper's name of an algorithm -> its keys, with several learners."""
PHASE_MINUTES = 10.0
"""Minutes of the steep beginning of any game's learning curve (section 5.5)."""
MASTERED = 18.0
"""Mean raw score of 100 training games from which Pong counts as mastered; the best possible score is 21."""
UPDATE_RULES: Mapping[str, Sequence[str]] = {
    "Adam": ("optimizer.name=adam",),
    "RMSProp": (
        *("optimizer.name=rmsprop", "optimizer.decay=0.95", "optimizer.epsilon=1e-6"),
        *("optimizer.accumulator_init=0", "optimizer.clip_norm=10"),
    ),
}
"""Optimizer -> its keys, as in appendix C; RMSProp is that of Lasagne, with the decay of the authors' code."""
UPDATE_RULE_BATCHES = (64, 256, 1_024)
"""Steps of a minibatch (appendix C)."""
NORMS = ("parameters_l2_fc0", "gradients_l2_fc0", "steps_l2_fc0")
"""Columns for the first linear layer: norm of the weights, mean norms of gradients and steps since the last report."""
EVALUATED = ("eval_return_mean", "eval_return_secondary")


def a2c_environments(request: BenchmarkRequest) -> SuiteReport:
    """A2C by number of environments, with a learning rate by the root of the batch, beside the paper's figure 3."""
    loaded = load(request.topology, ("algorithm.name=a2c", *request.overrides))
    base = loaded.optimizer.learning_rate
    cases = {}
    for count in A2C_ENVIRONMENTS:
        rate = f"{base * sqrt(count / BASE_ENVIRONMENTS):g}"
        cases[environments(count)] = (
            *("algorithm.name=a2c", "algorithm.horizon=5", *spread_over_simulators(count)),
            *(f"optimizer.learning_rate={rate}", "optimizer.schedule=constant"),
        )
    return learn("a2c-environments", request, cases)


def learners_of(count: int) -> str:
    """Return a number of learners in words, as names of cases have it."""
    return f"{count} learner{'s' * (count > 1)}"


def a3c_learners(request: BenchmarkRequest) -> SuiteReport:
    """A3C by number of learners with 16 environments each, by steps of all, beside the paper's figure 3."""
    own = (
        *("algorithm.name=a2c", "algorithm.horizon=5", "mode=async", "learners.rate_scaling=none"),
        *("simulators.count=1", f"simulators.envs={BASE_ENVIRONMENTS}", "trainer.threads=1"),
        "optimizer.schedule=constant",
    )
    return learn("a3c-learners", request, {learners_of(n): (*own, f"learners.count={n}") for n in A3C_LEARNERS})


def ppo_environments(request: BenchmarkRequest) -> SuiteReport:
    """PPO by number of environments with batches of 2,048 steps, beside the paper's figure 3."""
    cases = {
        environments(count): (
            *("algorithm.name=ppo", "algorithm.normalize_reward=false", f"algorithm.horizon={PPO_BATCH // count}"),
            *("algorithm.epochs=4", "algorithm.minibatches=4"),
            *spread_over_simulators(count),
        )
        for count in (PPO_ENVIRONMENTS[::2] if request.quick else PPO_ENVIRONMENTS)
    }
    return learn("ppo-environments", request, cases)


def dqn_batches(request: BenchmarkRequest) -> SuiteReport:
    """DQN by size of minibatches, with the same number of samples for each step, beside the paper's figure 4."""
    base = load(request.topology, ("algorithm.name=dqn", *request.overrides)).optimizer.learning_rate
    cases = {
        f"minibatches of {batch:,}": (*value_learning(batch), *_constant(base * factor))
        for batch, factor in DQN_BATCHES.items()
    }
    return learn("dqn-batches", request, cases)


def policy_gradients(request: BenchmarkRequest) -> SuiteReport:
    """A2C, A3C, PPO and APPO of two learners by steps and by time, beside the paper's figure 5."""
    own = ("learners.count=2", "learners.rate_scaling=none", "simulators.count=1", "trainer.threads=1")
    cases = {name: (*own, *keys) for name, keys in POLICY_GRADIENTS.items()}
    return learn("policy-gradients", request, cases, most_minutes=PHASE_MINUTES)


def pong(request: BenchmarkRequest) -> SuiteReport:
    """Minutes until PPO's mean score of Pong is 18, beside the paper's figure 5; --seconds a run at most."""
    runs = run_all(request, {"PPO": ()}, kept="pong")["PPO"]
    took = [one.minutes_to(MASTERED) for one in runs]
    reached = tuple(minutes for minutes in took if minutes is not None)
    return SuiteReport(
        suite="pong",
        headings=("seed", f"minutes to {MASTERED:g}", "best score", "at the end", "steps", "minutes", "steps/s"),
        rows=[
            (
                str(seed),
                f"{minutes:.1f}" if minutes is not None else "-",
                *(f"{score:.2f}" for score in (one.best, one.curve.final)),
                f"{one.steps:,.0f}",
                f"{one.minutes:.1f}",
                f"{one.steps_per_s:,.0f}",
            )
            for seed, one, minutes in zip(request.seeds, runs, took, strict=True)
        ],
        bars={"PPO": Spread(reached)} if reached else {},
        unit=f"minutes to {MASTERED:g}",
        notes=(
            "scores: mean of the last 100 training games; time begins with a run's first report",
            *mixed(one.making for one in runs),
        ),
        figures={"topology": request.file, "overrides": list(request.overrides), "minutes_to_score": took},
        curves=[replace(one.curve, label=f"seed {seed}") for seed, one in zip(request.seeds, runs, strict=True)],
    )


def update_rules(request: BenchmarkRequest) -> SuiteReport:
    """Norms of weights, gradients and steps by update rule and minibatch, beside the paper's figure 9."""
    base = load(request.topology, ("algorithm.name=dqn", *request.overrides)).optimizer.learning_rate
    cases = {
        update_rule(rule, batch): (*value_learning(batch), *_constant(base), *keys, "report.norms=true")
        for rule, keys in UPDATE_RULES.items()
        for batch in UPDATE_RULE_BATCHES
    }
    ran = run_all(request, cases)
    report = compare("update-rules", request, ran)
    norms = {
        column: {name: Spread(tuple(_known(one.mean(column), column) for one in runs)) for name, runs in ran.items()}
        for column in NORMS
    }
    return replace(
        report,
        headings=(*report.headings, *NORMS),
        rows=[
            (*row, *(f"{norms[column][name].median:.3g}" for column in NORMS))
            for name, row in zip(cases, report.rows, strict=True)
        ],
        notes=(*report.notes, "norms of the first linear layer, means over a run's reports"),
        figures={
            **report.figures,
            **{column: {name: spread.as_json() for name, spread in found.items()} for column, found in norms.items()},
        },
    )


def _known(mean: float | None, column: str) -> float:
    if mean is None:
        raise FailedError(f"no report has {column}; give it more --seconds")
    return mean


def update_rule(rule: str, batch: int) -> str:
    """Return the name of a case of the suite ``update-rules``."""
    return f"{rule}, minibatches of {batch:,}"


def secondary_learner(request: BenchmarkRequest) -> SuiteReport:
    """Final scores of DQN and of a second learner with the same replay, beside the paper's figures 6 and 8."""
    base = load(request.topology, ("algorithm.name=dqn", *request.overrides)).optimizer.learning_rate
    ends: dict[str, list[Sequence[float]]] = {name: [] for name in SECONDARY}
    with progress_bar() as progress:
        task = progress.add_task("", total=request.repetitions * len(SECONDARY))
        for seed in request.seeds:
            for name, (primary, secondary) in SECONDARY.items():
                progress.update(task, description=f"{name}, seed {seed}")
                keys = (
                    *value_learning(primary),
                    *(f"replay.secondary_batch_size={secondary}", "replay.base_batch_size=32"),
                    *("learners.rate_scaling=sqrt", *_constant(base), "evaluator.count=1"),
                )
                ends[name].append(_evaluations(request, (*keys, f"seed={seed}"), f"{name}, seed {seed}"))
                progress.advance(task)
    acting, beside = (
        {name: Spread(tuple(pair[of] for pair in pairs)) for name, pairs in ends.items()} for of in (0, 1)
    )
    return SuiteReport(
        suite="secondary-learner",
        headings=("", "the one that acts", "beside it"),
        rows=[(name, score(acting[name]), score(beside[name])) for name in SECONDARY],
        bars={f"{name}: {who}": found[name] for who, found in (("acts", acting), ("beside", beside)) for name in found},
        unit="score",
        notes=(f"scores: the last evaluation of each, median of {request.repetitions} seeds (lowest to highest)",),
        figures={
            "acting": {name: spread.as_json() for name, spread in acting.items()},
            "beside": {name: spread.as_json() for name, spread in beside.items()},
        },
    )


def value_learning(batch: int) -> tuple[str, ...]:
    """Return the keys of DQN for a minibatch size; each step is learned from ``INTENSITY`` times."""
    return (
        *("algorithm.name=dqn", f"replay.batch_size={batch}", f"replay.ratio={INTENSITY}"),
        f"replay.learning_starts_steps={max(2_048, batch)}",
    )


def _constant(rate: float) -> tuple[str, ...]:
    return (f"optimizer.learning_rate={rate:g}", "optimizer.schedule=constant")


def _evaluations(request: BenchmarkRequest, keys: Sequence[str], label: str) -> Sequence[float]:
    """Wait for the end of a run; return the last evaluations of both networks. Raises FailedError if there is none."""
    own = (*request.overrides, *keys)
    with Running(request.topology, own, total_steps=None) as run:
        run.wait(request.seconds)
        rows: list[Mapping[str, float]] = list(Lines(run.run_dir / "metrics.jsonl").new())
        if error := run.error():
            raise FailedError(f"{label}: the run failed: {error}")
    known = [row for row in rows if all(row.get(column) is not None for column in EVALUATED)]
    if not known:
        raise FailedError(f"{label}: no evaluation of both networks; give it more --seconds, or evaluator.every_steps")
    return [float(known[-1][column]) for column in EVALUATED]
