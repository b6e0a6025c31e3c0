"""Names of runs and groups on the desk, made distinct by keys or by parts of folders.

Runs in different folders may have the same name. The *place* of a run or a group is then the part of its folder that
tells it from the others; otherwise it is "".
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePath

from launch.desk.watched import Group
from launch.reports.checks import is_number
from launch.reports.compare import find_differences, group_name
from launch.reports.format import printable


def group_names(groups: Sequence[Group]) -> list[str]:
    """Return the name of each group: that of its only run, or for several runs that of their topology.

    If several groups have the same topology name, the keys in which they differ are added.
    """
    names: list[str] = []
    same: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        view = group.members[0].view
        if len(group.members) == 1:
            names.append(printable(view.name))
        else:
            names.append(printable(str(view.topology.get("name") or "unnamed")))
            same.setdefault(names[-1], []).append(index)
    for name, indices in same.items():
        if len(indices) > 1:
            differences = find_differences([groups[index].members[0].view.topology for index in indices])
            for index, keys in zip(indices, differences, strict=True):
                names[index] = f"{name} {group_name({key: _rounded(value) for key, value in keys.items()})}"
    return names


def _rounded(value: object) -> object:
    return float(f"{value:.6g}") if isinstance(value, float) and is_number(value) else value


def run_places(groups: Sequence[Group]) -> dict[str, str]:
    """Return id of a run -> the part of its folder that tells it from runs of the same name, or ""."""
    runs = [watched for group in groups for watched in group.members]
    places = shortest_parts([(watched.view.name, watched.run.path.parent) for watched in runs])
    return {watched.id: place for watched, place in zip(runs, places, strict=True)}


def group_places(groups: Sequence[Group], names: Sequence[str], of_runs: Mapping[str, str]) -> list[str]:
    """Return for each group the part of its folder that tells it from groups of the same name, or "".

    ``of_runs``: id of a run -> the same for the run, used for groups of one run.
    """
    folders = [Path(os.path.commonpath([own.run.path.parent for own in group.members])) for group in groups]
    places = shortest_parts(list(zip(names, folders, strict=True)))
    return [
        of_runs[group.members[0].id] if len(group.members) == 1 else place
        for group, place in zip(groups, places, strict=True)
    ]


def shortest_parts(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return for each pair (name, folder) the part of the folder that tells it from others of the same name.

    For two runs "pong" in /a/x/runs and /a/y/runs these are "x" and "y": without the end that both have in common, the
    shortest end that is unique. The part is "" if the name occurs only once, or if the pair occurs twice.
    """
    same: dict[str, list[int]] = {}
    for index, (name, _) in enumerate(named):
        same.setdefault(name, []).append(index)
    found = [""] * len(named)
    for indices in same.values():
        if len(indices) > 1:
            for index, part in zip(indices, _unique_ends([named[index][1].parts for index in indices]), strict=True):
                found[index] = printable(part)
    return found


def _unique_ends(folders: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the shortest unique end of each folder, without the end that all folders have in common.

    At least the first two parts of each folder are kept; "" if no end is unique.
    """
    from_end = zip(*(folder[:1:-1] for folder in folders), strict=False)  # up to the length of the shortest
    shared = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, from_end))
    folders = [folder[: len(folder) - shared] for folder in folders]
    found = [""] * len(folders)
    for size in range(1, max(map(len, folders)) + 1):
        counts = Counter(folder[-size:] for folder in folders)
        for index, folder in enumerate(folders):
            if not found[index] and counts[folder[-size:]] == 1:
                found[index] = str(PurePath(*folder[-size:]))
        if all(found):
            break
    return found
