"""Synchronous population-based training (Jaderberg et al. 2017, arXiv 1711.09846): the exploit and explore step. Pure.

As in the paper, truncation selection replaces the worst members: they take weights and values of some of the best
(exploit), and each of these values is multiplied by one of two factors (explore). The paper compares a member whenever
it is ready with members at any other step. Here a generation ends when all its members have ended. So members are
compared at equal steps, they can run one after another on few cores, and the result does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from launch.sweeps.axes import Axis, Values, draw
from launch.sweeps.keys import PopulationKeys


class PopulationMember(NamedTuple):
    """A member of a generation."""

    values: Values
    parent: int | None = None
    """Place of its predecessor in the generation before; None in the first generation."""


def first_generation(axes: Sequence[Axis], keys: PopulationKeys, members: int) -> list[PopulationMember]:
    """Return the members of the first generation, with values drawn from the axes."""
    return [PopulationMember(draw(axes, Random(f"{keys.seed} 0 {place}"))) for place in range(members)]


def next_generation(
    axes: Sequence[Axis],
    keys: PopulationKeys,
    generation: int,
    before: Sequence[Values],
    scores: Sequence[float | None],
) -> list[PopulationMember]:
    """Return the members of a generation (from 1), given values and scores of the one before; higher scores are better.

    Members without a score are the worst, and no member continues from them. At least one must have a score.
    """
    by_score = sorted((score, -place) for place, score in enumerate(scores) if score is not None)
    ranked = [-place for _, place in by_score]  # of equal scores the first is the best
    lost = [place for place, score in enumerate(scores) if score is None]
    count = min(max(1, int(keys.quantile * len(scores))), len(scores) // 2)
    worst = {*lost, *ranked[: max(0, count - len(lost))]} if count else set(lost)
    best = [place for place in ranked[-max(count, 1) :] if place not in worst] or ranked[-1:]
    found = []
    for place, values in enumerate(before):
        random = Random(f"{keys.seed} {generation} {place}")
        if place in worst and place not in best:
            parent = random.choice(best)
            found.append(PopulationMember(explore(axes, keys, before[parent], random), parent))
        else:
            found.append(PopulationMember(values, place))
    return found


def explore(axes: Sequence[Axis], keys: PopulationKeys, values: Values, random: Random) -> Values:
    """Return changed values: a number is multiplied by a factor, a value of a list is replaced by a neighbour."""
    return {axis.key: axis.move(values[axis.key], keys.factors, random) for axis in axes}
