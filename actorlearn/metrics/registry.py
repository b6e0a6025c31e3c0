"""The definitions of all metrics, by name (``actorlearn/metric.py`` describes a definition).

Processes report plain mappings of names to numbers. Code that merges, writes or shows reports uses these definitions.
Metrics of a single algorithm are defined in the algorithm's spec. This file does not import torch.
``docs/metrics.md`` is generated from it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from actorlearn.algorithms.lags import LAG_CLASSES
from actorlearn.algorithms.settings import ALGORITHMS
from actorlearn.memory.account import REASONS
from actorlearn.metric import Form, Kind, Merge, Metric
from actorlearn.metrics.episodes import RECENT_GAMES
from actorlearn.metrics.timings import SECTIONS

LEARNERS = "learners"
"""Key, in reports of several learners, of the metrics of each learner: {name of its trainer: {metric: number}}."""
SECONDARY = "secondary_"
"""Prefix of the name of a metric of the secondary learner, a second network that learns from the same replay but never
acts (``replay.secondary_batch_size``)."""


_counter = partial(Metric, kind=Kind.COUNTER, merge=Merge.SUM, form=Form.WHOLE)
_of_all = partial(Metric, kind=Kind.COUNTER, merge=Merge.MAX, form=Form.WHOLE)
"""For counts of all learners together, which each learner reports; the largest value is the newest."""
_rate = partial(Metric, kind=Kind.RATE, merge=Merge.SUM, form=Form.WHOLE)
_games = partial(Metric, weight="episodes_in_mean")
_share = partial(Metric, form=Form.PERCENT)
_of_run = partial(Metric, merge=Merge.FIRST)
"""For values that are measured once for the whole run."""
_learning = partial(Metric, learning=True)
_symptom = partial(Metric, learning=True, per_learner=True)
"""For metrics that the rules of ``launch/reports/health.py`` check for each learner."""

_PROGRESS = (
    _of_all("time_s", "s", "time since the run started, including the time before it was resumed", form=Form.DURATION),
    _of_all("wall_time_s", "s", "time since the run started, written at the end of the run", form=Form.DURATION),
    _of_all("env_steps", "steps", "environment steps that all learners have learned from", label="steps"),
    _of_all(
        "frames",
        "frames",
        "emulator frames of the steps in `env_steps`; in Atari games each step has `env.frame_skip` frames",
        label="frames",
    ),
    _of_all(
        "updates",
        "updates",
        "updates of all learners together. Each rollout counts as one update, also while a replay fills",
        label="updates",
    ),
    _rate("env_steps_per_s", "steps/s", "environment steps learned from per second", label="steps/s", per_learner=True),
    _rate(
        "frames_per_s", "frames/s", "emulator frames of the steps in `env_steps_per_s`, per second", label="frames/s"
    ),
    _of_run(
        "frames_per_kj", "frames/kJ", "emulator frames per kilojoule of energy that the machine used", form=Form.WHOLE
    ),
)
STATISTICS_MADE, STATISTICS_NEEDED = "statistics_rows_made", "statistics_rows_needed"
"""Metrics of the collection of statistics of observations; only in reports sent before learning begins."""
ENV_CHANGES = "env_changes"
"""Metric that counts the resumes that changed the environment; absent from reports before the first such resume."""
_LAST_GAMES = f"the last {RECENT_GAMES} games"
_GAMES = (
    _counter("episodes", "games", "finished games", label="games", per_learner=True),
    _games("episode_return_mean", "", f"mean raw score of {_LAST_GAMES}", label="mean score", per_learner=True),
    _games("episode_length_mean", "steps", f"mean length of {_LAST_GAMES}", label="length", form=Form.WHOLE),
    Metric(
        "episodes_in_mean",
        "games",
        f"games over which `episode_return_mean` is taken: at most {RECENT_GAMES} of each learner. A resume that "
        "changes a key of `env` starts again from 0",
        merge=Merge.SUM,
        form=Form.WHOLE,
        per_learner=True,
    ),
    _of_run(
        ENV_CHANGES,
        "resumes",
        "number of resumes that changed a key of `env`. Scores before and after such a resume cannot be "
        "compared. Absent if there was none",
        form=Form.WHOLE,
    ),
    _of_run("eval_return_mean", "", "mean raw score of the newest evaluation"),
    _of_run("eval_return_best", "", "mean raw score of the best learner in the newest evaluation"),
    _of_run("eval_return_learners_mean", "", "mean over learners of their mean raw scores in the newest evaluation"),
    _of_run(
        "eval_return_secondary",
        "",
        "mean raw score of the secondary learner (`replay.secondary_batch_size`) in the newest evaluation",
    ),
    _of_run("eval_episodes", "games", "games in the newest evaluation", form=Form.WHOLE),
    _of_run(
        "eval_env_steps", "steps", "environment steps that the evaluated weights had learned from", form=Form.WHOLE
    ),
    _of_run("eval_policy_version", "versions", "version of the evaluated weights", form=Form.WHOLE),
)
_waiting = partial(Metric, merge=Merge.SUM, form=Form.WHOLE)
_STEPS = (
    _counter(
        "steps_made", "steps", "steps that environments have made: used, dropped or in flight", label="steps made"
    ),
    _rate("steps_made_per_s", "steps/s", "steps that environments make per second", label="steps made/s"),
    _waiting("update_steps", "steps", "steps of the next update; only in reports sent while its rollout is played"),
    _waiting(
        "update_steps_made",
        "steps",
        "steps of the next update that are already made; only in reports sent while its rollout is played",
    ),
    Metric(
        "update_in_s",
        "s",
        "expected time to the next update; only in reports sent while its rollout is played",
        merge=Merge.MAX,
        form=Form.DURATION,
    ),
    *(
        Metric(
            name,
            "observations",
            f"observations that {what}; only in reports sent before learning begins",
            merge=Merge.MAX,
            form=Form.WHOLE,
        )
        for name, what in (
            (STATISTICS_MADE, "the statistics of observations include"),
            (STATISTICS_NEEDED, "the statistics of observations must include before learning begins"),
        )
    ),
    _counter(
        "steps_used", "steps", "steps learned from, without updates that were rolled back later", label="steps used"
    ),
    _counter(
        "steps_dropped", "steps", "steps that were not learned from, or whose update was rolled back", label="dropped"
    ),
    *(
        _counter(f"dropped_{reason}", "steps", f"dropped steps: {why}", label=reason.replace("_", " "))
        for reason, why in REASONS.items()
    ),
    _counter("steps_in_flight", "steps", "steps that were neither learned from nor dropped when the run ended"),
)
DROPPED = tuple(f"dropped_{reason}" for reason in REASONS)
"""Metrics that sum to ``steps_dropped``."""
DROPPED_STATISTICS = "dropped_statistics"
"""The metric in ``DROPPED`` whose steps are no loss: the statistics of observations are computed from them."""
_LAG = (
    Metric(
        "policy_lag_mean",
        "updates",
        "mean age of the weights that chose the actions",
        label="policy lag",
        per_learner=True,
    ),
    Metric(
        "policy_lag_max",
        "updates",
        "largest age of the weights that chose the actions",
        merge=Merge.MAX,
        form=Form.WHOLE,
    ),
    *(
        _share(f"policy_lag_{one.name}", "share", f"steps whose action was chosen by weights {one.words} old")
        for one in LAG_CLASSES
    ),
)
_RATIOS = (
    Metric(
        "effective_sample_size",
        "share",
        "share of a minibatch that still counts; 1 if the new and the acting policy are equal. It is "
        "(sum w)^2 / (n sum w^2), where w is the probability ratio of the new to the acting policy for each of the n "
        "steps",
        label="effective sample",
        form=Form.PERCENT,
        learning=True,
        per_learner=True,
    ),
    _symptom(
        "clipped_share", "share", "steps whose probability ratio was clipped, or that were left out because of it"
    ),
    *(
        _share(f"{name}_{one.name}", "share", f"{name.replace('_', ' ')} of steps chosen by weights {one.words} old")
        for name in ("effective_sample_size", "clipped_share")
        for one in LAG_CLASSES
    ),
)
_LEARNING = (
    _learning("loss", "", "loss at the newest optimizer step"),
    _learning("policy_loss", "", "policy gradient term of the loss"),
    _learning("value_loss", "", "mean squared error of the values, before value_cost"),
    _learning("entropy", "nats", "mean entropy of the policy"),
    Metric("value_mean", "return", "mean value of the states learned from", per_learner=True),
    Metric("return_mean", "return", "mean of the returns that the values are trained to predict"),
    _symptom("explained_variance", "share", "share of the variance of the returns that the values explain"),
    Metric("q_mean", "return", "mean value (Q) of the actions learned from", per_learner=True),
    Metric("target_mean", "return", "mean of the targets that the action values are trained to predict"),
    Metric(
        "error_mean",
        "",
        "mean distance of the action values from their targets; for distributions (c51) the mean divergence",
    ),
    _symptom("gradient_norm", "", "l2 norm of the gradient before clipping"),
    _symptom("learning_rate", "", "learning rate of the newest optimizer step"),
    Metric(
        "replay_transitions",
        "transitions",
        "transitions in the replay that can be learned from, because their returns are known. If the "
        "algorithm draws sequences, the metric still counts transitions",
        form=Form.WHOLE,
    ),
    Metric("minibatches", "minibatches", "minibatches learned after the newest rollout", form=Form.WHOLE),
)
HEALTH = "health"
"""Metric with the names of the health rules that have fired; absent from reports if no rule has."""
_percent = partial(Metric, form=Form.PERCENT, per_learner=True)
_HEALTH = (
    Metric(HEALTH, "", "names of the [health](health.md) rules that have fired; absent if none has", text=True),
    _percent(
        "entropy_share",
        "share",
        "entropy of the policy, divided by its entropy if all actions (with masks: all valid actions) "
        "were equally likely; not for Box actions",
    ),
    _percent("rewards_nonzero", "share", "steps since the previous report with a reward other than 0"),
    _percent(
        "observations_constant",
        "share",
        "elements of observations (action masks excepted) that are equal in all rows of a sample",
    ),
    Metric("inputs_largest", "", "largest absolute value of the inputs of the first layer", per_learner=True),
    _percent(
        "dead_units",
        "share",
        "units that are 0 or saturated in all rows of a sample, in the hidden layer with the largest share of them",
    ),
    Metric(
        "weights_change",
        "share",
        "l2 norm of the change of the parameters since the previous report, divided by the norm of the parameters",
        per_learner=True,
    ),
)
_NORMS = tuple(
    Metric(f"{vector}_l2{part}", "", f"l2 norm of the {meaning}{where}")
    for vector, meaning in (("parameters", "parameters"), ("gradients", "gradients"), ("steps", "optimizer's steps"))
    for part, where in (("", ""), ("_conv0", " of the first convolution"), ("_fc0", " of the first linear layer"))
)
STALENESS_SHOWN = 8
"""All gradients of this staleness (changes by other learners) or more are counted by a single metric."""
_each = partial(Metric, per_learner=True)
_since_report = partial(Metric, merge=Merge.SUM, form=Form.WHOLE, per_learner=True)
"""For counts that each learner sets to 0 after each report."""
_farthest = partial(Metric, merge=Merge.MAX, per_learner=True)
_BETWEEN_LEARNERS = (
    _each("learner_wait_s", "s", "time that the learner waited for other learners since the previous report"),
    _each("lock_wait_s", "s", "time that the learner waited for locks of shared parameters since the previous report"),
    _each("server_wait_s", "s", "time that the learner waited for parameter servers since the previous report"),
    Metric("versions_per_s", "versions/s", "versions of the weights that a parameter server made per second"),
    Metric(
        "straggler",
        "rank",
        "number that names the learner for which the others waited longest",
        merge=Merge.FIRST,
        form=Form.WHOLE,
    ),
    _share(
        "straggler_share", "share", "updates in which the learner `straggler` was the last to finish", merge=Merge.FIRST
    ),
    Metric(
        "straggler_wait_s",
        "s",
        "time that the others waited for the learner `straggler` since the previous report",
        merge=Merge.FIRST,
    ),
    _each(
        "staleness_mean",
        "changes",
        "async: changes of the store by other learners since this learner read it; gossip: exchanges "
        "since this learner last mixed weights",
    ),
    Metric("staleness_max", "changes", "largest staleness", merge=Merge.MAX, form=Form.WHOLE),
    *(
        _share(
            f"staleness_{changes}",
            "share",
            f"gradients whose weights were {changes} changes old when a parameter server applied the gradients",
        )
        for changes in range(STALENESS_SHOWN)
    ),
    _share(
        f"staleness_{STALENESS_SHOWN}_or_more",
        "share",
        f"gradients whose weights were {STALENESS_SHOWN} or more changes old when a parameter server "
        "applied the gradients",
    ),
    _since_report(
        "gradients_dropped",
        "gradients",
        "gradients that were dropped, because they arrived after the quorum (`learners.quorum`) of their "
        "version was complete",
    ),
    _since_report("exchanges", "exchanges", "messages with weights that the learner posted since the previous report"),
    _since_report("bytes_sent", "bytes", "bytes of messages sent since the previous report"),
    _since_report("bytes_received", "bytes", "bytes of messages received since the previous report"),
    _since_report(
        "messages_refused",
        "messages",
        "messages refused since the previous report, because their weights were not finite or too large",
    ),
    _since_report(
        "foreign_steps",
        "steps",
        "steps of other learners that the learner received since the previous report, in addition to its own; "
        "with `algorithm.on_policy_lag: drop` it does not learn from those older than `algorithm.max_policy_lag`",
    ),
    _each(
        "foreign_lag_mean",
        "updates",
        "mean age of the weights that chose the actions of `foreign_steps`, when these steps were shared",
    ),
    _since_report(
        "foreign_messages_refused",
        "messages",
        "rollouts of other learners that were refused because they contain numbers that are not finite",
    ),
    _share(
        "mixed_share", "share", "exchanges in which the learner mixed weights of others with its own", per_learner=True
    ),
    _share(
        "message_age",
        "share",
        "age of messages when they are mixed, divided by the time between two exchanges; at most 1",
    ),
    _farthest(
        "consensus_distance",
        "",
        "l2 distance of a learner's parameters from the mean of all learners, without the statistics that normalise "
        "observations",
    ),
    Metric(
        "gradient_cosine",
        "",
        "cosine of the angle between the gradients of two learners",
        merge=Merge.FIRST,
        by_pair=True,
    ),
)
SIMULATION_LIMIT_SHARE = "simulation_limit_share"
_STAGES = {
    "simulate": "stepping environments",
    "infer": "running the policy to choose actions",
    "learn": "computing losses, gradients and new weights",
    "copy": "gathering rollouts into batches, and other copies of data",
    "publish": "writing new weights to shared memory",
    "wait": "waiting for another process",
}
_TIME = (
    *(
        _share(
            f"share_{section}",
            "share",
            f"share of the time of all processes that was spent in the stage {section}: {_STAGES[section]}",
            merge=Merge.FIRST,
        )
        for section in SECTIONS
    ),
    _share(
        SIMULATION_LIMIT_SHARE,
        "share",
        "share of the simulators' time in which they step environments. It is also their rate of steps, "
        "divided by the rate that they would reach if they only stepped environments",
        label="of simulation limit",
        merge=Merge.FIRST,
    ),
)

GROUPS: dict[str, tuple[Metric, ...]] = {
    "Progress": _PROGRESS,
    "Games": _GAMES,
    "Use of steps": _STEPS,
    "Age of acting weights": _LAG,
    "Ratios of probabilities (PPO, IMPALA and VACO)": _RATIOS,
    "Learning": _LEARNING,
    "Health of learning": _HEALTH,
    "Norms (`report.norms: true`)": _NORMS,
    "Between learners": _BETWEEN_LEARNERS,
    "Time": _TIME,
}
"""All metrics except those of a single algorithm, in the groups and the order of the reference page."""
METRICS: dict[str, Metric] = {metric.name: metric for group in GROUPS.values() for metric in group}


OWN_RATE = "learning_rate_"
"""Prefix of the names of the learning rates of single networks (``optimizer.groups``)."""


def metric(name: str) -> Metric:
    """Return the definition of the metric with this name.

    A metric that is not registered gets a default definition: it is shown with the terms of the loss, and the values of
    several learners are merged by their mean; of values that are not numbers the first is taken.
    """
    of_algorithms = (own for spec in ALGORITHMS.known() for own in spec.metrics if own.name == name)
    if found := METRICS.get(name) or next(of_algorithms, None):
        return found
    if name.startswith(SECONDARY) and (of := metric(name.removeprefix(SECONDARY))).description:
        return replace(of, name=name, description=f"secondary learner: {of.description}", label="")
    if name.startswith(OWN_RATE):
        network, of = name.removeprefix(OWN_RATE), METRICS["learning_rate"]
        return replace(of, name=name, description=f"{of.description}, of the network {network}", label="")
    return Metric(name, "", "", learning=True)


def describe_metric(name: str) -> str:
    """Return the description and unit of a metric, such as "entropy [nats]"; empty for an unregistered one."""
    about = metric(name)
    return f"{about.description} [{about.unit}]" if about.unit else about.description


def is_registered(name: str) -> bool:
    """Whether this metric has a description."""
    return bool(metric(name).description)
