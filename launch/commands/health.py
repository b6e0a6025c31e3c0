"""``actorlearn health``: reports when learning failed, by the rules of ``launch/reports/health.py``.

The rules are applied to the reports of a living or ended run.
"""

from __future__ import annotations

import json as json_format
from typing import Any

from launch.display.console import timed_line
from launch.reports.format import printable
from launch.reports.health import Facts, Health, HealthChange
from launch.runs import find


def health(word: str | None, json: bool) -> int:
    """Print when each rule began and ceased to hold; return the exit status, which is 0 even if rules held."""
    run = find.find(word)
    judged, updates = Health(Facts.of(run.topology())), 0
    changes: list[tuple[float | None, HealthChange]] = []
    for row in run.metrics().new():
        changes += [(row.get("time_s"), change) for change in judged.add(row)]
        updates = max(updates, int(row.get("updates") or 0))
    if json:
        each = [_as_json(*one) for one in changes]
        print(json_format.dumps({"run": run.name, "updates": updates, "ill": judged.ill(), "changes": each}))
        return 0
    if not changes:
        print(f"{printable(run.name)}: no rule fired in {updates:,} updates")
    for time_s, change in changes:
        print(printable(timed_line(time_s, _line(change))))
    return 0


def _line(change: HealthChange) -> str:
    who = f"{change.learner} " if change.learner else ""
    if not change.ill:
        return f"{who}well again: {change.rule.name} ({change.env_steps:,} steps)"
    return f"{who}ill: {change.rule.name}: {change.says}; try: {change.rule.remedy} ({change.env_steps:,} steps)"


def _as_json(time_s: float | None, change: HealthChange) -> dict[str, Any]:
    said = {"says": change.says, "try": change.rule.remedy} if change.ill else {}
    about = {"time_s": time_s, "env_steps": change.env_steps, "learner": change.learner}
    return {**about, "rule": change.rule.name, "ill": change.ill, **said}
