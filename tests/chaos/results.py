"""Findings of a campaign: JSON lines, one for each fault and each run, and a table of them all.

A trial's lines are written when it is over, all at once, so a campaign that is broken off goes on with the next one.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from launch.runs.jsonl import Lines

Record = dict[str, Any]
STEPS = 5
"""A replaced process is in time if it works after the time of its start and this number of rollouts of its learner."""


class Results:
    """The file of one campaign."""

    def __init__(self, path: Path) -> None:
        """Read the records of earlier calls."""
        self.path = path
        self.records = _newest(Lines(path).new())

    @property
    def tried(self) -> set[int]:
        """Numbers of the trials that are over."""
        return {record["trial"] for record in self.records if record["kind"] == "trial"}

    def add(self, records: Iterable[Record]) -> None:
        """Append the records of one trial."""
        new = list(records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{json.dumps(record)}\n" for record in new).encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, text)
        finally:
            os.close(handle)
        self.records += new


def _newest(records: Iterable[Record]) -> list[Record]:
    """Return the records; of a trial that was repeated, only the newest."""
    kept: dict[int, list[Record]] = {}
    running: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        running[record["trial"]].append(record)
        if record["kind"] == "trial":
            kept[record["trial"]] = running.pop(record["trial"])
    return [record for records in kept.values() for record in records]


def summarised(records: list[Record]) -> Iterator[Record]:
    """Yield a line for each run: its faults, its outcome, and the times to recover from each kind of fault."""
    for trial in (record for record in records if record["kind"] == "trial"):
        tried: Counter[str] = Counter()
        times: dict[str, list[list[float | None]]] = defaultdict(list)
        for fault in records:
            if fault["kind"] == "fault" and fault["trial"] == trial["trial"]:
                what = " ".join(filter(None, (fault["fault"], fault["role"], fault["how"])))
                tried[what] += 1
                if not fault["beside"]:
                    times[what].append([fault.get(key) for key in ("recovery_s", "spawn_s", "step_s", "stalled_s")])
        yield {**trial, "tried": tried, "recovery_spawn_step_stalled_s": times}


def table(records: list[Record]) -> str:
    """Faults by role, kind and mode; violations; times to recover."""
    faults = [record for record in records if record["kind"] == "fault"]
    trials = [record for record in records if record["kind"] == "trial"]
    modes = sorted({record["mode"] for record in trials})
    counted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for fault in faults:
        counted[fault["fault"], fault["role"]][fault["mode"]] += 1
    wide = max([12, *(len(mode) + 2 for mode in modes)])
    lines = [_row("fault", "role", *modes, "all", wide=wide)]
    for key, by in sorted(counted.items()):
        lines.append(_row(*key, *(by[mode] or "" for mode in modes), by.total(), wide=wide))
    every = (sum(f["mode"] == mode for f in faults) for mode in modes)
    lines.append(_row("all", "", *every, len(faults), wide=wide))
    lines += [
        "",
        _row("recovery", "role", "faults", "median s", "p95 s", "max s", "start s", "beyond s", "in time"),
    ]
    for kind, role in sorted(counted):
        those = [f for f in faults if (f["fault"], f["role"]) == (kind, role)]
        lines += _recovery(kind, role, those)
    totals = [sum(trial.get(key) or 0 for trial in trials) for key in ("produced", "used", "in_flight")]
    dropped: Counter[str] = Counter()
    for trial in trials:
        dropped.update(trial.get("dropped") or {})
    said = ", ".join(f"{reason} {steps:,}" for reason, steps in sorted(dropped.items())) or "none"
    lines += [
        "",
        f"steps produced {totals[0]:,}, used {totals[1]:,}, in flight at the end {totals[2]:,}; dropped: {said}",
    ]
    off = [t for t in trials if t["mode"].startswith("async") and t["lives"] > 1 and "learned_rows" in t]
    if off:
        counted, there = (sum(t[key] for t in off) for key in ("used", "learned_rows"))
        lines.append(f"of these, in runs in mode async that were resumed: used {counted:,}, in the weights {there:,}")
    if starved := sum(t.get("starved") or 0 for t in trials):
        lines.append(f"nodes that were lost although nobody had harmed them, on a busy machine: {starved}")
    found = [f"trial {t['trial']} ({t['mode']}): {violation}" for t in trials for violation in t["violations"]]
    lines += [
        f"{len(trials)} runs, {sum(t['lives'] for t in trials)} lives, {len(faults)} faults, {len(found)} violations"
    ]
    return "\n".join([*lines, *found])


def _recovery(kind: str, role: str, faults: list[Record]) -> list[str]:
    """Return a row of recovery times of these faults; only faults without another one beside them count as in time."""
    times = sorted(f["recovery_s"] for f in faults if f.get("recovery_s"))
    if not times:  # no process was replaced: the times until the run learned again
        times = sorted(f["stalled_s"] for f in faults if f.get("stalled_s"))
    if not times:
        return []
    spawns = [f["spawn_s"] for f in faults if f.get("spawn_s")]
    judged = [f for f in faults if not f["beside"] and f.get("recovery_s") and f.get("spawn_s") and f.get("step_s")]
    within = sum(f["recovery_s"] <= f["spawn_s"] + STEPS * f["step_s"] for f in judged)
    numbers = (f"{value:.2f}" for value in (median(times), times[ceil(0.95 * len(times)) - 1], times[-1]))
    beyond = [f["recovery_s"] - f["spawn_s"] for f in faults if f.get("recovery_s") and f.get("spawn_s")]
    others = [f"{median(some):.2f}" if some else "" for some in (spawns, beyond)]
    return [_row(kind, role, len(times), *numbers, *others, f"{within} of {len(judged)}" if judged else "")]


def _row(*cells: object, wide: int = 12) -> str:
    first, second, *others = map(str, cells)
    return f"{first:10}{second:18}" + "".join(f"{cell:>{wide}}" for cell in others)
