"""Runs that differ in their seed alone, as one group: means over seeds, and whether two groups differ. Pure.

Reads resolved topologies and learning curves, points of (environment steps, number).
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
from launch.reports.statistics import Band, Numbers, band, interquartile_mean

Points = Sequence[tuple[float, float]] | Numbers
"""A learning curve: environment steps, which grow, and a number; pairs, or [points, 2]."""

NO_DIFFERENCE = frozenset({"name", "seed"})
"""Keys in which runs of one group differ."""
_SAID = 3
"""Most differing keys in the name of a group."""
_SAME_END = 1.1
"""Factor between the ends of runs that are taken for the same."""
_DIVISIONS = 50_000
"""Most divisions of two groups that are all looked at; of more, so many are drawn."""


def group_alike(topologies: Sequence[Mapping[str, Any]], differing: Collection[str] = NO_DIFFERENCE) -> list[list[int]]:
    """Return the indices of topologies that differ in these keys alone, a list for each group.

    A key that one of two does not have is one that its version of actorlearn did not know, and makes no difference:
    those of other choices, such as of an algorithm, have another value at the key of the choice.
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
    """Return of each topology the keys that all have and in which they differ, but for some, choices by name first."""
    read = [_keys(topology, but) for topology in topologies]
    shared = [key for key in (read[0] if read else ()) if all(key in other for other in read)]
    differing = [key for key in shared if any(keys[key] != read[0][key] for keys in read)]
    differing.sort(key=lambda key: not key.endswith((".name", ".id")))
    return [{key: keys[key] for key in differing} for keys in read]


def said(keys: Mapping[str, Any]) -> str:
    """Return the first few differing keys, as the command line takes them; ``all runs`` where there are none."""
    written = [printable(f"{key}={_as_value(value)}") for key, value in keys.items()]
    more = [f"and {len(written) - _SAID} more"] if len(written) > _SAID else []
    return " ".join([*written[:_SAID], *more]) or "all runs"


def _as_value(value: Any) -> str:
    """Return a value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _keys(topology: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    """Return the values by key, section.key in sections, without some."""
    found: dict[str, Any] = {}
    for key, value in topology.items():
        if isinstance(value, Mapping) and key != "roles":  # roles are any names, and no section
            found |= {f"{key}.{own}": its for own, its in value.items()}
        else:
            found[key] = value
    return {key: value for key, value in found.items() if key not in but}


def resample(curves: Sequence[Points], count: int = 200) -> tuple[Numbers, Numbers]:
    """Return steps [count] that all curves cover and their numbers there [curves, count], linear between points.

    Short runs may have a single point each, at their ends, which differ by less than an update's steps: then there is
    one step, the first end. Raises ValueError where no step is covered by all.
    """
    begin, end = max(points[0][0] for points in curves), min(points[-1][0] for points in curves)
    if begin > end * _SAME_END:
        raise ValueError(
            f"the runs have no step in common: one has numbers from {begin:,.0f} steps on, another until {end:,.0f}; "
            "let the shorter one go on"
        )
    steps = np.linspace(begin, end, count) if begin < end else np.array([end])
    return steps, np.array([np.interp(steps, at, numbers) for at, numbers in (np.array(own).T for own in curves)])


def interquartile_band(curves: Sequence[Points]) -> tuple[Numbers, Band]:
    """Return steps that all curves cover, and there the interquartile mean of the curves with its intervals.

    Raises ValueError where no step is covered by all.
    """
    steps, numbers = resample(curves)
    return steps, band(interquartile_mean, [numbers.T])


def permutation_p(first: Numbers, second: Numbers) -> float:
    """Return the two-sided p-value of a permutation test of the difference of two means (Fisher 1935).

    It is the share of all ways to divide the numbers of both groups into groups as large whose means lie as far
    apart. It assumes nothing of how the numbers are distributed.
    """
    together = np.concatenate([first, second])
    apart = abs(first.mean() - second.mean()) * (1 - 1e-9)  # sums in another order differ in their last bits
    total, others = together.sum(), len(second)
    of_chosen = together[_divisions(len(together), len(first))].sum(axis=1)
    return float(np.mean(abs(of_chosen / len(first) - (total - of_chosen) / others) >= apart))


def _divisions(count: int, first: int) -> npt.NDArray[np.int64]:
    """Return the indices of the first group, of all divisions or of many that are drawn alike each time."""
    if comb(count, first) <= _DIVISIONS:
        return np.array(list(combinations(range(count), first)))
    drawn = np.random.default_rng(0).random((_DIVISIONS, count)).argsort(axis=1)[:, :first]
    drawn[0] = range(first)  # as they are, so that p is never 0
    return drawn
