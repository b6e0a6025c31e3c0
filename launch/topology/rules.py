"""Rules that tie the keys of a topology together: what each refuses, why, and what to write instead.

Pure. Each rule takes a whole topology, whose every value is right by itself, and yields what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from actorlearn.algorithms.settings import ALGORITHMS, HardCopies, OffPolicySettings, OnPolicySettings
from actorlearn.metrics.specs import WRITERS
from actorlearn.models.specs import EncoderSettings
from actorlearn.parameters.modes import ALL_KEYS, MODES
from actorlearn.parameters.published import SLOTS
from actorlearn.parameters.settings import GossipSettings, LearnersSettings
from actorlearn.replay.settings import ReplaySettings
from launch.topology.modes import asked, mode
from launch.topology.schema import Topology
from launch.topology.validate import Problem, listed, no_entry

Problems = Iterator[Problem]


def broken(t: Topology) -> Problems:
    """Yield everything that is wrong with a topology whose values are right by themselves."""
    for rule in RULES:
        yield from rule(t)


def writers_can_be_made(t: Topology) -> Problems:
    """Rows go to writers that are there: whoever writes them is known before anything is started."""
    for place, name in enumerate(t.report.writers):
        try:
            WRITERS.spec(name).load()
        except ValueError as error:
            yield no_entry(("report", "writers", place), name, WRITERS, str(error))


def whole_groups(t: Topology) -> Problems:
    """Environments split evenly into groups."""
    envs, groups = t.simulators.envs, t.simulators.groups
    if envs % groups:
        lower, upper = envs // groups * groups, -(-envs // groups) * groups
        yield _problem(
            t,
            "simulators.envs",
            f"environments split evenly into groups, and {envs} is no multiple of {groups} (groups)",
            f"write envs: {f'{lower} or {upper}' if lower else upper}, or another number of groups",
        )


def delays_grow(t: Topology) -> Problems:
    """The delay between restarts only grows."""
    first = t.supervision.restart_delay_s
    if t.supervision.longest_restart_delay_s < first:
        yield _problem(
            t,
            "supervision.longest_restart_delay_s",
            f"delays only grow, and restart_delay_s is {first:g}",
            f"write {first:g} or more, or a smaller restart_delay_s",
        )


def spinning_is_given_longer(t: Topology) -> Problems:
    """A process that computes may be silent for at least as long as one that does not."""
    for hang_s, spin_s, keys in t.limits.values():
        if spin_s < hang_s:
            hang = f"{keys}hang_s".rpartition(".")[2]
            yield _problem(
                t,
                f"{keys}spin_s",
                f"who computes is given at least as long as who does not, and {hang} is {hang_s:g}",
                f"write {hang_s:g} or more, or a smaller {hang}",
            )


def servers_with_work(t: Topology) -> Problems:
    """No inference server is idle."""
    if t.inference.count > t.simulators.count:
        yield _problem(
            t,
            "inference.count",
            f"each simulator has one inference server, and simulators.count is {t.simulators.count}",
            f"write a number from 1 to {t.simulators.count}, or more simulators",
        )


def rules_of_the_mode(t: Topology) -> Problems:
    """Learners learn together in a mode that has rules of its own."""
    for key, rule, way_out in mode(t).refusals(asked(t)):
        yield _problem(t, key, rule, way_out)


def keys_of_the_mode(t: Topology) -> Problems:
    """Nobody sets what only learners in another mode read."""
    defaults = {"learners": LearnersSettings(), "gossip": GossipSettings()}
    for key in sorted(filter(mode(t).unread, ALL_KEYS)):
        section, _, name = key.partition(".")
        if getattr(getattr(t, section), name) != getattr(defaults[section], name):
            reading = " or ".join(name for name, other in MODES.items() if key in other.keys)
            learners = f"{t.learners.count} learner{'s' if t.learners.count > 1 else ''}"
            rule = f"{learners} in mode {t.mode} have no use for it, and those in mode {reading} do"
            yield _problem(t, key, rule, f"leave it out, or write mode: {reading}")


def in_peers_are_others(t: Topology) -> Problems:
    """A graph that is written out names the in-peers of each learner: others, each once."""
    graph = t.gossip.graph
    if not isinstance(graph, list):
        return
    for learner, peers in enumerate(graph):
        known = all(0 <= peer < len(graph) for peer in peers)
        if not known or learner in peers or len(set(peers)) < len(peers):
            yield _problem(
                t,
                "gossip.graph",
                f"the list of learner {learner} is numbers of in-peers: others of 0 to {len(graph) - 1}, each once",
                "write for example [[2], [0], [1]]",
            )
            return


def horizon_of_batch_steps(t: Topology) -> Problems:
    """The steps of a batch are those of all environments."""
    steps, environments = t.algorithm.batch_steps, t.simulators.environments
    if steps is None or steps == t.algorithm.horizon * environments:
        return
    lower = steps // environments * environments
    if lower == steps:
        yield _problem(
            t,
            "algorithm.horizon",
            f"{steps} steps (batch_steps) of {environments} environments are {steps // environments} of each",
            "leave the horizon out, or batch_steps",
        )
    else:
        yield _problem(
            t,
            "algorithm.batch_steps",
            f"all environments give as many steps, and {steps} is no multiple of {environments} (environments)",
            f"write {f'{lower} or ' if lower else ''}{lower + environments}, or other simulators.envs",
        )


def inference_batches_that_fill(t: Topology) -> Problems:
    """A server waits for no more environments than it answers."""
    rows, servers = t.inference.batch_rows, t.inference.count
    environments = t.simulators.count // max(servers, 1) * t.simulators.envs
    if rows and not servers:
        yield _problem(
            t,
            "inference.batch_rows",
            "batches are gathered by inference servers, and inference.count is 0",
            "write inference.count: 1 or more, or batch_rows: 0",
        )
    elif rows > environments:
        yield _problem(
            t,
            "inference.batch_rows",
            f"a server answers {environments} environments, so that batch never fills",
            f"write a number from 0 to {environments}",
        )


def weights_of_rollouts(t: Topology) -> Problems:
    """Rows are answered by the weights of their rollout only where these are kept, and are one version."""
    if t.simulators.weights == "newest":
        return
    if t.simulators.blocks > SLOTS:
        yield _problem(
            t,
            "simulators.weights",
            f"{SLOTS} versions of the weights are kept, and {t.simulators.blocks} rollouts (blocks) may be open",
            f"write simulators.blocks: {SLOTS} or less, or weights: newest",
        )
    if t.inference.batch_rows or t.learners.pull_rows:
        yield _problem(
            t,
            "simulators.weights",
            "rows of several rollouts would be answered together (inference.batch_rows), or by weights that change "
            "within a rollout (learners.pull_rows)",
            "leave both at 0, or write weights: newest",
        )


def minibatches_with_transitions(t: Topology) -> Problems:
    """No part of a batch is empty."""
    if not isinstance(t.algorithm, OnPolicySettings):
        return
    most, what = t.simulators.environments, "whole environments"
    if ALGORITHMS.spec(t.algorithm.name).parts_of_transitions and not _has_memory(t):
        most, what = most * t.algorithm.horizon, "transitions"
    if t.algorithm.minibatches > most:
        yield _problem(
            t,
            "algorithm.minibatches",
            f"a part of a batch is {what}, and there are {most}",
            f"write a number from 1 to {most}, or more simulators.envs",
        )


def noise_is_learned_with(t: Topology) -> Problems:
    """Noise is drawn where it is learned with too."""
    if t.replay is None and isinstance(t.model, EncoderSettings) and t.model.noisy:
        having = listed([spec.name for spec in ALGORITHMS.specs() if spec.replayed])
        yield _problem(
            t,
            "model.noisy",
            f"noise is drawn for {having} alone, and {t.algorithm.name} draws its actions already",
            "write 0.0, or another algorithm",
        )


def replay_begins(t: Topology) -> Problems:
    """The first minibatch of value learning has enough to draw from."""
    if t.replay is None or not isinstance(t.algorithm, OffPolicySettings):
        return
    first, environments = t.replay.learning_starts_steps, t.simulators.environments
    batch, which = _largest_batch(t.replay)
    if batch > first:
        yield _problem(
            t,
            "replay.learning_starts_steps",
            f"a minibatch is {batch} transitions ({which}), so that many are stored before the first",
            f"write {batch} or more",
        )
    n, horizon = t.algorithm.n_step, t.algorithm.horizon
    if t.replay.sequence_rows > 1:
        every, rest = t.replay.sequence_every, t.replay.sequence_rows - 1 + n
        if (every + rest - horizon) * environments > first:
            yield _problem(
                t,
                "replay.learning_starts_steps",
                f"a sequence may begin {every} steps late (sequence_every) and is whole {rest} later (burn_in_steps, "
                f"sequence_steps, n_step), and the first minibatch is drawn from {environments} environments",
                f"write {(every + rest - horizon) * environments} or more",
            )
    elif (n - horizon) * environments > first:  # beside these there is the rollout before the update
        yield _problem(
            t,
            "replay.learning_starts_steps",
            f"a transition is whole {n} steps later (n_step), and the first minibatch is drawn from {environments} "
            f"environments, which play {horizon} a rollout (horizon)",
            f"write {(n - horizon) * environments} or more",
        )


def replay_holds(t: Topology) -> Problems:
    """A replay has room for a batch, and for what is being played (the rule of rings is Replay.__init__'s)."""
    if t.replay is None or not isinstance(t.algorithm, OffPolicySettings):
        return
    environments = t.simulators.environments
    rows = t.algorithm.horizon + 1 + t.env.frames_stacked + t.algorithm.n_step
    rows += t.replay.sequence_rows - 1 + t.replay.sequence_every - 1
    parts = "stack, n_step and sequence" if t.replay.sequence_rows > 1 else "stack and n_step"
    least = max(_largest_batch(t.replay)[0], rows * environments)
    if t.replay.capacity_steps < least:
        yield _problem(
            t,
            "replay.capacity_steps",
            f"it holds a batch, and of each of {environments} environments a rollout, {parts} ({rows} rows)",
            f"write {least} or more",
        )


def replay_alone(t: Topology) -> Problems:
    """Value learning from a replay has no secondary batches beside other learners, no memory and no statistics."""
    if t.replay is None:
        return
    if t.replay.secondary_batch_size and not mode(t).alone:
        yield _problem(
            t,
            "replay.secondary_batch_size",
            f"it learns beside a learner that is alone, and there are {t.learners.count} learners in mode {t.mode}",
            "write learners.count: 1 and mode: sync, or 0",
        )
    sequences = ALGORITHMS.spec(t.algorithm.name).sequences
    for key, has, what in (
        ("model.recurrence", _has_memory(t) and not sequences, "single transitions are replayed, and no memories"),
        ("model.normalize_observation", t.model.normalize_observation, "statistics are those of whole batches"),
    ):
        if has:
            rule = f"{t.algorithm.name} has none: {what}"
            yield _problem(t, key, rule, "leave it out, or use another algorithm")


def sequences_with_a_use(t: Topology) -> Problems:
    """Sequences are replayed for those who learn from them, and burnt in for those who remember."""
    if t.replay is None:
        return
    if not ALGORITHMS.spec(t.algorithm.name).sequences:
        having = listed([spec.name for spec in ALGORITHMS.specs() if spec.sequences])
        for key in ("sequence_steps", "burn_in_steps", "sequence_every"):
            if getattr(t.replay, key) != getattr(ReplaySettings(), key):
                rule = f"{t.algorithm.name} learns from single transitions"
                yield _problem(t, f"replay.{key}", rule, f"leave it out, or write algorithm.name: {having}")
    elif t.replay.burn_in_steps and isinstance(t.model, EncoderSettings) and not _has_memory(t):
        rule = "a burn-in makes the state of a network with memory, and model.recurrence is none"
        yield _problem(t, "replay.burn_in_steps", rule, "write 0, or model.recurrence: lstm")


def targets_at_rollouts(t: Topology) -> Problems:
    """Target networks change where a rollout begins, if rows are answered by the rollout's weights."""
    if not isinstance(t.algorithm, OffPolicySettings) or t.simulators.weights == "newest":
        return
    target = t.algorithm.target
    if not isinstance(target, HardCopies):
        return
    steps = t.algorithm.horizon * t.learners.count * t.simulators.environments
    every = target.every_steps
    if every % steps:
        yield _problem(
            t,
            "algorithm.target_every_steps",
            f"with simulators.weights: rollout it is whole rollouts, and one has {steps} steps "
            f"(horizon {t.algorithm.horizon} x {steps // t.algorithm.horizon} environments)",
            f"write {-(-every // steps) * steps}, or another horizon, or weights: newest",
        )


RULES: tuple[Callable[[Topology], Problems], ...] = (
    writers_can_be_made,
    whole_groups,
    delays_grow,
    spinning_is_given_longer,
    servers_with_work,
    in_peers_are_others,
    rules_of_the_mode,
    keys_of_the_mode,
    horizon_of_batch_steps,
    inference_batches_that_fill,
    weights_of_rollouts,
    replay_begins,
    replay_holds,
    replay_alone,
    sequences_with_a_use,
    targets_at_rollouts,
    noise_is_learned_with,
    minibatches_with_transitions,
)


def _has_memory(t: Topology) -> bool:
    return isinstance(t.model, EncoderSettings) and t.model.recurrence != "none"


def _largest_batch(replay: ReplaySettings) -> tuple[int, str]:
    return max((replay.batch_size, "batch_size"), (replay.secondary_batch_size, "secondary_batch_size"))


def _problem(t: Topology, key: str, rule: str, way_out: str) -> Problem:
    """Return a problem with the value of a dotted key."""
    path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    value: object = reduce(_at, path, t)
    return Problem(path, value, rule, way_out)


def _at(found: Any, part: Any) -> Any:
    return found[part] if isinstance(found, Mapping | Sequence) else getattr(found, part)
