"""Names of groups of runs, and the part of a folder that tells runs of one name apart. Pure."""

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
    """Return the name of each group: that of its only run, or of its topology, with the keys that tell it from others.

    Only groups of several runs whose topologies have the same name are told apart by keys.
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
    """Return a value of a key; a number with a fraction has at most six digits."""
    return float(f"{value:.6g}") if isinstance(value, float) and is_number(value) else value


def run_places(groups: Sequence[Group]) -> dict[str, str]:
    """Return the place of each run by its id: a part of its folder if other runs have its name, else ""."""
    runs = [watched for group in groups for watched in group.members]
    places = shortest_parts([(watched.view.name, watched.run.path.parent) for watched in runs])
    return {watched.id: place for watched, place in zip(runs, places, strict=True)}


def group_places(groups: Sequence[Group], names: Sequence[str], of_runs: Mapping[str, str]) -> list[str]:
    """Return the place of each group: that of its only run, or a part of the folder that contains its runs."""
    folders = [Path(os.path.commonpath([own.run.path.parent for own in group.members])) for group in groups]
    places = shortest_parts(list(zip(names, folders, strict=True)))
    return [
        of_runs[group.members[0].id] if len(group.members) == 1 else place
        for group, place in zip(groups, places, strict=True)
    ]


def shortest_parts(named: Sequence[tuple[str, Path]]) -> list[str]:
    """Return for each name and folder the shortest end of the folder that no other folder of this name has.

    The end that all folders of a name have in common is left out. The part is "" for a name that occurs once, and for a
    folder that occurs twice with its name.
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
    """Return the shortest end of each folder that is unique; at least the root and one more part are compared."""
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
