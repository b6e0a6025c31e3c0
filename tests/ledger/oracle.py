"""Checks of a run's counters against what became of each row.

What became of a row follows from the steps that simulators produced, from the final weights, and from the contents of
replays and checkpoints; no counter of the run is trusted. The entry point is ``violations``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from actorlearn.memory.account import REASONS, Account, StepCounts
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import learner_of
from actorlearn.replay.flushed import Flushed
from tests.ledger.counting import PARTS, ROWS, Row, counts_of, row_of
from tests.ledger.env import read
from tests.ledger.simulated import Step
from tests.ledger.world import World

# Rows in weights and replays ----------------------------------------------------------------------------------------


def weights_of(world: World, learner: int = 0) -> Any:
    """Return the weights with which a learner ended; if learners share a store, those of the store."""
    if "store" not in world.kept:
        return world.trainers[learner].learning.weights.detach().numpy()
    store = world.kept["store"]
    values, version = store["values"], store["version"][:, 0]
    parts = [values[int(version[part]) % 2, 0, part * ROWS : (part + 1) * ROWS] for part in range(PARTS)]
    statistics = values[int(version[PARTS]) % 2, 0, PARTS * ROWS :]
    return np.concatenate([*parts, statistics])


def times_in(world: World, weights: Any) -> Counter[Row]:
    """Return how often weights count each row, by the part that counts it most often."""
    counts = counts_of(weights).round(3).max(axis=0).tolist()
    return Counter({row: counts[number] for row, number in world.numbers.of.items() if counts[number]})


def torn(world: World, weights: Any) -> list[Row]:
    """Return rows that one part of the weights counts more often than another."""
    counts = counts_of(weights).round(3)
    uneven = counts.max(axis=0) != counts.min(axis=0)
    return [row for row, number in world.numbers.of.items() if uneven[number]]


def times_used(world: World, learner: int = 0) -> Counter[Row]:
    """Number of times that each row is in a learner's final weights."""
    return times_in(world, weights_of(world, learner))


def stored(world: World, learner: int = 0) -> Counter[Row]:
    """Return how often each step is in a learner's replay, whose rings must never have been full."""
    segment = world.kept[f"replay-{learner}"]
    found: Counter[Row] = Counter()
    for ring, rows in enumerate(Flushed(segment).now.shown.tolist()):
        for frame, cut in zip(segment["frame"][ring, : max(rows - 1, 0)], segment["cut"][ring, 1:rows], strict=True):
            if not cut:
                found[row_of(read(frame))] += 1
    return found


# One learner's balance ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Balance:
    """Steps produced for one learner, and what its account says about them."""

    produced: int
    """Steps before its own checkpoint, if it was resumed from one, and in this life of the run."""
    steps: list[Step]
    """Steps of this life of the run, which began with a start or a resume."""
    learned: int
    counts: StepCounts
    before: StepCounts
    """Counts in the checkpoint from which it was resumed; 0 if that is another learner's checkpoint."""


def balance(world: World, learner: int) -> Balance:
    """Return a learner's balance for the present life of the run."""
    steps = [step for step in world.produced[world.life :] if step.learner == learner]
    learned, counts = Account(world.kept[f"account-{learner}"]).read_committed()
    begun, before = 0, StepCounts()
    saved = world.resumed.get(learner)
    if saved is not None and learner_of(saved.parent) == learner:  # else it counts from 0
        begun = world.saved[saved][learner] + learned_since(world, learner)
        before = msgspec.convert(checkpoint.load(saved).state["account"], StepCounts)
    return Balance(begun + len(steps), steps, learned, counts, before)


def violations(world: World) -> list[str]:
    """Return all broken promises of a run that has ended, in words."""
    found = [*world.errors, *world.backwards]
    if world.summary.get("status") not in ("finished", "stopped"):
        return [*found, f"the run is {world.summary.get('status')}: {world.summary.get('error')}"]
    learners = range(world.topology.learners.count)
    balances = {learner: balance(world, learner) for learner in learners}
    for learner, own in balances.items():
        found += [f"learner {learner}: {said}" for said in _of_learner(world, learner, own)]
    found += _of_summary(world, balances)
    found += _of_statistics(world, balances)
    for folder in sorted(world.saved):
        found += [f"{folder.relative_to(world.folder)}: {said}" for said in _of_checkpoint(world, folder)]
    return found


def _of_learner(world: World, learner: int, own: Balance) -> Iterator[str]:
    dropped = own.counts.dropped
    in_flight = _in_flight(own, dropped, world)
    total = own.counts.used + own.counts.dropped_steps + in_flight
    if total != own.produced and not behind(world, learner):
        yield (
            f"{own.produced} steps were produced, and {own.counts.used} used + {dropped} dropped + "
            f"{in_flight} in flight are {total}"
        )
    cut = {peer: (rollouts, steps) for peer, (rollouts, steps) in world.cut.items() if peer in _members(own)}
    surely = sum(len(steps) for rollouts, steps in cut.values() if rollouts + 2 < own.learned)
    unfinished = dropped["unfinished"] - own.before.dropped["unfinished"]
    if not surely <= unfinished <= sum(len(steps) for _, steps in cut.values()):
        yield f"{unfinished} steps are said to be unfinished, and {surely} are"
    expected = {"unfinished", *world.expected, *(["statistics"] if world.topology.model.normalize_observation else [])}
    for reason in REASONS.keys() - expected:
        if dropped[reason] != own.before.dropped[reason]:
            yield f"{dropped[reason]} steps are dropped as {reason}, and nothing was"
    if world.topology.replay:
        yield from _of_replay(world, learner, own)
    else:
        yield from _of_gradients(world, learner, own)


def behind(world: World, learner: int) -> bool:
    """Whether a learner in mode async resumed with newer weights, which do not say which of its rows they contain."""
    steps = {other: int(path.name) for other, path in world.resumed.items()}
    return world.topology.mode == "async" and learner in steps and steps[learner] < max(steps.values())


def learned_since(world: World, learner: int) -> int:
    """Return how many of a learner's steps the newest checkpoint's weights have and its own checkpoint does not count.

    Its own checkpoint counts the steps that were used, dropped and in flight.
    """
    if world.topology.mode != "sync" or learner not in world.resumed:
        return 0
    newest = max(world.resumed.values(), key=lambda path: int(path.name))
    own = checkpoint.load(world.resumed[learner])
    table = checkpoint.load(newest).tensors["consumed"].numpy()
    used = int(table[1 + learner, 1]) - int(own.state["account"]["dropped"]["not_finite"])
    return max(0, used - int(own.state["account"]["used"]) - int(own.state["in_flight"]))


def _members(own: Balance) -> set[str]:
    return {step.member for step in own.steps}


def _in_flight(own: Balance, dropped: dict[str, int], world: World) -> int:
    """Count the steps of rollouts that are not learned, without those that a killed simulator left unfinished."""
    waiting = sum(step.rollout >= own.learned for step in own.steps)
    late = [step for _, steps in world.cut.values() for step in steps if step.rollout >= own.learned]
    counted = dropped["unfinished"] - own.before.dropped["unfinished"]
    early = [
        step for peer in _members(own) & world.cut.keys() for step in world.cut[peer][1] if step.rollout < own.learned
    ]
    return waiting - min(len([step for step in late if step in own.steps]), max(counted - len(early), 0))


def _of_gradients(world: World, learner: int, own: Balance) -> Iterator[str]:
    epochs = world.topology.algorithm.epochs
    gossip = world.topology.mode == "gossip"
    times = applied(world, learner) if gossip else times_used(world, learner)
    mine = {step.row: step for step in world.produced if step.learner == learner}
    used = {row: count for row, count in times.items() if row in mine}
    often = {row: count for row, count in used.items() if count > epochs}
    if often:
        yield f"rows were learned from {set(often.values())} times and not {epochs}: {_named(often, mine)}"
    part = {row for row, count in used.items() if count < epochs and mine[row].rollout != own.learned}
    if part and not gossip:
        yield f"rows of rollouts that are learned were learned from less than {epochs} times: {_named(part, mine)}"
    this_life = {step.row for step in own.steps}
    early = {row for row, count in used.items() if row in this_life and mine[row].rollout >= own.learned}
    if learner not in world.finished:  # it died within a rollout at the end of the run, and was not restarted
        early = {row for row in early if mine[row].rollout > own.learned}
        used = {row: count for row, count in used.items() if row not in this_life or mine[row].rollout < own.learned}
    whole = sum(count == epochs for count in used.values())
    said = own.counts.used - (own.before.used if gossip else 0)
    if said > whole or (said < whole and not gossip and not behind(world, learner)):
        yield f"{said} steps are said to be used, and {whole} are in the weights"
    if gossip:
        return
    if early := {row for row in early if times[row] == epochs}:
        yield f"rows of rollouts that are not learned are in the weights: {_named(early, mine)}"
    whole_here = this_life if behind(world, learner) else used
    uneven = [row for row in torn(world, weights_of(world, learner)) if row in used and row in whole_here]
    if uneven:
        yield f"rows are in a part of the weights and not in another: {_named(uneven, mine)}"


def applied(world: World, learner: int) -> Counter[Row]:
    """Return how often each row was in a gradient that a trainer of the learner has applied in this life of the run."""
    name = world.trainers[learner].settings.id.name
    times: Counter[Row] = Counter()
    for peer, rows in world.applied[world.applied_before :]:
        if peer.rpartition(".")[0] == name:
            times.update(rows)
    return times


def _named(rows: Any, of: dict[Row, Step]) -> str:
    places = sorted({(of[row].member, of[row].rollout) for row in rows})
    return ", ".join(f"{member} rollout {rollout}" for member, rollout in places)


def _of_replay(world: World, learner: int, own: Balance) -> Iterator[str]:
    lies = stored(world, learner)
    if often := [row for row, count in lies.items() if count > 1]:
        yield f"rows are stored more than once: {often}"
    cut = {step.row for _, steps in world.cut.values() for step in steps}
    due = [step for step in own.steps if step.rollout < own.learned and step.row not in cut]
    lost = [step for step in due if step.row not in lies]
    room = own.counts.dropped["no_room"] - own.before.dropped["no_room"]
    if len(lost) != room:
        yield f"{len(lost)} steps of learned rollouts are not stored, and {room} had no room: {lost[:5]}"


def _of_summary(world: World, balances: dict[int, Balance]) -> Iterator[str]:
    """Check summary.json against all accounts; steps of a trainer that has not finished may be rolled back."""
    said = balances.values()
    used, dropped = sum(own.counts.used for own in said), sum(own.counts.dropped_steps for own in said)
    back = used - world.summary["steps_used"]
    if back < 0 or (back and balances.keys() <= world.finished):
        yield f"summary.json: steps_used is {world.summary['steps_used']}, and the accounts say {used}"
    if world.summary["steps_dropped"] != dropped + back:
        yield f"summary.json: steps_dropped is {world.summary['steps_dropped']}, and the accounts say {dropped + back}"
    if any(behind(world, learner) for learner in balances):
        return
    left = sum(own.produced - own.counts.used - own.counts.dropped_steps for own in said)
    if world.summary["steps_in_flight"] != left:
        yield f"summary.json: steps_in_flight is {world.summary['steps_in_flight']}, and {left} are left"


def _of_statistics(world: World, balances: dict[int, Balance]) -> Iterator[str]:
    """Check that normalisation has seen each row once that was learned from or dropped for its statistics."""
    if not world.topology.model.normalize_observation or world.topology.mode == "gossip":
        return
    if world.resumed and world.topology.mode != "alone":
        return  # several learners resume from accounts of different moments, and from the weights of one of them
    number = float(weights_of(world)[PARTS * ROWS])
    used = len(times_used(world))
    dropped = sum(own.counts.dropped["statistics"] for own in balances.values())
    if number != used + dropped:
        yield f"normalisation has seen {number:g} rows, {used} were learned from and {dropped} dropped for statistics"


def _of_checkpoint(world: World, folder: Path) -> Iterator[str]:
    """Check that a checkpoint's account matches its weights."""
    if world.topology.replay or world.topology.mode == "gossip" or not folder.exists():
        return
    saved = checkpoint.load(folder)
    learner = int(folder.parent.name.rpartition("-")[2]) if folder.parent.name.startswith("learner-") else 0
    weights = next(tensor for name, tensor in saved.section("weights").items() if name.endswith("counts")).numpy()
    times = times_in(world, weights)
    mine = {step.row for step in world.produced if step.learner == learner}
    used = sum(count == world.topology.algorithm.epochs for row, count in times.items() if row in mine)
    said = msgspec.convert(saved.state["account"], StepCounts).used
    if said > used or (said < used and not behind(world, learner)):
        yield f"{said} steps are said to be used, and {used} are in its weights"
