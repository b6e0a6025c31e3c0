"""Groups runs by their topologies, resamples their learning curves to common steps, and tests whether groups differ.

Topologies include all defaults; learning curves are points (environment steps, value). The module reads no files.
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
"""Runs that ended at steps that differ by at most this factor count as having ended at the same step."""
_DIVISIONS = 50_000
"""Most divisions of the numbers into two groups in a permutation test; if there are more, this many are drawn."""


def group_alike(topologies: Sequence[Mapping[str, Any]], differing: Collection[str] = NO_DIFFERENCE) -> list[list[int]]:
    """Group topologies that differ only in the keys ``differing``; a group is a list of their indices.

    Keys that only one of two topologies has are ignored, because an earlier version may have written the other one.
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
    """Return for each topology the keys and values in which the topologies differ, except the keys in ``but``.

    Only keys that all topologies have are compared. Keys such as algorithm.name and env.id come first.
    """
    read = [_keys(topology, but) for topology in topologies]
    shared = [key for key in (read[0] if read else ()) if all(key in other for other in read)]
    differing = [key for key in shared if any(keys[key] != read[0][key] for keys in read)]
    differing.sort(key=lambda key: not key.endswith((".name", ".id")))
    return [{key: keys[key] for key in differing} for keys in read]


def group_name(keys: Mapping[str, Any]) -> str:
    """Return the name of a group, which is the first few of the ``keys`` in which it differs from other groups.

    For example, ``algorithm.name=ppo mode=sync``; "all runs" without keys.
    """
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in keys.items()}
    written = [printable(f"{key}={text}") for key, text in texts.items()]
    more = [f"and {len(written) - _SAID} more"] if len(written) > _SAID else []
    return " ".join([*written[:_SAID], *more]) or "all runs"


def _keys(topology: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    """Return dotted key -> value of a topology, except the keys ``but``."""
    return {key: value for key, value in flat(topology).items() if key not in but}


def resample(curves: Sequence[Points], count: int = 200) -> tuple[Numbers, Numbers]:
    """Return evenly spaced steps that all curves cover, [count], and the numbers of each curve there, [curves, count].

    Numbers are interpolated linearly. Raises ValueError if one curve begins after another has ended. If it begins at
    most 10 % later, as in short runs with single reports, the earliest end is returned as the only step instead.
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

    It is the share of all divisions of the numbers into groups of these sizes whose means differ at least as much.
    """
    together = np.concatenate([first, second])
    apart = abs(first.mean() - second.mean()) * (1 - 1e-9)  # sums in another order differ in their last bits
    total, others = together.sum(), len(second)
    of_chosen = together[_divisions(len(together), len(first))].sum(axis=1)
    return float(np.mean(abs(of_chosen / len(first) - (total - of_chosen) / others) >= apart))


def _divisions(count: int, first: int) -> npt.NDArray[np.int64]:
    """Return the indices of the first group in each division, [divisions, first]; ``count``: numbers in both groups.

    If there are more than ``_DIVISIONS``, that many are drawn with seed 0.
    """
    if comb(count, first) <= _DIVISIONS:
        return np.array(list(combinations(range(count), first)))
    drawn = np.random.default_rng(0).random((_DIVISIONS, count)).argsort(axis=1)[:, :first]
    drawn[0] = range(first)  # the observed division, so that p is never 0
    return drawn
