"""The keys of a sweep file, each with its type, range, default and meaning. Pure.

The checks in ``file.py``, ``sweep.schema.json`` and ``docs/sweep-file.md`` are derived from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from launch.runs.curves import SCORE
from launch.topology.keys import integers_in, keys_of
from launch.topology.load import plain
from launch.topology.schema import Section

Seed = Annotated[int, Meta(ge=0, le=2**31 - 1, description="seed of the random values")]
Trials = Annotated[int, Meta(ge=1, le=100_000, description="largest number of trials")]


class GridKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="grid"):
    """Every combination of the listed values. The last key of ``vary`` changes fastest."""


class RandomKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="random"):
    """Combinations drawn independently, none of them twice (Bergstra and Bengio 2012)."""

    trials: Trials
    seed: Seed = 1


class OptunaKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="optuna"):
    """Combinations that Optuna's TPE proposes from the scores so far (Bergstra et al. 2011). Needs the extra optuna."""

    trials: Trials
    seed: Seed = 1
    startup_trials: Annotated[
        int, Meta(ge=1, le=100_000, description="number of random trials before the first proposal")
    ] = 10


class PopulationKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="population"):
    """Population-based training (Jaderberg et al. 2017): one member for each seed; the worst members copy the best."""

    every_steps: Annotated[
        int, Meta(ge=1, le=10**12, description="agent steps of a generation, after which the members are compared")
    ]
    quantile: Annotated[
        float,
        Meta(
            gt=0,
            le=0.5,
            description="share of the members that are replaced by copies of the best ones; at least one member",
        ),
    ] = 0.2
    factors: Annotated[
        tuple[Annotated[float, Meta(gt=0, le=1)], Annotated[float, Meta(ge=1, le=1_000)]],
        Meta(
            description="a copy multiplies each varied key by one of these numbers, chosen at random",
            examples=[[0.8, 1.2]],
        ),
    ] = (0.8, 1.2)
    seed: Seed = 1


class MedianKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="median"):
    """The median rule (Golovin et al. 2017): ends trials that are worse than the median of the finished trials."""

    after_steps: Annotated[
        int,
        Meta(ge=0, le=10**12, description="no trial is ended before each of its runs has made this many agent steps"),
    ] = 0
    after_trials: Annotated[
        int, Meta(ge=1, le=100_000, description="no trial is ended before this many trials have finished")
    ] = 5


class GoalKeys(Section, frozen=True, kw_only=True):
    """The metric by which trials are compared. The value of a trial is the mean of the metric over its seeds."""

    metric: Annotated[
        str,
        Meta(
            min_length=1, max_length=200, description="column of metrics.jsonl whose last value is the score of a run"
        ),
    ] = SCORE
    direction: Annotated[
        Literal["maximize", "minimize"], Meta(description="whether higher or lower scores are better")
    ] = "maximize"


Search = GridKeys | RandomKeys | OptunaKeys | PopulationKeys


class SweepKeys(Section, frozen=True, kw_only=True):
    """A whole sweep: runs of one topology that differ in keys and seeds."""

    topology: Annotated[
        str,
        Meta(
            min_length=1, max_length=1_000, description="file of the topology, relative to the folder of the sweep file"
        ),
    ]
    overrides: Annotated[
        dict[str, Any],
        Meta(description="keys of the topology that are changed for all runs, such as {total_steps: 20_000}"),
    ] = msgspec.field(default_factory=dict)
    vary: Annotated[
        dict[str, Any],
        Meta(
            description="keys of the topology in which trials differ, each with a list of values or a range {low: …, "
            "high: …, scale: …}; the scale is linear or log. If both ends are whole numbers, only whole numbers are "
            "drawn"
        ),
    ] = msgspec.field(default_factory=dict)
    seeds: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], ...],
        Meta(min_length=1, max_length=10_000, description="seeds of the runs of each trial", examples=[[1, 2, 3]]),
    ] = (1,)
    search: Annotated[Search, Meta(description="how values are chosen: grid, random, optuna or population")] = (
        GridKeys()
    )
    goal: GoalKeys = GoalKeys()
    stopping: Annotated[
        MedianKeys | None,
        Meta(description="rule that ends bad trials early: {name: median}; null = no trial is ended early"),
    ] = None
    at_once: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="how many runs are alive at the same time; null = as many as cores, memory and GPUs allow"),
    ] = None


SECTIONS: dict[str, dict[str, type[msgspec.Struct]]] = {
    section: {str(keys.__struct_config__.tag): keys for keys in choices}
    for section, choices in {"search": get_args(Search), "stopping": (MedianKeys,)}.items()
}
"""Structs of the sections whose keys depend on their ``name``, by this name."""
OWN = {
    "seed": "a sweep's own key is seeds",
    "name": "runs of a sweep are named after it",
    "stop_at_steps": "a sweep says where its runs end",
}
"""Keys of a topology that a sweep sets itself -> the reason."""


def fill(section: dict[str, Any], keys: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a section of a sweep file with the defaults of its missing keys; sections inside it are not completed.

    A value such as 1e3, which YAML reads as a float, becomes an integer where the key takes integers.
    """
    known = keys_of(keys)
    defaults = {name: key.default for name, key in known.items() if key.default is not msgspec.NODEFAULT}
    return {**plain(defaults), **integers_in(section, known)}
