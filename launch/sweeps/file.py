"""Reads and checks the sweep file, before any run is started. It is strict YAML, as a topology is.

Every error is a TopologyError with a line for each fault: the place, the wrong value, the rule and a remedy. The
topology is checked with the values of the trials too. If the trials are known from the start and not too many, each is
checked with all its values; otherwise each value is checked alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from actorlearn.metrics.registry import METRICS, is_registered
from actorlearn.nearest import did_you_mean
from launch.reports.evaluations import PREFIX
from launch.sweeps.axes import Axis, Choices, Range, Values, combinations, count_all, draw_different, written
from launch.sweeps.decisions import Listed, Population, Search
from launch.sweeps.keys import (
    OWN,
    SECTIONS,
    GoalKeys,
    GridKeys,
    OptunaKeys,
    PopulationKeys,
    RandomKeys,
    SweepKeys,
    fill,
)
from launch.sweeps.optuna_search import OptunaSearch
from launch.topology import sources, spaces, strict_yaml
from launch.topology.defaults import BY_CORES
from launch.topology.keys import keys_of, leaves, with_integers
from launch.topology.load import Topology, TopologyError, literal, parse, plain, tree
from launch.topology.overrides import Override
from launch.topology.schema import LONGEST_NAME
from launch.topology.strict_yaml import Origin, fault, show
from launch.topology.validate import MISSING, Problem, explain, origin, problems_at, problems_of

NODES = "nodes"
"""Section of a topology that determines where a run is executed; it does not change what the run learns."""
RANGE = ("low", "high", "scale")
"""Keys of a range under ``vary``."""
SCALES = ("linear", "log")
"""Values of ``scale``; the first is the default."""
MOST_TRIED = 200
"""Most trials that are checked each with all its values; if there are more, each value is checked alone."""
RUN_NAME_MARGIN = 24
"""Most characters that a run's name has after the name of the sweep: -000123-s2147483647."""
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - RUN_NAME_MARGIN - 1}}}")


@dataclass(frozen=True)
class Sweep:
    """A valid sweep file, and the topology that it varies."""

    path: Path
    keys: SweepKeys
    axes: tuple[Axis, ...]
    text: str
    """Content of the topology's file."""
    base: Topology
    """The topology with the overrides and all defaults."""
    pins: Mapping[str, int]
    """Keys whose defaults depend on the machine's cores -> their values here, so that all runs have the same.

    Without them, a sweep that continues on another machine would train with other values. If trials differ in the
    section ``learners``, on which these defaults depend, it is empty: each run has those of its own learners.
    """
    origins: Mapping[strict_yaml.Path, Origin]
    """Places of the values in the sweep file."""

    @property
    def name(self) -> str:
        """The name of the file without its ending; the names of the sweep's runs begin with it."""
        return self.path.stem

    @property
    def sign(self) -> int:
        """1 if a higher score is better, -1 if a lower one is."""
        return 1 if self.keys.goal.direction == "maximize" else -1

    def overrides(self, values: Values, saved: bool = False) -> list[Override]:
        """Return the overrides with which a trial with these values runs the topology.

        ``saved``: whether the trial continues a topology that a run has saved, whose ``nodes`` are then replaced.
        """
        nodes = [Override(text, Origin(str(self.path))) for text in self.overrides_of_nodes()] if saved else []
        fixed = self.pins
        if saved and not fixed:  # if trials differ in learners, the saved values are for those of another trial
            made = self.topology(values)
            fixed = {key: attrgetter(key)(made) for key in BY_CORES if key not in made.written}
        pins = [Override(f"{key}={value}", Origin(str(self.path))) for key, value in fixed.items()]
        own = _overrides("overrides", self.keys.overrides, self.origins)
        return [*nodes, *pins, *own, *_overrides("vary", values, self.origins)]

    def overrides_of_nodes(self) -> list[str]:
        """Return an override that sets the whole section ``nodes``, so that a continued run uses the sweep's nodes."""
        return [f"{NODES}={literal(tree(self.base)[NODES])}"]

    def topology(self, values: Values) -> Topology:
        """Return the topology of a trial with these values; raises TopologyError."""
        return parse(self.text, self.overrides(values), self.keys.topology, spaces.ask)

    def search(self) -> Search:
        """Return the search that chooses the trials; raises RunError if Optuna is needed and not installed."""
        search, seeds = self.keys.search, self.keys.seeds
        if isinstance(search, GridKeys):
            return Listed(combinations([axis for axis in self.axes if isinstance(axis, Choices)]), seeds)
        if isinstance(search, RandomKeys):
            return Listed(draw_different(self.axes, search.seed, search.trials), seeds)
        if isinstance(search, OptunaKeys):
            return OptunaSearch(self.axes, search, seeds, self.sign)
        generations = math.ceil(self.base.total_steps / search.every_steps)
        return Population(self.axes, search, seeds, self.sign, generations)


def read(path: Path) -> Sweep:
    """Read a sweep file, and check it and its values; raises TopologyError, or RunError for a missing package."""
    source = str(path)
    if not _NAME.fullmatch(path.stem):
        rule = f"the name of the file must have at most {LONGEST_NAME - RUN_NAME_MARGIN} letters, digits, . - _"
        raise fault(source, show(path.stem), rule, "rename it, for example rates.yaml")
    raw, origins = strict_yaml.read_mapping(sources.read(source), source, "a sweep", "topology: FILE")
    resolved = _resolve(raw)
    if found := [*_problems(raw, resolved)]:
        raise explain(found, origins, _resolve({}))
    keys = msgspec.convert(resolved, SweepKeys)
    axes = tuple(_axis(key, value) for key, value in keys.vary.items())
    if found := [*_broken(keys, axes)]:
        raise explain(found, origins, _resolve({}))
    text = sources.read(str(path.parent / keys.topology)).decode(errors="surrogateescape")
    base = parse(text, _overrides("overrides", keys.overrides, origins), keys.topology, spaces.ask)
    shared = all(key.partition(".")[0] != "learners" for key in keys.vary)
    pins = {key: attrgetter(key)(base) for key in BY_CORES if shared and key not in base.written}
    sweep = Sweep(path, keys, axes, text, base, pins, origins)
    search, steps = keys.search, base.total_steps
    if isinstance(search, PopulationKeys) and search.every_steps >= steps:
        rule = f"must be less than total_steps, {steps}"
        way_out = f"write for example {max(1, steps // 10)}"
        raise explain([Problem(("search", "every_steps"), search.every_steps, rule, way_out)], origins, {})
    metric, evaluators = keys.goal.metric, "evaluator.count"
    if metric.startswith(PREFIX) and not base.evaluator.count and evaluators not in keys.vary:
        rule, way_out = "needs an evaluator, which the runs do not have", f"write {evaluators}: 1 under overrides"
        raise explain([Problem(("goal", "metric"), metric, rule, way_out)], origins, {})
    _try_values(sweep)
    return sweep


def in_words(values: Values) -> str:
    """Return the values of a trial as overrides on a command line, such as ``algorithm.horizon=16``."""
    return " ".join(f"{key}={literal(value)}" for key, value in values.items()) or "values of the topology"


def changed(before: Mapping[str, Any], keys: SweepKeys) -> str:
    """Return why a sweep cannot continue with its edited file; "" if it can.

    ``before``: the keys with which the sweep was started. A sweep may be extended: seeds may be appended, and
    ``search.trials`` may grow. It may also continue on other machines: ``at_once`` and overrides of ``nodes`` may
    change.
    """
    now = plain(keys)
    for key in now:
        old: Any = before.get(key)
        new: Any = now[key]
        if key == "at_once" or old == new:
            continue
        if key == "overrides" and _without_nodes(old or {}) == _without_nodes(new):
            continue
        if key == "seeds" and not isinstance(keys.search, PopulationKeys) and new[: len(old or ())] == old:
            continue
        more = key == "search" and isinstance(old, dict) and old.get("trials", 0) < new.get("trials", 0)
        if more and {**old, "trials": new["trials"]} == new:
            continue
        return f"{key} has changed from {json.dumps(old):.200} to {json.dumps(new):.200}"
    return ""


def _overrides(name: str, values: Values, origins: Mapping[strict_yaml.Path, Origin]) -> list[Override]:
    """Return values of the topology's keys as overrides; ``name``: the section of the sweep file that has the keys."""
    return [Override(f"{key}={literal(value)}", origin((name, key), origins)) for key, value in values.items()]


def _without_nodes(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in overrides.items() if key.partition(".")[0] != NODES}


def _resolve(raw: Mapping[str, Any]) -> dict[str, Any]:
    resolved = fill(dict(raw), SweepKeys)
    for name, structs in SECTIONS.items():
        section = resolved[name]
        if isinstance(section, dict) and section.get("name") in structs:
            resolved[name] = fill(section, structs[section["name"]])
    if isinstance(resolved["goal"], dict):
        resolved["goal"] = fill(resolved["goal"], GoalKeys)
    return resolved


# Problems ---------------------------------------------------------------------------------------------------------


def _problems(raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> Iterator[Problem]:
    keys = keys_of(SweepKeys)
    for name, value in raw.items():
        if name not in keys:
            yield _stranger(name, value, [*keys])
    if "topology" not in raw:
        yield Problem(("topology",), MISSING, "must name the topology", "add topology: FILE")
    for name, key in keys.items():
        if name in SECTIONS:
            yield from _of_choice(name, resolved[name])
        elif name in ("overrides", "vary"):
            yield from _of_topologys_keys(name, resolved[name])
        elif name in resolved:
            yield from problems_at(resolved[name], key, (name,))


def _stranger(name: str, value: object, known: Sequence[str]) -> Problem:
    rule = f"a sweep has no key {show(name)}"
    way_out = f"remove it; the keys are {', '.join(known)}"
    if name in {leaf.partition(".")[0] for leaf in leaves()}:
        way_out = f"write keys of the topology under overrides or vary, as {name}.KEY"
    return Problem((name,), value, rule, did_you_mean(name, known, way_out))


def _of_choice(name: str, section: object) -> Iterator[Problem]:
    """Yield the problems of a section whose keys depend on its key ``name``, such as ``search``."""
    structs = SECTIONS[name]
    if section is None and name == "stopping":
        return
    if not isinstance(section, dict):
        yield Problem(
            (name,), section, "must be a mapping with a name", f"write for example {{name: {next(iter(structs))}}}"
        )
    elif section.get("name") not in structs:
        chosen = section.get("name", MISSING)
        way_out = f"write for example {next(iter(structs))}"
        if isinstance(chosen, str):
            way_out = did_you_mean(chosen, structs, way_out)
        yield Problem((name, "name"), chosen, f"must be {' or '.join(structs)}", way_out)
    else:
        yield from problems_of(section, keys_of(structs[section["name"]]), (name,))


def _of_topologys_keys(name: str, section: object) -> Iterator[Problem]:
    """Yield the problems of ``overrides`` or ``vary``; their values are checked with the topology later."""
    if not isinstance(section, dict):
        yield Problem(
            (name,), section, "must be a mapping of a topology's keys", "write for example {total_steps: 20_000}"
        )
        return
    for key, value in section.items():
        if (own := key.partition(".")[0]) in OWN:
            yield Problem((name, key), value, f"a sweep sets {own} itself: {OWN[own]}", "remove it")
        elif name == "vary" and own == NODES:
            yield Problem(
                (name, key), value, "all trials must have the same nodes.* keys", f"write {key} under overrides"
            )
        elif name == "vary":
            yield from _of_axis(key, value)


def _of_axis(key: str, value: object) -> Iterator[Problem]:
    path = ("vary", key)
    if isinstance(value, list):
        texts = [json.dumps(each, sort_keys=True) for each in value]
        if not value:
            yield Problem(path, value, "must have at least one value", "write for example [0.1, 0.2]")
        elif len({*texts}) < len(texts):
            yield Problem(path, value, "must not contain a value twice", "remove the repeated values")
        return
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys() <= {*RANGE}:
        way_out = "write [0.1, 0.2], or {low: 1.0e-4, high: 1.0e-2, scale: log}"
        yield Problem(path, value, "must be a list of values, or a range of low and high", way_out)
        return
    low, high, scale = (value.get(part, SCALES[0]) for part in RANGE)
    numbers = [isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)]
    if not all(numbers):
        part = RANGE[numbers.index(False)]
        yield Problem((*path, part), value[part], "must be a number", "write a number, thousands split as in 250_000")
    elif scale not in SCALES:
        yield Problem((*path, "scale"), scale, f"must be {' or '.join(SCALES)}", f"write {SCALES[0]}, or leave it out")
    elif not low < high:
        yield Problem(
            (*path, "high"), high, f"must be greater than low, {low}", "write a larger number, or a list of values"
        )
    elif scale == "log" and low <= 0:
        yield Problem(
            (*path, "low"), low, "must be greater than 0 if the scale is log", "write a larger number, or scale: linear"
        )


def _axis(key: str, value: Any) -> Axis:
    if isinstance(value, list):
        return Choices(key, tuple(value))
    low, high = (_with_integers(key, value[end]) for end in ("low", "high"))
    return Range(key, low, high, value.get("scale") == "log")


def _with_integers(key: str, value: Any) -> Any:
    """Return the value of a dotted key as an integer if the key takes integers but no floats, as in a topology."""
    first, *rest = key.split(".")
    for part in reversed(rest):
        value = {part: value}
    value = with_integers({first: value})[first]
    for part in rest:
        value = value[part]
    return value


def _broken(keys: SweepKeys, axes: Sequence[Axis]) -> Iterator[Problem]:
    for axis in axes:
        if axis.key in keys.overrides:
            rule = "must not be in both vary and overrides"
            yield Problem(("vary", axis.key), keys.vary[axis.key], rule, "remove one of the two")
        if isinstance(keys.search, GridKeys) and isinstance(axis, Range):
            rule = "must be a list of values for a grid"
            yield Problem(("vary", axis.key), keys.vary[axis.key], rule, "write a list, or search by random or optuna")
    if len({*keys.seeds}) < len(keys.seeds):
        yield Problem(("seeds",), [*keys.seeds], "must not contain a seed twice", "remove the repeated seeds")
    if not axes and not isinstance(keys.search, GridKeys):
        rule = f"must have at least one key for search {plain(keys)['search']['name']}"
        yield Problem(("vary",), {}, rule, "add a key with its values")
    if isinstance(keys.search, RandomKeys) and keys.search.trials > (count := count_all(axes)):
        rule = f"must be at most {count:.0f}, the number of combinations, because none is tried twice"
        yield Problem(("search", "trials"), keys.search.trials, rule, f"write {count:.0f} or less, or search by grid")
    metric = keys.goal.metric
    if not is_registered(metric):
        way_out = did_you_mean(metric, METRICS, "docs/metrics.md lists all columns, for example episode_return_mean")
        yield Problem(("goal", "metric"), metric, "must be a column of metrics.jsonl", way_out)
    if isinstance(keys.search, PopulationKeys):
        if len(keys.seeds) < 2:
            rule = "must have one seed for each member of a population"
            yield Problem(("seeds",), [*keys.seeds], rule, "write two seeds or more")
        if keys.stopping is not None:
            rule = "must be null for a population, which replaces its worst members instead"
            yield Problem(("stopping",), plain(keys)["stopping"], rule, "remove it")
        if "total_steps" in keys.vary:
            rule = "all members of a population must have the same total_steps"
            yield Problem(("vary", "total_steps"), keys.vary["total_steps"], rule, "remove it")


def _try_values(sweep: Sweep) -> None:
    """Check the topology with the values of trials; raises TopologyError that names the values of the trial."""
    search = sweep.search()
    if isinstance(search, Listed) and len(search.trials) <= MOST_TRIED:
        tried: Sequence[Values] = search.trials
    else:
        first = {axis.key: axis.examples[0] for axis in sweep.axes}
        tried = [{**first, axis.key: value} for axis in sweep.axes for value in axis.examples]
    for values in tried:
        try:
            sweep.topology(values)
        except TopologyError as error:
            in_trial = TopologyError(f"{error} (in the trial with {written(values):.200})")
            for note in getattr(error, "__notes__", ()):
                in_trial.add_note(note)
            raise in_trial from None
