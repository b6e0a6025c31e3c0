"""Rules that detect when learning fails, each with a remedy and its source.

The supervisor applies the rules to each *row* (line of metrics.jsonl) of a living run (``launch/runtime/reporter.py``);
``actorlearn health`` applies them to the rows of any run. ``docs/health.md`` is generated from ``RULES``.

A rule has a condition on single rows. The rule begins to hold when its condition has held in nearly all rows of a
period; it ceases to hold after a few rows without the condition. Rows that lack the metric of a rule do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from actorlearn.metrics.registry import ENV_CHANGES, HEALTH, LEARNERS
from launch.reports.checks import number, section_of
from launch.reports.format import as_number, as_percent

Row = Mapping[str, Any]
REPORTS = 5
"""Least number of reports in the period over which a rule is decided."""
WELL_REPORTS = 3
"""Number of consecutive reports without the condition after which the rule ceases to hold."""
_NEARLY_ALL = 0.9
"""Share of the reports of the period in which the condition must hold."""

ENTROPY_SHARE = 0.01
DIVERGENCE = 0.5
CLIPPED_SHARE = 0.6
SAMPLE_SIZE = 0.1
NO_DIVERGENCE = 1e-6
NO_CHANGE = 1e-6
EXPLAINED = 0.01
BOUNDS = 2.0
LIMITS = 100.0
DEAD = 0.9
HUGE = 1000.0
UNREWARDED_SHARE = 0.1
UNFINISHED_SHARE = 0.1
LEARNED = 0.5
KEPT = 0.25
RATE_SHARE = 0.1
GAMES = 50
"""Least number of games for a meaningful mean score."""
UNDECIDED = 0.1
_REWARDED = "rewards_nonzero"
REWARD_COLUMNS = (_REWARDED, ENV_CHANGES, LEARNERS)
"""Metrics that `rewards_in` reads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Values of a run's topology that rules need; None: unknown, or the run has no such limit."""

    total_steps: float | None = None
    clip_norm: float | None = None
    learning_rate: float | None = None
    steps_per_update: int = 1
    """Optimizer steps of an update; 1 with a replay.

    With 1, `divergence` does not show a change: it is measured before the step, on the policy that acted.
    """
    largest_return: float | None = None
    """Largest possible discounted sum of clipped rewards."""

    @classmethod
    def of(cls, topology: Mapping[str, Any]) -> Facts:
        """Read the values from a topology with all defaults."""
        optimizer, algorithm = section_of(topology, "optimizer"), section_of(topology, "algorithm")
        clip, discount = number(algorithm, "reward_clip"), number(algorithm, "discount")
        adds_entropy = "target_entropy" in algorithm  # SAC, or a class derived from it
        other_rewards = adds_entropy or algorithm.get("normalize_reward")
        largest_return = None
        if clip is not None and discount is not None and discount < 1.0 and not other_rewards:
            largest_return = clip / (1.0 - discount)
        return cls(
            total_steps=number(topology, "total_steps"),
            clip_norm=number(optimizer, "clip_norm"),
            learning_rate=number(optimizer, "learning_rate"),
            steps_per_update=max(1, int((number(algorithm, "epochs") or 1) * (number(algorithm, "minibatches") or 1))),
            largest_return=largest_return,
        )

    def share_done(self, row: Row) -> float:
        """Return the share of the run's steps that is done; 1 if unknown."""
        steps = number(row, "env_steps")
        return 1.0 if steps is None or not self.total_steps else steps / self.total_steps


@dataclass(frozen=True, slots=True)
class Past:
    """Scores and rewards of a run so far, or since a resume last changed its environment."""

    lowest: float | None = None
    """Lowest mean score in any report; ``best`` is the highest."""
    best: float | None = None
    rewarded: bool = False
    """Whether any report had a reward other than 0."""
    env_changes: float | None = None
    """`ENV_CHANGES` of the newest row."""

    def with_row(self, row: Row) -> Past:
        """Return the values after another row."""
        changes = number(row, ENV_CHANGES)
        before = self if changes == self.env_changes else Past(env_changes=changes)
        past = replace(before, rewarded=before.rewarded or bool(number(row, _REWARDED)))
        score = number(row, "episode_return_mean")
        games = number(row, "episodes_in_mean" if "episodes_in_mean" in row else "episodes")  # imported rows lack it
        if score is None or games is None or games < GAMES:
            return past
        lowest = score if past.lowest is None else min(past.lowest, score)
        return replace(past, lowest=lowest, best=score if past.best is None else max(past.best, score))

    def learns(self, row: Row) -> bool:
        """Whether the score of a row is clearly above the lowest score so far.

        It must exceed the lowest by half of its absolute value, and by a quarter of the difference to the best.
        """
        score = number(row, "episode_return_mean")
        if score is None or self.lowest is None or self.best is None:
            return False
        return score > self.lowest + max(LEARNED * abs(self.lowest), KEPT * (self.best - self.lowest))


@dataclass(frozen=True, slots=True)
class HealthRule:
    """A rule that detects one failure of learning. The module's docstring says when it holds."""

    name: str
    when: str
    """The condition in words, for the documentation."""
    holds: Callable[[Row, Facts, Past], bool | None]
    """Function that says whether the condition holds in a row; None: the row lacks the metric."""
    says: Callable[[Row, Facts], str]
    """Function that returns the message for the user: the failure, with the numbers of the row."""
    remedy: str
    """The change to try, in one line."""
    source: str
    steps: int
    """Least number of optimizer steps in the period over which the rule is decided."""
    share: float = _NEARLY_ALL
    """Share of the reports of the period in which the condition must hold."""
    unless_it_learns: bool = True
    """Whether the condition counts as false while the score is clearly above the run's lowest (``Past.learns``)."""

    def judge(self, row: Row, facts: Facts, past: Past) -> bool | None:
        """Return whether the condition holds in a row; None if the row lacks the metric."""
        held = self.holds(row, facts, past)
        return held and not (self.unless_it_learns and past.learns(row))


def _below(name: str, limit: float) -> Callable[[Row, Facts, Past], bool | None]:
    return lambda row, facts, past: None if (value := number(row, name)) is None else value < limit


def _above(name: str, limit: float) -> Callable[[Row, Facts, Past], bool | None]:
    return lambda row, facts, past: None if (value := number(row, name)) is None else value > limit


# Conditions and messages ----------------------------------------------------------------------------------------------


def _too_large(row: Row, facts: Facts, past: Past) -> bool | None:
    divergence, sample = number(row, "divergence"), number(row, "effective_sample_size")
    if divergence is None and sample is None:
        return None
    clipped = number(row, "clipped_share") if divergence is not None else None  # IMPALA clips half of all ratios
    return (divergence or 0.0) > DIVERGENCE or (clipped or 0.0) > CLIPPED_SHARE or (sample or 1.0) < SAMPLE_SIZE


def _too_large_says(row: Row, facts: Facts) -> str:
    measured = {
        "divergence from the acting policy": as_number(number(row, "divergence")),
        "clipped share": as_percent(number(row, "clipped_share")),
        "effective sample size": as_percent(number(row, "effective_sample_size")),
    }
    return f"updates move the policy too far: {', '.join(f'{name} {value}' for name, value in measured.items())}"


def _no_effect(row: Row, facts: Facts, past: Past) -> bool | None:
    change, divergence = number(row, "weights_change"), number(row, "divergence")
    if change is None and divergence is None:
        return None
    if (number(row, "learning_rate") or 0.0) < RATE_SHARE * (facts.learning_rate or 0.0):  # by schedule, at the end
        return False
    entropy = number(row, "entropy_share")
    if entropy is not None and entropy < UNDECIDED:  # a policy that is certain hardly changes
        return False
    still = divergence is not None and divergence < NO_DIVERGENCE and facts.steps_per_update > 1
    return still or (change is not None and change < NO_CHANGE)


def _no_effect_says(row: Row, facts: Facts) -> str:
    change, rate = as_number(number(row, "weights_change")), as_number(number(row, "learning_rate"))
    said = f"updates have no effect: since the previous report, weights changed by {change} of their norm"
    divergence = number(row, "divergence")
    moved = "" if divergence is None else f", divergence from the acting policy {as_number(divergence)}"
    return f"{said}{moved}, learning rate {rate}"


def _explains_nothing(row: Row, facts: Facts, past: Past) -> bool | None:
    explained, rewarded = number(row, "explained_variance"), number(row, _REWARDED)
    if explained is None or rewarded is None:
        return None
    return explained < EXPLAINED and rewarded > 0.0


def _largest_value(row: Row) -> float | None:
    values = [abs(value) for name in ("value_mean", "q_mean") if (value := number(row, name)) is not None]
    return max(values, default=None)


def _values_too_large(row: Row, facts: Facts, past: Past) -> bool | None:
    value = _largest_value(row)
    if value is None or facts.largest_return is None:
        return None
    return value > BOUNDS * facts.largest_return


def _far_above_limit(row: Row, facts: Facts, past: Past) -> bool | None:
    norm = number(row, "gradient_norm")
    return None if norm is None or not facts.clip_norm else norm > LIMITS * facts.clip_norm


def _unrewarded(row: Row, facts: Facts, past: Past) -> bool | None:
    if number(row, _REWARDED) is None:
        return None
    return not past.rewarded and facts.share_done(row) >= UNREWARDED_SHARE


def _unfinished(row: Row, facts: Facts, past: Past) -> bool | None:
    episodes = number(row, "episodes")
    return None if episodes is None else episodes == 0 and facts.share_done(row) >= UNFINISHED_SHARE


def _steps(row: Row) -> str:
    return f"{number(row, 'env_steps') or 0:,.0f} steps"


RULES: tuple[HealthRule, ...] = (
    HealthRule(
        "policy collapsed",
        f"the policy's entropy is below {as_percent(ENTROPY_SHARE)} of the entropy of uniform actions "
        "(`entropy_share`)",
        _below("entropy_share", ENTROPY_SHARE),
        lambda row, facts: (
            f"the policy has collapsed to one action: its entropy is {as_number(number(row, 'entropy'))} nats, "
            f"score {as_number(number(row, 'episode_return_mean'))}"
        ),
        "raise algorithm.entropy_cost tenfold, or lower optimizer.learning_rate",
        "Mnih et al. 2016 (arXiv 1602.01783), section 4: entropy regularisation against premature convergence",
        steps=200,
    ),
    HealthRule(
        "updates too large",
        f"the KL divergence from the acting policy (`divergence`) is above {DIVERGENCE}, PPO's `clipped_share` is "
        f"above {as_percent(CLIPPED_SHARE)}, or `effective_sample_size` is below {as_percent(SAMPLE_SIZE)}",
        _too_large,
        _too_large_says,
        "lower optimizer.learning_rate or algorithm.epochs; if `policy_lag_mean` is above 1, set or lower "
        "algorithm.max_policy_lag",
        "Schulman et al. 2017 (arXiv 1707.06347); Huang et al. 2022, The 37 Implementation Details of PPO: the "
        "approximate KL divergence is a sign of health, usually below 0.02",
        steps=20,
        unless_it_learns=False,
    ),
    HealthRule(
        "updates without effect",
        f"since the previous report, the weights changed by less than {NO_CHANGE:g} of their norm (`weights_change`); "
        f"or `divergence` is below {NO_DIVERGENCE:g} although an update has several optimizer steps. The rule does not "
        f"fire while the learning rate is below {as_percent(RATE_SHARE)} of its initial value, or `entropy_share` is "
        f"below {as_percent(UNDECIDED)}",
        _no_effect,
        _no_effect_says,
        "raise optimizer.learning_rate a hundredfold, and check that rewards and advantages are not all 0",
        "actorlearn: even a learning rate of 1e-5 changes the weights by more between two reports; the relative "
        "resolution of float32 is 6e-8",
        steps=50,
        unless_it_learns=False,
    ),
    HealthRule(
        "values explain nothing",
        f"the values explain less than {EXPLAINED} of the variance of the returns (`explained_variance`), although "
        "there are rewards other than 0",
        _explains_nothing,
        lambda row, facts: (
            "the values are no better than a constant: explained variance "
            f"{as_number(number(row, 'explained_variance'))} after {_steps(row)}"
        ),
        "raise algorithm.value_cost, normalise rewards (algorithm.normalize_reward), or change optimizer.learning_rate",
        "OpenAI baselines, explained_variance: 0 means values as good as a constant, less than 0 worse ones",
        steps=500,
    ),
    HealthRule(
        "values too large",
        f"the absolute value of `value_mean` or `q_mean` is more than {BOUNDS:g} times the largest possible return, "
        "which is algorithm.reward_clip / (1 - algorithm.discount). The rule does not fire if rewards are normalised "
        "or not clipped, or with sac",
        _values_too_large,
        lambda row, facts: (
            f"values are too large: their mean has the absolute value {as_number(_largest_value(row))}, but no return "
            f"can exceed {as_number(facts.largest_return)}"
        ),
        "lower optimizer.learning_rate; with a target network also raise algorithm.target_every_steps",
        "van Hasselt et al. 2018, Deep Reinforcement Learning and the Deadly Triad (arXiv 1812.02648): soft divergence",
        steps=20,
        unless_it_learns=False,
    ),
    HealthRule(
        "gradients far above clip_norm",
        f"`gradient_norm` is more than {LIMITS:g} times optimizer.clip_norm. A norm that is only somewhat above "
        "clip_norm is normal",
        _far_above_limit,
        lambda row, facts: (
            f"the gradient's norm is {as_number(number(row, 'gradient_norm'))} before it is clipped to "
            f"{as_number(facts.clip_norm)}: rare large errors decide its direction"
        ),
        "scale rewards (algorithm.normalize_reward), lower algorithm.value_cost, or raise optimizer.clip_norm",
        "Pascanu et al. 2013 (arXiv 1211.5063), section 3.2, advises a limit of half to ten times the average norm",
        steps=100,
    ),
    HealthRule(
        "dead units",
        f"in some hidden layer, more than {as_percent(DEAD)} of the units are 0 or saturated for all inputs "
        "(`dead_units`)",
        _above("dead_units", DEAD),
        lambda row, facts: (
            f"{as_percent(number(row, 'dead_units'))} of a hidden layer's units are 0 or saturated for all inputs, "
            "and learn nothing"
        ),
        "lower optimizer.learning_rate and start again; set model.layer_norm: true",
        "Sokar et al. 2023, The Dormant Neuron Phenomenon in Deep Reinforcement Learning (arXiv 2302.12902)",
        steps=20,
    ),
    HealthRule(
        "rewards always 0",
        f"no reward in the run was other than 0, and {as_percent(UNREWARDED_SHARE)} of total_steps are done",
        _unrewarded,
        lambda row, facts: f"all rewards have been 0 for {_steps(row)}: there is nothing to learn from",
        "check that the environment gives rewards, increase exploration (for example algorithm.entropy_cost), or start "
        "with an easier task",
        "actorlearn: equal returns give no gradient",
        steps=200,
        share=1.0,
        unless_it_learns=False,
    ),
    HealthRule(
        "observations constant",
        "all observations are the same (`observations_constant` is 100%)",
        lambda row, facts, past: None if (share := number(row, "observations_constant")) is None else share == 1.0,
        lambda row, facts: "all observations are the same: the policy cannot see what happens",
        "check the environment's observations and its wrappers",
        "actorlearn: a policy cannot depend on a constant",
        steps=20,
        share=1.0,
        unless_it_learns=False,
    ),
    HealthRule(
        "observations huge",
        f"the network's inputs contain numbers above {HUGE:g} (`inputs_largest`)",
        _above("inputs_largest", HUGE),
        lambda row, facts: f"the network reads numbers as large as {as_number(number(row, 'inputs_largest'))}",
        "set model.normalize_observation: true, or scale observations to about 1 in the environment",
        "LeCun et al. 1998, Efficient BackProp, section 4.3; Andrychowicz et al. 2021 (arXiv 2006.05990): normalise "
        "observations",
        steps=20,
    ),
    HealthRule(
        "no game finished",
        f"no game was finished (`episodes` is 0), and {as_percent(UNFINISHED_SHARE)} of total_steps are done",
        _unfinished,
        lambda row, facts: f"no game was finished in {_steps(row)}: there is no score",
        "set env.time_limit_steps, or check that the environment returns terminated or truncated",
        "actorlearn: the score is a mean of finished games",
        steps=200,
        share=1.0,
        unless_it_learns=False,
    ),
)
BY_NAME: dict[str, HealthRule] = {rule.name: rule for rule in RULES}


# A run ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A rule has begun or ceased to hold."""

    rule: HealthRule
    learner: str
    """Name of the learner; empty if there is only one."""
    ill: bool
    """True if the rule has begun to hold, False if it has ceased to hold."""
    says: str
    """The rule's message for the user; empty if the rule has ceased to hold."""
    env_steps: int


@dataclass(slots=True)
class _Verdict:
    """Whether one rule holds for one learner now."""

    held: deque[tuple[int, bool]] = field(default_factory=deque)
    """The newest rows: optimizer steps so far, and whether the condition held in the row."""
    ill: bool = False
    """Whether the rule holds."""

    def add(self, rule: HealthRule, steps: int, held: bool) -> bool:
        """Add a row: whether the condition ``held`` after ``steps`` optimizer steps; return whether ``ill`` changed."""
        self.held.append((steps, held))
        if self.ill:
            newest = list(self.held)[-WELL_REPORTS:]
            self.ill = len(newest) < WELL_REPORTS or any(judged for _, judged in newest)
            while len(self.held) > WELL_REPORTS:
                self.held.popleft()
            return not self.ill
        while len(self.held) > REPORTS and steps - self.held[1][0] >= rule.steps:
            self.held.popleft()
        if len(self.held) < REPORTS or steps - self.held[0][0] < rule.steps:
            return False
        self.ill = sum(judged for _, judged in self.held) >= rule.share * len(self.held)
        if self.ill:
            self.held.clear()
        return self.ill


class _LearnerHealth:
    def __init__(self, rewarded: Collection[float | None]) -> None:
        self._rewarded, self.past, self.updates = rewarded, Past(), 0
        self.verdicts = {rule.name: _Verdict() for rule in RULES}

    def ill(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.ill]

    def add(self, row: Row, facts: Facts) -> Iterator[tuple[HealthRule, bool]]:
        """Apply the rules to a row; yield each rule that begins (True) or ceases (False) to hold."""
        updates = int(number(row, "updates") or 0)
        if updates < self.updates:  # a trainer was restored from a checkpoint
            for verdict in self.verdicts.values():
                verdict.held.clear()
        if updates in (0, self.updates):  # nothing was learned
            return
        self.updates, self.past = updates, self.past.with_row(row)
        if self.past.env_changes in self._rewarded:
            self.past = replace(self.past, rewarded=True)
        for rule in RULES:
            held, verdict = rule.judge(row, facts, self.past), self.verdicts[rule.name]
            if held is not None and verdict.add(rule, updates * facts.steps_per_update, held):
                yield rule, verdict.ill


class Health:
    """Applies all rules to one run, to each of its learners separately."""

    def __init__(self, facts: Facts, rewarded: Mapping[str, Collection[float | None]] | None = None) -> None:
        """``rewarded``: from `rewards_in`, if some rows of the run will not be added."""
        self._facts, self._rewarded = facts, rewarded or {}
        self._learners: dict[str, _LearnerHealth] = {}

    def add(self, row: Row) -> list[HealthChange]:
        """Apply the rules to the next line of metrics.jsonl; return the rules that begin or cease to hold."""
        changes = []
        rows = _rows_of(row)
        for name in self._learners.keys() - rows.keys():  # learners that have left
            del self._learners[name]
        for name, own in rows.items():
            learner = self._learners.setdefault(name, _LearnerHealth(self._rewarded.get(name, ())))
            for rule, ill in learner.add(own, self._facts):
                said = rule.says(own, self._facts) if ill else ""
                changes.append(HealthChange(rule, name, ill, said, int(number(row, "env_steps") or 0)))
        return changes

    def ill(self) -> list[str]:
        """Return the names of the rules that hold now; with several learners as "trainer-1: policy collapsed"."""
        return [f"{name}: {rule}" if name else rule for name, own in self._learners.items() for rule in own.ill()]


def rewards_in(rows: Iterable[Row]) -> dict[str, set[float | None]]:
    """Return for each learner the values of `ENV_CHANGES` in its rows with a reward other than 0.

    ``rows``: all rows of a run; only their values of ``REWARD_COLUMNS`` are needed.
    """
    found: dict[str, set[float | None]] = {}
    for row in rows:
        for name, own in _rows_of(row).items():
            if number(own, _REWARDED):
                found.setdefault(name, set()).add(number(own, ENV_CHANGES))
    return found


def remedy_of(ill: str) -> str:
    """Return the remedy of a rule, by a name from `Health.ill`; "" if this version has no such rule."""
    rule = BY_NAME.get(ill.rpartition(": ")[2])
    return rule.remedy if rule else ""


def names_in(row: Row) -> list[str]:
    """Return the names of the rules that a line of metrics.jsonl lists as holding."""
    found = row.get(HEALTH)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _rows_of(row: Row) -> dict[str, Row]:
    """Return learner -> the run's metrics, overridden by the learner's own; {"": row} with one learner."""
    learners = row.get(LEARNERS)
    if not isinstance(learners, Mapping) or not learners:
        return {"": row}
    return {str(name): {**row, **own} for name, own in learners.items() if isinstance(own, Mapping)}
