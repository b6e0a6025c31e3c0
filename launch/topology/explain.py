"""Describes the first problem of a topology in one line: place, key = value, rule, remedy, count of other problems.

Reads the problems, the origin of each value, and the defaults. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launch.topology.strict_yaml import Origin, Path, TopologyError, fault, show, typed
from launch.topology.validate import MISSING, Problem, dotted


def explain(problems: Sequence[Problem], origins: Mapping[Path, Origin], defaults: Mapping[str, Any]) -> TopologyError:
    """Return the first problem as an error of one line; problems of the command line come first, then the file's."""
    first = min(problems, key=lambda problem: origin(problem.path, origins).line)
    given = origin(first.path, origins)
    value = "is missing" if first.value is MISSING else f"= {show(first.value)}"
    way_out = first.way_out
    if first.default_helps and not given.over:
        way_out += _default(first.path, defaults)
    if len(problems) > 1:
        way_out += f" (and {len(problems) - 1} more)"
    return fault(str(given), f"{dotted(first.path)} {value}", first.rule, way_out)


def origin(path: Path, origins: Mapping[Path, Origin]) -> Origin:
    """Return the origin of a key; if the key was not given, that of the nearest section around it."""
    return next(origins[path[:end]] for end in range(len(path), -1, -1) if path[:end] in origins)


def _default(path: Path, defaults: Mapping[str, Any]) -> str:
    value: Any = defaults
    for part in path:
        if isinstance(part, int) or not isinstance(value, Mapping) or part not in value:
            return ""
        value = value[part]
    return f", or leave the key out for the default {typed(value)}"
