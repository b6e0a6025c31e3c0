"""Groups of runs that differ only in their seeds: means over seeds, and tests whether two groups differ. Pure.

Reads resolved topologies, and learning curves, which are points of (environment steps, number).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from launch.reports.format import printable
from launch.reports.statistics import Numbers
from launch.topology.changes import flat

Points = Sequence[tuple[float, float]] | Numbers
"""A learning curve: increasing environment steps, and a number for each; pairs, or an array [points, 2]."""

NO_DIFFERENCE = frozenset({"name", "seed"})
"""Keys in which runs of one group may differ."""
_SAID = 3
"""Most differing keys in the name of a group."""
_SAME_END = 1.1
"""Largest factor between the ends of runs that count as the same end."""
_DIVISIONS = 50_000
"""Up to this number of divisions of two groups all are used; above it, this number is drawn."""


def group_alike(topologies: Sequence[Mapping[str, Any]], differing: Collection[str] = NO_DIFFERENCE) -> list[list[int]]:
    """Return the indices of topologies that differ only in the keys ``differing``, a list for each group.

    A key that only one of two topologies has makes no difference: the other was written by a version of actorlearn
    without that key. Keys that depend on a choice, such as of an algorithm, differ together with the key of the choice.
    """
    read = [_keys(topology, differing) for topology in topologies]
    groups: list[list[int]] = []
    for index, keys in enumerate(read):
        for group in groups:
            first = read[group[0]]
            if all(first[key] == value for key, value in keys.items() if key in first):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def find_differences(
    topologies: Sequence[Mapping[str, Any]], but: Collection[str] = NO_DIFFERENCE
) -> list[dict[str, Any]]:
    """Return for each topology the values of the keys that all have and in which they differ, except ``but``.

    Keys of choices (.name, .id) come first.
    """
    read = [_keys(topology, but) for topology in topologies]
    shared = [key for key in (read[0] if read else ()) if all(key in other for other in read)]
    differing = [key for key in shared if any(keys[key] != read[0][key] for keys in read)]
    differing.sort(key=lambda key: not key.endswith((".name", ".id")))
    return [{key: keys[key] for key in differing} for keys in read]


def said(keys: Mapping[str, Any]) -> str:
    """Return the first few differing keys in the form of the command line; ``all runs`` if there are none."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in keys.items()}
    written = [printable(f"{key}={text}") for key, text in texts.items()]
    more = [f"and {len(written) - _SAID} more"] if len(written) > _SAID else []
    return " ".join([*written[:_SAID], *more]) or "all runs"


def _keys(topology: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    """Return the values by key, section.key in sections, except the keys ``but``."""
    return {key: value for key, value in flat(topology).items() if key not in but}


def resample(curves: Sequence[Points], count: int = 200) -> tuple[Numbers, Numbers]:
    """Return steps [count] that all curves cover and their numbers there [curves, count], linear between points.

    Short runs may have a single point each, at their ends. If such ends differ by less than a tenth, one step is
    returned, the earliest end. Raises ValueError if no step is covered by all curves.
    """
    begin, end = max(points[0][0] for points in curves), min(points[-1][0] for points in curves)
    if begin > end * _SAME_END:
        raise ValueError(
            f"the runs have no steps in common: the numbers of one begin at step {begin:,.0f}, those of another end at "
            f"step {end:,.0f}; continue the shorter run"
        )
    steps = np.linspace(begin, end, count) if begin < end else np.array([end])
    return steps, np.array([np.interp(steps, at, numbers) for at, numbers in (np.array(own).T for own in curves)])


def permutation_p(first: Numbers, second: Numbers) -> float:
    """Return the two-sided p-value of a permutation test of the difference of two means (Fisher 1935).

    It is the share of divisions, among all divisions of the numbers into two groups of the same sizes, with means that
    differ at least as much as those of the given groups. It makes no assumption about the distribution of the numbers.
    """
    together = np.concatenate([first, second])
    apart = abs(first.mean() - second.mean()) * (1 - 1e-9)  # sums in another order differ in their last bits
    total, others = together.sum(), len(second)
    of_chosen = together[_divisions(len(together), len(first))].sum(axis=1)
    return float(np.mean(abs(of_chosen / len(first) - (total - of_chosen) / others) >= apart))


def _divisions(count: int, first: int) -> npt.NDArray[np.int64]:
    """Return the indices of the first group in all divisions; if they are too many, in divisions drawn with seed 0."""
    if comb(count, first) <= _DIVISIONS:
        return np.array(list(combinations(range(count), first)))
    drawn = np.random.default_rng(0).random((_DIVISIONS, count)).argsort(axis=1)[:, :first]
    drawn[0] = range(first)  # the observed division, so that p is never 0
    return drawn
