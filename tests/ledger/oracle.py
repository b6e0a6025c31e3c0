"""What became of every row, by its identity: worked out from final weights and replays, never from counters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from actorlearn.processes.replay_learning import ReplayLearning
from tests.ledger.counting import PARTS, ROWS, Row, counts_of, row_of
from tests.ledger.env import read
from tests.ledger.world import World


def weights_of(world: World, learner: int = 0) -> Any:
    """The weights that a learner ended with; of those that share a store, the store's."""
    if "store" not in world.kept:
        return world.trainers[learner].learning.weights.detach().numpy()
    store = world.kept["store"]
    values, version = store["values"], store["version"][:, 0]
    parts = [values[int(version[part]) % 2, 0, part * ROWS : (part + 1) * ROWS] for part in range(PARTS)]
    return np.concatenate(parts)


def times_used(world: World, learner: int = 0) -> Counter[Row]:
    """How often each row is in a learner's final weights; in all parts of them alike, or it is in error."""
    counts = counts_of(weights_of(world, learner)).round(3)
    used: Counter[Row] = Counter()
    for row, number in world.numbers.of.items():
        in_parts = counts[:, number].tolist()
        assert len(set(in_parts)) == 1, f"row {row} is {in_parts} times in the three parts of the weights"
        if in_parts[0]:
            used[row] = in_parts[0]
    return used


def minibatches(world: World, learner: int = 0) -> float:
    """How many minibatches are in a learner's final weights."""
    return float(counts_of(weights_of(world, learner))[:, 0].mean().round(3))


def stored(world: World, learner: int = 0) -> Counter[Row]:
    """How often each step is a transition in a learner's replay, whose rings were never full."""
    segment, learning = world.kept[f"replay-{learner}"], world.trainers[learner].learning
    assert isinstance(learning, ReplayLearning)
    found: Counter[Row] = Counter()
    for ring, rows in enumerate(learning.replay._shown.tolist()):
        for frame, cut in zip(segment["frame"][ring, : rows - 1], segment["cut"][ring, 1:rows], strict=True):
            if not cut:
                found[row_of(read(frame))] += 1
    return found
