"""Checks of values that child processes report or that files contain, before they are used or shown.

Such values are not trusted: a plug-in may report NaN, and a file may have been edited. The module reads no files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from actorlearn.metric import Kind
from actorlearn.metrics.registry import is_registered, metric

MOST = 1e100
"""Largest absolute value that is accepted: sums, squares and products of a few such numbers are finite."""
DEEPEST = 8
"""Most levels of nesting that are accepted; valid objects have three."""
_NUMBERS = frozenset(
    ("incarnation", "pid", "busy", "deaths", "complaints", "mean", "best_mean", "learners_mean", "policy_version")
)
"""Names that must have numbers, besides metrics: fields of events, summaries and lists of processes."""
_WORDS = frozenset(("kind",))
"""Names that must have text: fields of events by which the code looks up tables."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number that can be used in computations: not NaN, and at most ``MOST`` in absolute value."""
    return isinstance(value, int | float) and abs(value) <= MOST


def number(row: Mapping[str, Any], name: str) -> float | None:
    """Return the value of ``name``; None if it is missing, or is no usable number (``is_number``)."""
    value = row.get(name)
    return float(value) if is_number(value) and not isinstance(value, bool) else None


def section_of(topology: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of a topology, such as ``env``; {} if there is none, or if it is no section."""
    found = topology.get(name)
    return found if isinstance(found, Mapping) else {}


def check_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics that a trainer has reported, with None in place of infinite and NaN values.

    Raises ValueError for a metric whose value is not a number, and for a counter that is negative.
    """
    for name, value in row.items():
        if value is None or not _is_numeric(name):
            continue
        if not isinstance(value, int | float):
            raise ValueError(f"{name} is {value!r:.100}; it must be a number")
        if metric(name).kind is Kind.COUNTER and value < 0:
            raise ValueError(f"{name} is {value}; a counter cannot be negative")
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def keep_usable(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object from a run folder or a supervisor, without the values that are not usable.

    These are left out: a metric whose value is no usable number, a ``kind`` that is not text, and values nested more
    deeply than ``DEEPEST``.
    """
    return {
        key: value
        for key, value in found.items()
        # Most values of a long file are numbers, which are usable under any name, so numbers are checked first.
        if value is None or is_number(value) or (not _is_numeric(key) and _is_text_or_free(key, value))
    }


@lru_cache(4096)  # a lookup searches all specs, and a long run has hundreds of thousands of values
def _is_numeric(name: str) -> bool:
    return name in _NUMBERS or (is_registered(name) and not (metric(name).by_pair or metric(name).text))


def _is_text_or_free(key: str, value: object) -> bool:
    return isinstance(value, str) if key in _WORDS else _is_shallow(value, DEEPEST)


def _is_shallow(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in inner)
