"""Merges the rows of several processes into one row of the run, by the rule of each metric in the registry. Pure.

With one learner the row is that of its trainer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorlearn.metric import Kind, Merge, Metric
from actorlearn.metrics.registry import LEARNERS, metric

STALE_REPORTS = 3.0
"""Number of report intervals without a row after which the rates of a learner count as 0."""


def merge_rows(rows: Mapping[str, Mapping[str, Any]], left: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return one row for the rows of all learners, {name: row}, with some metrics of each under ``learners``.

    ``left``: the last rows of learners that have left; only their counters are included.
    """
    before = [*left]
    if len(rows) == 1:
        row = dict(next(iter(rows.values())))
    else:
        row = merge(list(rows.values()))
        row[LEARNERS] = {
            learner: {name: value for name, value in own.items() if metric(name).per_learner}
            for learner, own in rows.items()
        }
    for last in before:
        counters = [key for key in row if key in last and metric(key).kind is Kind.COUNTER]
        row |= {key: _value(metric(key), [row, last]) for key in counters}
    return row if len(rows) == 1 and not before else {**row, **_totals(row)}


def _totals(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps of all learners if their own steps add up to more than any learner knew of."""
    known, frames = row.get("env_steps") or 0, row.get("frames") or 0
    learned = sum(row.get(name) or 0 for name in ("steps_used", "dropped_not_finite"))
    return {"env_steps": learned, "frames": frames * learned // known} if learned > known > 0 else {}


def merge(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metrics of several processes as one row."""
    return {name: _value(metric(name), rows) for name in dict.fromkeys(name for row in rows for name in row)}


def _value(of: Metric, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return one value for the values in these rows; None if no row has one."""
    having = [row for row in rows if row.get(of.name) is not None]
    values = [row[of.name] for row in having]
    if not values or of.merge is Merge.FIRST or not all(isinstance(value, int | float) for value in values):
        return values[0] if values else None
    if of.merge is Merge.SUM:
        return sum(values)
    if of.merge is Merge.MAX:
        return max(values)
    weights = [row.get(of.weight) or 1 if of.weight else 1 for row in having]
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


class LearnerRows:
    """The newest row of each learner; merged when the first learner reports, and once more at the end."""

    def __init__(self, every_s: float) -> None:
        """``every_s``: seconds between two rows of a learner."""
        self._stale_s = STALE_REPORTS * every_s
        self._rows: dict[str, tuple[float, dict[str, Any]]] = {}
        self._left: list[dict[str, Any]] = []
        self._unmerged = False

    def add(self, name: str, row: Mapping[str, Any], now_s: float) -> dict[str, Any] | None:
        """Add a learner's row; return the merged row if this is the first learner, by name, with fresh rows."""
        self._rows[name] = (now_s, dict(row))
        fresh = self._fresh(now_s)
        self._unmerged = name != min(fresh)
        return None if self._unmerged else self._merged(fresh)

    def merge_rest(self) -> dict[str, Any] | None:
        """Return the merged row if rows were added since the last one; else None."""
        if not self._unmerged:
            return None
        self._unmerged = False
        if not self._rows:  # all learners have left
            *before, newest = self._left
            return merge_rows({"": newest}, before)
        return self._merged(self._fresh(max(then_s for then_s, _ in self._rows.values())))

    def leave(self, name: str) -> None:
        """Remove a learner that has left the run; its counters are kept."""
        if name in self._rows:
            self._left.append(self._rows.pop(name)[1])

    def _fresh(self, now_s: float) -> set[str]:
        return {name for name, (then_s, _) in self._rows.items() if now_s - then_s <= self._stale_s}

    def _merged(self, fresh: set[str]) -> dict[str, Any]:
        """Return all rows as one; the rates of a learner without a fresh row are 0."""
        rows = {known: dict(row) for known, (_, row) in sorted(self._rows.items())}
        for silent in rows.keys() - fresh:
            rows[silent].update({key: 0.0 for key in rows[silent] if metric(key).kind is Kind.RATE})
        return merge_rows(rows, self._left)
