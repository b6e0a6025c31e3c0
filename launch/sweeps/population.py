"""Population-based training (Jaderberg et al. 2017, arXiv 1711.09846), in step: the exploit and explore step.

Pure. As in the paper the worst members, by truncation selection, take weights and values of some of the best (exploit),
and each of these values is then multiplied by one of two factors (explore). Where the paper compares a member whenever
it is ready, with others wherever they are, here a generation ends when all its members have: no member is compared
with others that have learned longer, members may take turns on few cores, and the outcome does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from launch.sweeps.axes import Axis, Values, draw
from launch.sweeps.keys import PopulationKeys


class Member(NamedTuple):
    """A member of a generation."""

    values: Values
    parent: int | None = None
    """Its predecessor's place in the generation before; None in the first, which begins anew."""


def first_generation(axes: Sequence[Axis], keys: PopulationKeys, members: int) -> list[Member]:
    """Return the members that begin, with values drawn from the axes."""
    return [Member(draw(axes, Random(f"{keys.seed} 0 {place}"))) for place in range(members)]


def next_generation(
    axes: Sequence[Axis],
    keys: PopulationKeys,
    generation: int,
    before: Sequence[Values],
    scores: Sequence[float | None],
) -> list[Member]:
    """Return the members of a generation (from 1), given the values and scores of those before it; more is better.

    Those without a score are the worst, and nobody goes on from them. At least one must have a score.
    """
    by_score = sorted((score, -place) for place, score in enumerate(scores) if score is not None)
    ranked = [-place for _, place in by_score]  # of equal ones the first is the best
    lost = [place for place, score in enumerate(scores) if score is None]
    count = min(max(1, int(keys.quantile * len(scores))), len(scores) // 2)
    worst = {*lost, *ranked[: max(0, count - len(lost))]} if count else set(lost)
    best = [place for place in ranked[-max(count, 1) :] if place not in worst] or ranked[-1:]
    found = []
    for place, values in enumerate(before):
        random = Random(f"{keys.seed} {generation} {place}")
        if place in worst and place not in best:
            parent = random.choice(best)
            found.append(Member(explore(axes, keys, before[parent], random), parent))
        else:
            found.append(Member(values, place))
    return found


def explore(axes: Sequence[Axis], keys: PopulationKeys, values: Values, random: Random) -> Values:
    """Return values near others: each number times one of the factors, of a list a neighbour."""
    return {axis.key: axis.move(values[axis.key], keys.factors, random) for axis in axes}
