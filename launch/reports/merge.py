"""Merges the metrics of several learners into one *row* of the run, which becomes a line of metrics.jsonl.

Each metric is registered with how to merge it: the sum, the mean or the maximum over learners. With one
learner, the row of the run is that of its trainer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actorlearn.metric import Kind, Merge, Metric
from actorlearn.metrics.registry import LEARNERS, metric

STALE_REPORTS = 3.0
"""If a learner has sent no row for this number of intervals, only its counters count: its mean score and rates are old.

The interval is ``report.every_s`` or, if that is longer, the longest time between two rows of the learner.
"""


def merge_rows(rows: Mapping[str, Mapping[str, Any]], left: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Merge the newest row of each learner into a row of the run; ``rows``: learner -> row.

    With several learners, the row's key ``learners`` has those metrics of each that are registered as ``per_learner``.
    ``left``: the last rows of learners that have left the run; their counters, such as games played, are added.
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
    """Return env_steps and frames, increased by those of learners that have left; {} if the row has them already."""
    known, frames = row.get("env_steps") or 0, row.get("frames") or 0
    learned = sum(row.get(name) or 0 for name in ("steps_used", "dropped_not_finite"))
    return {"env_steps": learned, "frames": frames * learned // known} if learned > known > 0 else {}


def merge(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge rows into one, with each metric that any of them has."""
    return {name: _value(metric(name), rows) for name in dict.fromkeys(name for row in rows for name in row)}


def _value(of: Metric, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return the merged value of a metric; None if no row has a value."""
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
    """Keeps the newest row of each learner, and merges them whenever the first learner (by name) reports."""

    def __init__(
        self,
        every_s: float,
        left: Iterable[Mapping[str, Any]] = (),
        rows: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """``every_s``: seconds between two rows of a learner. ``left``: counters of learners that have left before.

        ``rows``: learner of a resumed run -> its row at its checkpoint, which counts until the learner reports. If it
        has not reported STALE_REPORTS intervals after the first report of any learner, only its counters count.
        """
        self._every_s = every_s
        self._longest_s: dict[str, float] = {}
        """Longest time between two rows of a learner's trainer, which sends none while it makes an update."""
        self._incarnations: dict[str, int] = {}
        self._rows = {name: (0.0, dict(row)) for name, row in (rows or {}).items()}
        self._left = [dict(row) for row in left]
        self._unmerged = False

    def add(self, name: str, row: Mapping[str, Any], now_s: float, incarnation: int = 0) -> dict[str, Any] | None:
        """Add the row of a learner; return the merged row if it is the first learner that still reports, else None.

        ``incarnation``: of the trainer; the time until a restarted trainer reports is no interval.
        """
        if not self._incarnations:  # the first report: processes may have needed minutes to start
            self._rows = {known: (now_s, saved) for known, (_, saved) in self._rows.items()}
        if self._incarnations.get(name) == incarnation and name in self._rows:
            self._longest_s[name] = max(now_s - self._rows[name][0], self._longest_s.get(name, 0.0))
        self._incarnations[name] = incarnation
        self._rows[name] = (now_s, dict(row))
        fresh = self._fresh(now_s)
        self._unmerged = name != min(fresh & self._incarnations.keys())
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
        return {
            name
            for name, (then_s, _) in self._rows.items()
            if now_s - then_s <= STALE_REPORTS * max(self._every_s, self._longest_s.get(name, 0.0))
        }

    def _merged(self, fresh: set[str]) -> dict[str, Any]:
        """Return the merged row; learners not in ``fresh``, which no longer report, add only their counters."""
        rows = {known: row for known, (_, row) in sorted(self._rows.items())}
        silent = [row for known, row in rows.items() if known not in fresh]
        return merge_rows({known: row for known, row in rows.items() if known in fresh}, [*self._left, *silent])
