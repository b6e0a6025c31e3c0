"""What several learners say of one run, as one row: totals are added up, means are weighed, the rest is averaged.

Pure. With one learner a row is what its trainer said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from actorlearn.memory.account import REASONS
from launch.reports.format import is_number

STALE_REPORTS = 3.0
"""A learner that has let this many report intervals pass without a word counts for no rate."""

AGREED = ("time_s", "wall_time_s", "env_steps", "frames", "updates")
"""All learners count these together; the newest word is the largest."""
DROPPED = {f"dropped_{reason}": reason for reason in REASONS}
COUNTED = ("episodes", "steps_used", "steps_dropped", *DROPPED, "steps_in_flight")
"""Each learner counts its own."""
RATES = ("env_steps_per_s", "frames_per_s")
LATELY = ("exchanges", "messages_refused")
"""Each learner counts its own, since its report before."""
LARGEST = ("policy_lag_max", "staleness_max", "consensus_distance", "consensus_bound")
BY_GAMES = ("episode_return_mean", "episode_length_mean")
"""Means over each learner's last games: weighed by how many games those are."""
RECENT_GAMES = 100
STRAGGLER = ("straggler", "straggler_share", "straggler_wait_s")
"""Who was waited for, and how long: the first learner's word, because a mean of two names is nobody's."""
NUMBERS = frozenset({*AGREED, *COUNTED, *RATES, *LATELY, *LARGEST, *BY_GAMES, *STRAGGLER})
"""What is computed with, by us or by whoever shows a row."""
OF_FILES = NUMBERS | {
    *("incarnation", "pid", "busy", "deaths", "complaints", "mean", "best_mean", "learners_mean", "policy_version"),
}
"""What is a number in rows, events, summaries and lists of processes, wherever somebody may have written another."""
DEEPEST = 8
"""Levels of what is believed; ours have three."""
OWN = (
    *("env_steps_per_s", "episode_return_mean", "policy_lag_mean", "staleness_mean", "learner_wait_s", "lock_wait_s"),
    *("exchanges", "messages_refused", "mixed_share", "consensus_distance", "consensus_bound"),
)
"""What is also shown of each learner by itself."""


def checked(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, or last words, as it can be computed with; what is not finite becomes None.

    Raises ValueError that names the first column whose value is none for it.
    """
    for key in NUMBERS & row.keys():
        if not isinstance(row[key], int | float | None):
            raise ValueError(f"{key} is {row[key]!r:.100}; it must be a number")
    for key in (*AGREED, *COUNTED):
        if (row.get(key) or 0) < 0:
            raise ValueError(f"{key} is {row[key]}; nothing is counted below zero")
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def believed(told: Mapping[str, Any]) -> dict[str, Any]:
    """What can be shown and computed with of something that was read: a hand, a disk or a stranger may have written it.

    Left out are numbers that are none, or too large, and what lies too deep.
    """
    return {k: v for k, v in told.items() if (v is None or is_number(v) if k in OF_FILES else _shallow(v, DEEPEST))}


def _shallow(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(part, levels - 1) for part in inner)


def together(rows: Mapping[str, Mapping[str, Any]], left: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """One row of all learners' rows (name -> row), with each learner's own numbers under ``learners``.

    ``left``: the last rows of learners that have left, of which nothing counts but what they counted.
    """
    joined = dict(next(iter(rows.values()))) if len(rows) == 1 else _of_several(rows)
    for row in left:
        joined |= {key: _joined(key, [joined, row]) for key in (*AGREED, *COUNTED) if key in joined and key in row}
    return joined


def _of_several(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    keys = dict.fromkeys(key for row in rows.values() for key in row)
    joined = {key: _joined(key, [row for row in rows.values() if row.get(key) is not None]) for key in keys}
    learners = {name: {key: row[key] for key in OWN if key in row} for name, row in rows.items()}
    return {**joined, "learners": learners}


def _joined(key: str, rows: list[Mapping[str, Any]]) -> Any:
    values = [row[key] for row in rows if row[key] is not None]
    if not values:
        return None
    if key in AGREED or key in LARGEST:
        return max(values)
    if key in (*COUNTED, *RATES, *LATELY):
        return sum(values)
    if key in BY_GAMES:
        games = [min(row.get("episodes") or 1, RECENT_GAMES) for row in rows if row[key] is not None]
        return sum(value * count for value, count in zip(values, games, strict=True)) / sum(games)
    numbers = all(isinstance(value, int | float) for value in values)
    return sum(values) / len(values) if numbers and key not in STRAGGLER else values[0]


class Rows:
    """The newest row of each learner."""

    def __init__(self, every_s: float) -> None:
        """``every_s``: seconds between reports of a learner."""
        self._stale_s = STALE_REPORTS * every_s
        self._rows: dict[str, tuple[float, dict[str, Any]]] = {}
        self._left: list[dict[str, Any]] = []

    def add(self, name: str, row: Mapping[str, Any], now_s: float) -> dict[str, Any] | None:
        """Take a learner's row; the row of all, or None where another learner is to give the next one."""
        self._rows[name] = (now_s, dict(row))
        fresh = [name for name, (then_s, _) in self._rows.items() if now_s - then_s <= self._stale_s]
        if name != min(fresh):
            return None
        rows = {known: dict(row) for known, (_, row) in sorted(self._rows.items())}
        for silent in rows.keys() - set(fresh):
            rows[silent].update({key: 0.0 for key in RATES if key in rows[silent]})
        return together(rows, self._left)

    def leave(self, name: str) -> None:
        """A learner is gone for good; of its last row only the totals go on."""
        if name in self._rows:
            self._left.append(self._rows.pop(name)[1])
