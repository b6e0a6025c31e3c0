"""Names of runs and groups on the desk, made distinct by keys or by parts of folders. Pure.

Runs in different folders may have the same name. The "place" of a run or a group is then the part of its folder that
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
    """Return the name of each group: the name of its only run, or for several runs the name of their topology.

    If several such groups have topologies of one name, the keys in which they differ are added.
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
    """Return the value of a key for a name; a number with a fraction is rounded to six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) and is_number(value) else value


def run_places(groups: Sequence[Group]) -> dict[str, str]:
    """Return the place of each run, by the id of the run."""
    runs = [watched for group in groups for watched in group.members]
    places = shortest_parts([(watched.view.name, watched.run.path.parent) for watched in runs])
    return {watched.id: place for watched, place in zip(runs, places, strict=True)}


def group_places(groups: Sequence[Group], names: Sequence[str], of_runs: Mapping[str, str]) -> list[str]:
    """Return the place of each group: the place of its only run, or a part of the folder that contains its runs.

    ``of_runs``: the places of the runs, by their ids.
    """
    folders = [Path(os.path.commonpath([own.run.path.parent for own in group.members])) for group in groups]
    places = shortest_parts(list(zip(names, folders, strict=True)))
    return [
        of_runs[group.members[0].id] if len(group.members) == 1 else place
        for group, place in zip(groups, places, strict=True)
    ]


def shortest_parts(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return, for each pair of a name and a folder, the part of the folder that identifies it among those of one name.

    For example, two runs "pong" in /a/x/runs and /a/y/runs have the parts "x" and "y". The end that all folders have in
    common is removed; the part is the shortest remaining end that is unique. It is "" if the name occurs only once, or
    if the pair occurs twice.
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
    from_end = zip(*(folder[:1:-1] for folder in folders), strict=False)  # as far as the shortest goes
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
