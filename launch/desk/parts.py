"""Makes the data that the desk's page shows, such as the list of runs, the curves and the events of a run.

The data are divided into *parts*, values for JSON. ``launch/desk/stream.py`` sends parts to pages; reports contain the
same parts. Numbers to be read are formatted here; numbers to be drawn stay numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from actorlearn import __version__
from actorlearn.algorithms.lags import LAG_CLASSES
from actorlearn.metrics.registry import (
    DROPPED,
    SIMULATION_LIMIT_SHARE,
    STALENESS_SHOWN,
    describe_metric,
    metric,
)
from launch.desk.cast import Process
from launch.desk.curves import CurvePoints
from launch.desk.graph import graph
from launch.desk.load import Load
from launch.desk.names import group_names, group_places
from launch.desk.watched import Group, WatchedRun
from launch.display.plot import COLOURS, DARK_COLOURS
from launch.display.screen import learning_metrics, slow_stage, stage_shares
from launch.machine.cores import usable_cores
from launch.reports.checks import is_number, section_of
from launch.reports.compare import find_differences, resample
from launch.reports.format import (
    DASH,
    as_bytes,
    as_duration,
    as_number,
    as_percent,
    as_whole,
    event_line,
    metric_value,
    printable,
)
from launch.reports.health import names_in, remedy_of
from launch.reports.statistics import band, interquartile_mean
from launch.runs.curves import SCORE
from launch.runs.lives import metas_of, time_of
from launch.runs.view import ALARMS, RunView

Part = Any
"""A value that can be encoded as JSON."""
BAND_POINTS = 100
"""Points of the band of a group."""
BAND_DRAWS = 200
"""Resamples of the bootstrap for a band; few, because it is repeated with every report."""
EXACT = 2**53
"""Largest whole number that JavaScript represents exactly."""
_FIGURES = (
    *("episode_return_mean", "env_steps_per_s", "episodes", "episode_length_mean", "updates", "frames_per_s"),
    *("policy_lag_mean", "steps_made", "steps_made_per_s", "steps_used", "steps_dropped"),
)
"""Metrics that the page of one run shows first."""
_COUNTED = {"env_steps_per_s": "env_steps", "frames_per_s": "frames", "steps_made_per_s": "steps_made"}
"""Rate -> what it counts."""
_ENDED_EARLY = ("died", "failed", "stopped")
"""States of a run that ended before total_steps."""
_LIST = ("episode_return_mean", "env_steps_per_s")
"""Metrics in the list of runs."""


# All runs -------------------------------------------------------------------------------------------------------------


def desk(runs: Sequence[WatchedRun], shown: Sequence[str], **about: Any) -> Part:
    """Return data about the page itself: the metrics that it shows or could show, colours, number of cores.

    ``shown``: names of the metrics whose curves the page shows; ``about``: further values to include.
    """
    names = dict.fromkeys((SCORE, *(name for watched in runs for name in _curve_names(watched.view.row))))
    return {
        "version": __version__,
        "shown": [_described(name) for name in shown],
        "metrics": [_described(name) for name in sorted(names, key=_metric_order)],
        "colours": {"light": list(COLOURS), "dark": list(DARK_COLOURS)},
        "cores": usable_cores(),
        **about,
    }


def _curve_names(row: Mapping[str, Any]) -> list[str]:
    """Return the metrics in a report that may have curves; also those that are null, because they were not finite."""
    usable = (name for name, value in row.items() if value is None or is_number(value))
    return [name for name in usable if name not in ("time_s", "env_steps")]


@lru_cache(1024)
def _described(name: str) -> dict[str, str]:
    form = metric(name).form.name.lower()
    return {"name": name, "label": _label(name), "description": describe_metric(name), "form": form}


@lru_cache(1024)
def _label(name: str) -> str:
    return printable(metric(name).shown_as)


@lru_cache(1024)
def _metric_order(name: str) -> tuple[bool, bool, str]:
    """Return the sort key: first the score, then the metrics of learning, then the others."""
    return name != SCORE, not metric(name).learning, name


def run_list(
    runs: Sequence[WatchedRun],
    groups: Sequence[Group],
    places: Mapping[str, str],
    columns: Sequence[str] | None,
) -> Part:
    """Return the table of runs, with a line for each run that is in a group.

    ``places``: id of a run -> the text that tells it from other runs of its name (``launch/desk/names.py``).
    ``columns``: names of the metrics in the table; None: all.
    """
    group_of = {watched.id: group.number for group in groups for watched in group.members}
    return [
        _run_line(watched, group_of[watched.id], places[watched.id], columns)
        for watched in runs
        if watched.id in group_of
    ]


def _run_line(watched: WatchedRun, group: int, place: str, columns: Sequence[str] | None) -> dict[str, Any]:
    view = watched.view
    row = _outcome(view)
    return {
        "id": watched.id,
        "name": printable(view.name),
        "place": place,
        "env": printable(view.env_id),
        "status": view.status,
        "started": _started(view.meta),
        "group": group,
        "seed": printable(str(view.topology.get("seed", DASH))),
        "done": view.share_done,
        "progress": _progress(view),
        "figures": [figure(row, name) for name in _LIST],
        "numbers": {
            "score": _number(row.get(SCORE)),
            "best": _number(view.best_return),
            "rate": _number(row.get("env_steps_per_s")),
            "steps": view.env_steps,
            "minutes": None if view.elapsed_s is None else round(view.elapsed_s / 60.0, 2),
        },
        "metrics": {name: _number(row.get(name)) for name in (_curve_names(row) if columns is None else columns)},
        "alarm": None if view.alarm is None else {**event(view.alarm), "restarted": _is_restarted(view)},
    }


def _is_restarted(view: RunView) -> bool:
    """Return whether the process that the newest alarm names was restarted after it."""
    alarm = view.alarm or {}
    later = takewhile(lambda one: one != alarm, reversed(view.events))
    return any(one.get("kind") == "restarted" and one.get("process") == alarm.get("process") for one in later)


def _started(meta: Mapping[str, Any]) -> str:
    """Return the time at which the run was first started, in ISO 8601 and UTC; "" if it is unknown."""
    at = time_of(metas_of(meta)[0].get("started"))
    return at.isoformat() if at else ""


def _outcome(view: RunView) -> Mapping[str, Any]:
    """Return the newest metrics; of an ended run, those of summary.json, and rates as means over the whole run."""
    if not view.has_ended:
        return view.row
    row = {**view.row, **{name: view.final(name) for name in view.row}}
    seconds = view.summary.get("wall_time_s")
    if is_number(seconds) and seconds > 0:
        counts = {rate: view.summary.get(counted) for rate, counted in _COUNTED.items() if rate in row}
        row |= {rate: count / seconds for rate, count in counts.items() if is_number(count)}
    return row


def _number(value: object) -> float | None:
    """Return a number, rounded to six digits if it is not whole; None for a value that is no usable number."""
    if not is_number(value):
        return None
    return int(value) if abs(value) <= EXACT and value == int(value) else float(f"{value:.6g}")


def _progress(view: RunView) -> str:
    awaited = f" · {view.awaited}" if view.awaited else ""
    return f"{view.env_steps:,} of {as_whole(view.end_steps)} steps{awaited}"


def group_list(groups: Sequence[Group], places: Mapping[str, str]) -> Part:
    """Return the groups of runs that differ only in name and seed, and the keys in which the groups differ.

    ``places``: as for ``run_list``.
    """
    firsts = [group.members[0].view for group in groups]
    topologies = [view.topology for view in firsts]
    names = group_names(groups)
    group_place = group_places(groups, names, places)
    differing = find_differences(topologies)
    keys = list(differing[0]) if len(differing) > 1 else []
    return {
        "keys": keys,
        "groups": [
            {
                "number": group.number,
                "name": name,
                "place": group_place[index],
                "env": printable(firsts[index].env_id),
                "algorithm": printable(str(section_of(topologies[index], "algorithm").get("name") or "")),
                "mode": printable(str(topologies[index].get("mode") or "")),
                "runs": [watched.id for watched in group.members],
                "values": [_value(differing[index][key]) for key in keys],
            }
            for index, (name, group) in enumerate(zip(names, groups, strict=True))
        ],
    }


def _value(value: object) -> float | str:
    """Return the value of a key for the page: a number, which the page formats, or text."""
    if is_number(value) and not isinstance(value, bool) and abs(value) <= EXACT:
        return value
    return printable(str(value))


def curve(watched: WatchedRun, whole: bool, shown: Sequence[str]) -> Part:
    """Return the curves of a run for the metrics ``shown``, and the events to mark on them.

    ``whole``: whether the curves are made of all reports; otherwise those of a long run are made of a sample.
    """
    metrics = {}
    for name in shown:
        points = watched.curve(name, whole).points
        steps, timed = points.that_count(), points.with_times()
        metrics[name] = {
            "by_steps": [steps.steps.astype(int).tolist(), _rounded(steps.numbers)],
            "by_minutes": [_rounded(timed.minutes), _rounded(timed.numbers)],
        }
    marked = list(watched.marks)
    # The curve of steps has a point for each report. Most runs have no marks, and do not need it.
    course = watched.curve("env_steps", whole).points if marked else None
    marks = [] if course is None else [_mark(course, one) for one in marked]
    return {"metrics": metrics, "marks": [mark for mark in marks if mark]}


def _mark(curve: CurvePoints, marked: Mapping[str, Any]) -> Part:
    time_s = marked.get("time_s")
    if not is_number(time_s):
        return None
    steps = curve.steps_at(time_s)
    return {**event(marked), "minutes": round(time_s / 60.0, 3), "steps": None if steps is None else round(steps)}


def group_band(members: Sequence[WatchedRun], shown: Sequence[str]) -> Part:
    """Return mean and interval of a group's curves, of the metrics ``shown`` and the score, by steps and by minutes.

    They cover only the steps that all its runs have reached. So runs that ended early are left out, unless all runs
    did. They are None if fewer than two curves overlap.
    """
    found = {}
    whole = [watched for watched in members if watched.view.status not in _ENDED_EARLY]
    for name in dict.fromkeys((*shown, SCORE)):
        curves = [points for watched in whole or members if len((points := watched.curve(name).points).numbers)]
        counting = [points.that_count() for points in curves]
        timed = [points.with_times() for points in curves]
        found[name] = {
            "count": len(curves),
            "by_steps": _band([np.column_stack((own.steps, own.numbers)) for own in counting]),
            "by_minutes": _band([np.column_stack((own.minutes, own.numbers)) for own in timed]),
        }
    return found


def _band(curves: Sequence[npt.NDArray[np.float64]]) -> Part:
    """Return positions on the horizontal axis, the interquartile means there, and both ends of their intervals."""
    if sum(len(curve) > 0 for curve in curves) < 2:
        return None
    try:
        places, numbers = resample([curve for curve in curves if len(curve)], BAND_POINTS)
    except ValueError:  # the curves do not overlap yet
        return None
    return [_rounded(column) for column in (places, *band(interquartile_mean, [numbers.T], resamples=BAND_DRAWS))]


def _rounded(numbers: npt.NDArray[np.float64]) -> list[float]:
    """Round numbers to six digits; a picture does not show more, and the text is half as long."""
    return [float(f"{number:.6g}") for number in numbers]


# One run --------------------------------------------------------------------------------------------------------------


def run_parts(view: RunView, processes: Sequence[Process], topology: str) -> dict[str, Part]:
    """Return name -> data of each part of the page of one run; ``topology``: text of its topology file."""
    row = _outcome(view)
    return {
        "head": _head(view),
        "figures": [*(figure(row, name) for name in _FIGURES), _best(view)],
        "dropped": [figure(row, name) for name in DROPPED if row.get(name)],
        "graph": {
            **graph(processes, view.row, view.topology, view.meta),
            "note": "The rates are those of the last report." if view.has_ended else "",
        },
        "stages": _stages(view.row),
        "histograms": list(_histograms(view.row)),
        "learning": [figure(view.row, name) for name in learning_metrics(view.row)],
        "events": [event(one) for one in reversed(view.events)],
        "evaluations": [_evaluation(one) for one in reversed(view.evaluations)],
        "chosen": [{name: printable(str(one.get(name))) for name in ("key", "value", "why")} for one in view.choices],
        "about": _about(view),
        "topology": topology,
    }


def process_list(processes: Sequence[Process], load: Load | None, now: datetime) -> Part:
    """Return the table of processes, in which a number is a pair of its value and its text.

    ``load``: measured processor time and memory; None: not measured.
    """
    return [_process_line(process, load, now) for process in processes]


def _process_line(process: Process, load: Load | None, now: datetime) -> dict[str, Any]:
    cores, memory = (load and load.newest(process.name)) or (None, None)
    born = None if process.state in ("died", "exited", "fatal") else time_of(process.since)
    age_s = None if born is None else max(0.0, (now - born).total_seconds())
    return {
        "name": printable(process.name),
        "role": process.role,
        "node": printable(process.node),
        "state": printable(process.state),
        "cause": printable(process.cause),
        "restarts": [process.incarnation, as_whole(process.incarnation)],
        "busy": [process.busy, as_percent(process.busy)],
        "cores": [cores, as_percent(cores)],
        "memory": [memory, DASH if memory is None else as_bytes(memory)],
        "age": [age_s, DASH if age_s is None else as_duration(age_s)],
    }


def figure(row: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the name, label, value (as text) and description of a metric; ``row``: a report."""
    return {
        "name": name,
        "label": _label(name),
        "text": metric_value(row, name) if row.get(name) is None or is_number(row[name]) else DASH,
        "description": describe_metric(name),
    }


def _best(view: RunView) -> dict[str, str]:
    says = (
        "highest mean score of the last games in any report; if a resume has changed the environment, only "
        "later reports count"
    )
    return {"name": "best_return", "label": "best mean", "text": as_number(view.best_return), "description": says}


def event(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time, the text and the kind of an event, and whether it reports a problem."""
    time_s, kind = one.get("time_s"), one.get("kind")
    at = as_duration(time_s if is_number(time_s) else None)
    return {"time": at, "text": event_line(one), "kind": printable(str(kind)), "alarm": kind in ALARMS}


def _head(view: RunView) -> Part:
    return {
        "name": printable(view.name),
        "env": printable(view.env_id),
        "status": view.status,
        "started": _started(view.meta),
        "elapsed": as_duration(view.elapsed_s),
        "left": "" if view.has_ended else as_duration(view.left_s),
        "done": view.share_done,
        "progress": _progress(view),
        "alarm": None if view.alarm is None else event(view.alarm),
        "ill": [{"rule": printable(name), "try": remedy_of(name)} for name in names_in(view.row)],
    }


def _stages(row: Mapping[str, Any]) -> Part:
    shares = stage_shares(row)
    return {
        "shares": [{"stage": name, "share": share, "text": as_percent(share)} for name, share in shares.items()],
        "most_work": slow_stage(shares),
        "limit": {**figure(row, SIMULATION_LIMIT_SHARE), "share": row.get(SIMULATION_LIMIT_SHARE)},
    }


def _histograms(row: Mapping[str, Any]) -> Iterator[Part]:
    classes = [(one.name, one.words) for one in LAG_CLASSES]
    for prefix, title in (
        ("policy_lag_", "Steps by age of the acting weights"),
        ("effective_sample_size_", "Effective sample size by age of the acting weights"),
        ("clipped_share_", "Clipped share by age of the acting weights"),
    ):
        yield from _histogram(row, prefix, title, classes)
    ages = [(str(age), f"{age} change{'s' * (age != 1)}") for age in range(STALENESS_SHOWN)]
    ages.append((f"{STALENESS_SHOWN}_or_more", f"{STALENESS_SHOWN} or more"))
    yield from _histogram(row, "staleness_", "Gradients by their staleness", ages)


def _histogram(row: Mapping[str, Any], prefix: str, title: str, classes: Sequence[tuple[str, str]]) -> Iterator[Part]:
    bars = [
        {"words": words, "share": row[prefix + name], "text": metric_value(row, prefix + name)}
        for name, words in classes
        if is_number(row.get(prefix + name))
    ]
    if bars:
        yield {"title": title, "bars": bars}


def _evaluation(one: Mapping[str, Any]) -> Part:
    return {
        "steps": _number(one["env_steps"]),
        "mean": _number(one["mean"]),
        "deviation": _number(one["std"]),
        "games": _number(one["episodes"]),
    }


def _about(view: RunView) -> Part:
    """Return details of the run, such as machine and versions, and the commands that repeat it."""
    meta = view.meta
    machine, packages = (section_of(meta, name) for name in ("machine", "packages"))
    memory = machine.get("memory_bytes")
    commit = f"{meta['commit']}{' with uncommitted changes' if meta.get('dirty') else ''}" if meta.get("commit") else ""
    facts = {
        "folder": view.folder,
        "started": meta.get("started"),
        "machine": f"{machine.get('cpu', DASH)}, {machine.get('usable_cores', DASH)} cores",
        "memory": as_bytes(memory) if is_number(memory) else "",
        "system": machine.get("system"),
        "actorlearn": meta.get("version"),
        "commit": commit,
        "python": meta.get("python"),
        **packages,
        "weights": view.summary.get("weights_sha256"),
        "checkpoints": f"{len(view.checkpoints)}, newest {view.checkpoints[-1].name}" if view.checkpoints else "",
    }
    return {
        "facts": [[name, printable(str(value))] for name, value in facts.items() if value],
        "repeat": [printable(line) for line in _repeat(meta)],
    }


def _repeat(meta: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that repeat the run: git checkout, then ``actorlearn run`` and each ``resume``."""
    if meta.get("commit"):
        yield f"git checkout {meta['commit']}"
    for life in metas_of(meta):
        command = life.get("command")
        if isinstance(command, list) and command:
            yield shlex.join(["actorlearn", *map(str, command)])
