"""Rules between the keys of a topology. Pure.

Each rule takes a whole topology whose single values are valid, and yields its refusals: key, reason and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from importlib.util import find_spec
from typing import Any

from actorlearn.algorithms.settings import ALGORITHMS, HardCopies, OffPolicySettings, OnPolicySettings
from actorlearn.envs.specs import AtariSettings
from actorlearn.metrics.specs import WRITERS
from actorlearn.models.specs import EncoderSettings
from actorlearn.parameters.modes import MODES
from actorlearn.parameters.published import SLOTS
from actorlearn.parameters.settings import LearnersSettings, ParameterServersSettings
from actorlearn.replay.settings import ReplaySettings
from launch.topology.defaults import WITHOUT_EFFECT, resolve
from launch.topology.modes import asked, mode, sharing
from launch.topology.schema import Topology
from launch.topology.validate import Problem, join_words, no_entry

Refusals = Iterator[tuple[str, str, str]]
"""Dotted key, reason and remedy of each refused value."""


def broken(topology: Topology) -> Iterator[Problem]:
    """Yield a problem for each rule that a topology breaks; each value must be valid by itself."""
    for rule in RULES:
        for key, why, way_out in rule(topology):
            path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
            yield Problem(path, reduce(_at, path, topology), why, way_out)


def _at(found: Any, part: Any) -> Any:
    return found[part] if isinstance(found, Mapping | Sequence) else getattr(found, part)


def writers_can_be_made(topology: Topology) -> Refusals:
    """Every writer in ``report.writers`` must be importable; checked before any process is started."""
    for place, name in enumerate(topology.report.writers):
        try:
            WRITERS.spec(name).load()
        except ValueError as error:
            problem = no_entry(("report", "writers", place), name, WRITERS, str(error))
            yield f"report.writers.{place}", problem.rule, problem.way_out


def whole_groups(topology: Topology) -> Refusals:
    """``simulators.envs`` must be a multiple of ``simulators.groups``."""
    envs, groups = topology.simulators.envs, topology.simulators.groups
    if envs % groups:
        lower, upper = envs // groups * groups, -(-envs // groups) * groups
        yield (
            "simulators.envs",
            f"environments are divided evenly among groups, and {envs} is not a multiple of {groups} (groups)",
            f"write envs: {f'{lower} or {upper}' if lower else upper}, or another number of groups",
        )


def delays_grow(topology: Topology) -> Refusals:
    """``longest_restart_delay_s`` must be at least ``restart_delay_s``."""
    first = topology.supervision.restart_delay_s
    if topology.supervision.longest_restart_delay_s < first:
        yield (
            "supervision.longest_restart_delay_s",
            f"must be at least restart_delay_s, which is {first:g}",
            f"write {first:g} or more, or a smaller restart_delay_s",
        )


def spinning_is_given_longer(topology: Topology) -> Refusals:
    """For each role, the limit ``spin_s`` must be at least ``hang_s`` (``launch/supervision/hangs.py``)."""
    for hang_s, spin_s, keys, _ in topology.limits.values():
        if spin_s < hang_s:
            hang = f"{keys}hang_s".rpartition(".")[2]
            yield (
                f"{keys}spin_s",
                f"must be at least {hang}, which is {hang_s:g}",
                f"write {hang_s:g} or more, or a smaller {hang}",
            )


def servers_with_work(topology: Topology) -> Refusals:
    """There must not be more inference servers than simulators."""
    if topology.inference.count > topology.simulators.count:
        yield (
            "inference.count",
            f"there cannot be more servers than simulators, and simulators.count is {topology.simulators.count}",
            f"write a number from 1 to {topology.simulators.count}, or more simulators",
        )


def evaluations_can_be_made(topology: Topology) -> Refusals:
    """``fire_after`` needs an Atari game, ``record`` PyAV, and ``noop_max`` must suit the environment."""
    evaluator = topology.evaluator
    if evaluator.fire_after and not isinstance(topology.env, AtariSettings):
        rule = f"only Atari games have the action FIRE, and {topology.env.id} is not an Atari game"
        yield "evaluator.fire_after", rule, "leave the key out, or write 0"
    try:
        topology.env.for_evaluation(evaluator.noop_max)
    except ValueError as error:
        yield "evaluator.noop_max", str(error), "write 1 or more"
    if evaluator.count and evaluator.record and find_spec("av") is None:
        rule = "PyAV, which writes MP4, is not installed"
        yield "evaluator.record", rule, "pip install 'actorlearn[video]', or leave the key out"


def rules_of_the_mode(topology: Topology) -> Refusals:
    """Yield the refusals of the topology's mode (``actorlearn/parameters/modes.py``)."""
    yield from mode(topology).refusals(asked(topology))


def experience_is_corrected(topology: Topology) -> Refusals:
    """``gossip.experience`` needs an algorithm with probability ratios, and cannot exceed a learner's environments."""
    shared = sharing(topology)
    if shared is None:
        return
    if not ALGORITHMS.spec(topology.algorithm.name).by_ratio:
        having = " or ".join(spec.name for spec in ALGORITHMS.specs() if spec.by_ratio)
        yield (
            "gossip.experience",
            f"{topology.algorithm.name} cannot learn from the experience of other learners' policies",
            f"write 0, or algorithm.name: {having}",
        )
    if shared.experience > topology.simulators.environments:
        yield (
            "gossip.experience",
            f"a learner cannot share more rows than it has environments, {topology.simulators.environments}",
            f"write a number from 0 to {topology.simulators.environments}, or more simulators.envs",
        )


def learners_reach_each_other(topology: Topology) -> Refusals:
    """Learners on several nodes need a mode that exchanges between machines."""
    spec = mode(topology)
    if topology.nodes.count > 1 and not spec.across_nodes and spec.several(topology.learners.count):
        yield (
            "nodes.count",
            f"learners in mode {topology.mode} exchange weights through shared memory, on one machine",
            "write 1, or mode: sync or gossip, which use sockets"
            + (", or parameter_servers.count: 1" if topology.mode == "async" else ""),
        )


def servers_with_learners(topology: Topology) -> Refusals:
    """Parameter servers need a mode that uses them."""
    own = topology.parameter_servers
    if mode(topology).served:
        return
    if own.count:
        rule = f"mode {topology.mode} has no parameter servers"
        yield "parameter_servers.count", rule, "write 0, or mode: async"
    elif own.wire != ParameterServersSettings(count=0).wire:
        rule = "wire is the format of numbers sent to parameter servers, and parameter_servers.count is 0"
        yield "parameter_servers.wire", rule, "leave the key out, or write parameter_servers.count: 1"


def keys_of_the_mode(topology: Topology) -> Refusals:
    """Keys that the topology's mode does not read must have their defaults."""
    defaults = {
        "learners": LearnersSettings(),
        **{other.name: other.section() for other in MODES.specs() if other.section},
    }
    for key in sorted(filter(mode(topology).unread, MODES.keys)):
        section, _, name = key.partition(".")
        if getattr(getattr(topology, section), name) != getattr(defaults[section], name):
            readers = dict.fromkeys(other.asked_as for other in MODES.specs() if key in other.keys)
            reading = " or ".join(readers)
            rule = f"mode {topology.mode} does not use this key; mode {reading} does"
            way_out = f"mode: {reading}"
            if mode(topology).alone and topology.mode in readers:
                rule, way_out = "there is no other learner to exchange with", "learners.count: 2"
            elif reading == topology.mode:
                rule = f"mode {reading} uses this key only with parameter servers, and there are none"
                way_out = "parameter_servers.count: 1"
            yield key, rule, f"leave the key out, or write {way_out}"


def keys_without_effect(topology: Topology) -> Refusals:
    """Keys of processes that a topology does not have must have their defaults."""
    usual = resolve({"env": {"id": topology.env.id}, "algorithm": {"name": topology.algorithm.name}})
    for count, keys in WITHOUT_EFFECT.items():
        section, _, name = count.partition(".")
        given = getattr(topology, section)
        for key in () if getattr(given, name) else keys:
            if getattr(given, key) != usual[section][key]:
                yield (
                    f"{section}.{key}",
                    f"nothing reads this key, because {count} is 0",
                    f"leave the key out, or write {count}: 1 or more",
                )


def horizon_of_batch_steps(topology: Topology) -> Refusals:
    """``batch_steps`` must be the horizon times the number of environments."""
    steps, environments = topology.algorithm.batch_steps, topology.simulators.environments
    if steps is None or steps == topology.algorithm.horizon * environments:
        return
    lower = steps // environments * environments
    if lower == steps:
        yield (
            "algorithm.horizon",
            f"batch_steps is {steps}, which is {steps // environments} for each of {environments} environments",
            "leave out either the horizon or batch_steps",
        )
    else:
        yield (
            "algorithm.batch_steps",
            f"all environments make the same number of steps, and {steps} is not a multiple of {environments} "
            "(environments)",
            f"write {f'{lower} or ' if lower else ''}{lower + environments}, or other simulators.envs",
        )


def inference_batches_that_fill(topology: Topology) -> Refusals:
    """``inference.batch_rows`` must not exceed the environments of one server."""
    rows, servers = topology.inference.batch_rows, topology.inference.count
    environments = topology.simulators.count // max(servers, 1) * topology.simulators.envs
    if servers and rows > environments:
        yield (
            "inference.batch_rows",
            f"a server answers {environments} environments, so this batch would never be full",
            f"write a number from 0 to {environments}",
        )


def weights_of_rollouts(topology: Topology) -> Refusals:
    """With ``simulators.weights: rollout``, one version of the weights acts in a whole rollout.

    This version must be kept until the rollout is complete, so at most ``SLOTS`` rollouts may be open at once.
    """
    if topology.simulators.weights == "newest":
        return
    if topology.simulators.blocks > SLOTS:
        yield (
            "simulators.weights",
            f"each open rollout needs its version of the weights, but {SLOTS} versions are kept, and "
            f"simulators.blocks allows {topology.simulators.blocks} open rollouts",
            f"write simulators.blocks: {SLOTS} or less, or weights: newest",
        )
    if topology.inference.batch_rows or topology.learners.pull_rows:
        yield (
            "simulators.weights",
            "one version of the weights must act in a whole rollout, but inference.batch_rows answers rows of "
            "several rollouts together, and learners.pull_rows changes the weights within a rollout",
            "set both to 0, or write weights: newest",
        )


def noise_that_lasts(topology: Topology) -> Refusals:
    """``algorithm.noise_steps`` above 1 needs batches with the same environments in each step."""
    steps = topology.algorithm.noise_steps
    if steps > 1 and topology.inference.batch_rows:
        yield (
            "algorithm.noise_steps",
            "the random numbers of an environment follow from its place in the batch, and with "
            "inference.batch_rows this place changes from step to step",
            "write 1, or inference.batch_rows: 0",
        )


def minibatches_with_transitions(topology: Topology) -> Refusals:
    """No minibatch may be empty."""
    if not isinstance(topology.algorithm, OnPolicySettings):
        return
    most, what = topology.simulators.environments, "environments"
    if ALGORITHMS.spec(topology.algorithm.name).parts_of_transitions and not _has_memory(topology):
        most, what = most * topology.algorithm.horizon, "transitions"
    if topology.algorithm.minibatches > most:
        yield (
            "algorithm.minibatches",
            f"each minibatch needs at least one of the {most} {what} in a batch",
            f"write a number from 1 to {most}, or more simulators.envs",
        )


def actions_reach_their_bounds(topology: Topology) -> Refusals:
    """An algorithm with actions from -1 to 1 needs an environment that scales them to its bounds."""
    algorithm = topology.algorithm.name
    if ALGORITHMS.spec(algorithm).unit_actions and not getattr(topology.env, "scale_actions", True):
        yield (
            "env.scale_actions",
            f"{algorithm} chooses actions from -1 to 1, which must be scaled to the environment's bounds",
            "write true, or leave the key out",
        )


def noise_is_learned_with(topology: Topology) -> Refusals:
    """Noisy layers need an algorithm that learns from a replay."""
    if topology.replay is None and isinstance(topology.model, EncoderSettings) and topology.model.noisy:
        having = join_words([spec.name for spec in ALGORITHMS.specs() if spec.replayed])
        yield (
            "model.noisy",
            f"noisy layers are for {having}; {topology.algorithm.name} samples its actions from the policy",
            "write 0.0, or another algorithm",
        )


def samples_with_ratios(topology: Topology) -> Refusals:
    """Scaling the learning rate by the effective sample size needs an algorithm with probability ratios."""
    if topology.optimizer.sample_size_scaling != "none" and not ALGORITHMS.spec(topology.algorithm.name).by_ratio:
        having = join_words([spec.name for spec in ALGORITHMS.specs() if spec.by_ratio])
        yield (
            "optimizer.sample_size_scaling",
            f"{topology.algorithm.name} computes no probability ratios, so it has no effective sample size",
            f"write none, or another algorithm: {having}",
        )


def schedules_with_an_end(topology: Topology) -> Refusals:
    """A constant learning rate has no final value, and the warm-up must end before the schedules do."""
    optimizer, end = topology.optimizer, topology.schedule_steps or topology.total_steps
    if optimizer.schedule == "constant":
        finals = {"optimizer.learning_rate_final": optimizer.learning_rate_final}
        for name, group in optimizer.groups.items():
            finals[f"optimizer.groups.{name}.learning_rate_final"] = group.learning_rate_final or 0.0
        for key in (key for key, final in finals.items() if final):
            rule, way_out = "nothing reads this key, because optimizer.schedule is constant", "leave the key out"
            yield key, rule, f"{way_out}, or write optimizer.schedule: linear or cosine"
    if optimizer.warmup_steps >= end:
        yield (
            "optimizer.warmup_steps",
            f"the warm-up must end before the schedules, which end at {end} steps (schedule_steps or total_steps)",
            f"write less than {end}",
        )


def updates_end_together(topology: Topology) -> Refusals:
    """``algorithm.target_kl`` ends an update of all learners at the same step, which local steps do not allow."""
    local = topology.learners.local_steps > 1 or topology.learners.outer != "none"
    if topology.mode == "sync" and topology.learners.count > 1 and local and topology.algorithm.divergence_limit:
        yield (
            "algorithm.target_kl",
            "learners with local steps or an outer optimizer do not compare their policies, so they cannot end an "
            "update at the same step",
            "write null, or learners.local_steps: 1 and learners.outer: none",
        )


def replay_begins(topology: Topology) -> Refusals:
    """``learning_starts_steps`` must be enough for the first minibatch."""
    for least, why in least_starts(topology):
        if topology.replay is not None and topology.replay.learning_starts_steps < least:
            yield "replay.learning_starts_steps", why, f"write {least} or more"


def least_starts(topology: Topology) -> Iterator[tuple[int, str]]:
    """Yield each lower limit of ``replay.learning_starts_steps``, in agent steps, with its reason."""
    if topology.replay is None or not isinstance(topology.algorithm, OffPolicySettings):
        return
    environments = topology.simulators.environments
    batch, which = _largest_batch(topology.replay)
    yield batch, f"the first minibatch needs {batch} stored transitions ({which})"
    n, horizon = topology.algorithm.n_step, topology.algorithm.horizon
    if topology.replay.sequence_rows > 1:
        every, rest = topology.replay.sequence_every, topology.replay.sequence_rows - 1 + n
        yield (
            (every + rest - horizon) * environments,
            f"learning starts with a complete sequence, which begins within {every} steps (sequence_every) "
            f"and is complete {rest} steps later (burn_in_steps, sequence_steps, n_step), in each of "
            f"{environments} environments",
        )
    else:  # the rollout before the update adds one horizon
        yield (
            (n - horizon) * environments,
            f"learning starts with a complete transition, which takes {n} more steps (n_step) in each of "
            f"{environments} environments; a rollout has {horizon} of them (horizon)",
        )


def replay_holds(topology: Topology) -> Refusals:
    """The replay must hold a minibatch and the open rollouts (``Replay.__init__`` checks the size of rings)."""
    if topology.replay is None or not isinstance(topology.algorithm, OffPolicySettings):
        return
    environments = topology.simulators.environments
    rows = topology.algorithm.horizon + 1 + topology.env.frames_stacked + topology.algorithm.n_step
    rows += topology.replay.sequence_rows - 1 + topology.replay.sequence_every - 1
    parts = "stack, n_step and sequence" if topology.replay.sequence_rows > 1 else "stack and n_step"
    least = max(_largest_batch(topology.replay)[0], rows * environments)
    if topology.replay.capacity_steps < least:
        yield (
            "replay.capacity_steps",
            f"the replay must hold a minibatch, and {rows} rows for each of {environments} environments (a "
            f"rollout, {parts})",
            f"write {least} or more",
        )


def secondary_batches_alone(topology: Topology) -> Refusals:
    """A secondary learner needs exactly one primary learner."""
    if topology.replay and topology.replay.secondary_batch_size and not mode(topology).alone:
        count = topology.learners.count
        yield (
            "replay.secondary_batch_size",
            f"a secondary learner needs a run with one learner, and there are {count} learners in mode {topology.mode}",
            "write learners.count: 1 and mode: sync, or 0",
        )


def memory_with_sequences(topology: Topology) -> Refusals:
    """A recurrent network needs an algorithm that replays sequences: single transitions have no state to begin with."""
    if topology.replay and _has_memory(topology) and not ALGORITHMS.spec(topology.algorithm.name).sequences:
        yield (
            "model.recurrence",
            f"{topology.algorithm.name} replays single transitions, which have no recurrent state",
            "leave the key out, or use another algorithm",
        )


def statistics_of_observations(topology: Topology) -> Refusals:
    """``model.statistics_rows`` needs ``model.normalize_observation``, which cannot be used with a replay."""
    if topology.model.statistics_rows is not None and not topology.model.normalize_observation:
        yield (
            "model.statistics_rows",
            "statistics_rows has an effect only with model.normalize_observation, which is false",
            "leave the key out, or set model.normalize_observation: true",
        )
    if topology.replay and topology.model.normalize_observation:
        yield (
            "model.normalize_observation",
            "the statistics of observations are collected from whole rollouts, but "
            f"{topology.algorithm.name} learns from minibatches of a replay",
            "leave the key out, or use another algorithm",
        )


def sequences_with_a_use(topology: Topology) -> Refusals:
    """Keys of sequences need an algorithm that learns from sequences; a burn-in needs a recurrent network."""
    if topology.replay is None:
        return
    if not ALGORITHMS.spec(topology.algorithm.name).sequences:
        having = join_words([spec.name for spec in ALGORITHMS.specs() if spec.sequences])
        for key in ("sequence_steps", "burn_in_steps", "sequence_every"):
            if getattr(topology.replay, key) != getattr(ReplaySettings(), key):
                rule = f"{topology.algorithm.name} learns from single transitions"
                yield f"replay.{key}", rule, f"leave the key out, or write algorithm.name: {having}"
    elif topology.replay.burn_in_steps and isinstance(topology.model, EncoderSettings) and not _has_memory(topology):
        rule = "a burn-in is for recurrent networks, and model.recurrence is none"
        yield "replay.burn_in_steps", rule, "write 0, or model.recurrence: lstm"


def targets_at_rollouts(topology: Topology) -> Refusals:
    """With ``simulators.weights: rollout``, target networks must change only at the beginning of a rollout."""
    if not isinstance(topology.algorithm, OffPolicySettings) or topology.simulators.weights == "newest":
        return
    target = topology.algorithm.target
    if not isinstance(target, HardCopies):
        return
    steps = topology.algorithm.horizon * topology.learners.count * topology.simulators.environments
    every = target.every_steps
    if every % steps:
        yield (
            "algorithm.target_every_steps",
            f"with simulators.weights: rollout this must be a multiple of a rollout, which has {steps} steps "
            f"(horizon {topology.algorithm.horizon} x {steps // topology.algorithm.horizon} environments)",
            f"write {-(-every // steps) * steps}, or another horizon, or weights: newest",
        )


RULES: tuple[Callable[[Topology], Refusals], ...] = (
    writers_can_be_made,
    whole_groups,
    delays_grow,
    spinning_is_given_longer,
    servers_with_work,
    evaluations_can_be_made,
    rules_of_the_mode,
    experience_is_corrected,
    learners_reach_each_other,
    servers_with_learners,
    keys_of_the_mode,
    keys_without_effect,
    horizon_of_batch_steps,
    inference_batches_that_fill,
    weights_of_rollouts,
    replay_begins,
    replay_holds,
    secondary_batches_alone,
    memory_with_sequences,
    statistics_of_observations,
    sequences_with_a_use,
    targets_at_rollouts,
    actions_reach_their_bounds,
    noise_is_learned_with,
    noise_that_lasts,
    samples_with_ratios,
    schedules_with_an_end,
    updates_end_together,
    minibatches_with_transitions,
)


def _has_memory(topology: Topology) -> bool:
    return isinstance(topology.model, EncoderSettings) and topology.model.recurrence != "none"


def _largest_batch(replay: ReplaySettings) -> tuple[int, str]:
    return max((replay.batch_size, "batch_size"), (replay.secondary_batch_size, "secondary_batch_size"))
