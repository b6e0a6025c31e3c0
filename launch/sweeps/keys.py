"""The keys of a sweep file, each with its type, range, default and meaning. Pure.

Checks (``file.py``), ``sweep.schema.json`` and ``docs/sweep-file.md`` derive from these.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from launch.runs.curves import SCORE
from launch.topology.schema import Section

Seed = Annotated[int, Meta(ge=0, le=2**31 - 1, description="seed from which the draws of values follow")]
Trials = Annotated[int, Meta(ge=1, le=100_000, description="most trials")]


class GridKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="grid"):
    """Every combination of the listed values, the last key of ``vary`` changing first."""


class RandomKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="random"):
    """Values drawn independently (Bergstra and Bengio 2012), no combination twice."""

    trials: Trials
    seed: Seed = 1


class OptunaKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="optuna"):
    """Values proposed from the scores so far by Optuna's TPE (Bergstra et al. 2011); needs the extra optuna."""

    trials: Trials
    seed: Seed = 1
    startup_trials: Annotated[
        int, Meta(ge=1, le=100_000, description="trials that are drawn before any is proposed from scores")
    ] = 10


class PopulationKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="population"):
    """Population-based training (Jaderberg et al. 2017): one member a seed, the worst go on from the best."""

    every_steps: Annotated[
        int, Meta(ge=1, le=10**12, description="agent steps of a generation, after which members are compared")
    ]
    quantile: Annotated[
        float,
        Meta(gt=0, le=0.5, description="share of the members that as many of the best replace; at least one"),
    ] = 0.2
    factors: Annotated[
        tuple[Annotated[float, Meta(gt=0, le=1)], Annotated[float, Meta(ge=1, le=1_000)]],
        Meta(description="by one of which each number of a replaced member is multiplied", examples=[[0.8, 1.2]]),
    ] = (0.8, 1.2)
    seed: Seed = 1


class MedianKeys(Section, frozen=True, kw_only=True, tag_field="name", tag="median"):
    """The median rule (Golovin et al. 2017, section 3.2.2): a trial ends whose best is below the median of averages."""

    after_steps: Annotated[
        int, Meta(ge=0, le=10**12, description="agent steps of each of a trial's runs before it may be ended")
    ] = 0
    after_trials: Annotated[int, Meta(ge=1, le=100_000, description="whole trials before any is ended")] = 5


class GoalKeys(Section, frozen=True, kw_only=True):
    """The number by which trials are compared; a trial's is the mean over its seeds."""

    metric: Annotated[
        str,
        Meta(min_length=1, max_length=200, description="column of metrics.jsonl, whose last number is a run's score"),
    ] = SCORE
    direction: Annotated[Literal["maximize", "minimize"], Meta(description="which scores are better")] = "maximize"

    @property
    def sign(self) -> int:
        """Factor by which scores are multiplied, so that more is better."""
        return 1 if self.direction == "maximize" else -1


Search = GridKeys | RandomKeys | OptunaKeys | PopulationKeys
Stopping = MedianKeys


class SweepKeys(Section, frozen=True, kw_only=True):
    """A whole sweep: runs of one topology that differ in keys and seeds."""

    topology: Annotated[
        str, Meta(min_length=1, max_length=1_000, description="the topology's file, from the sweep file's folder on")
    ]
    overrides: Annotated[dict[str, Any], Meta(description="keys that all runs have, dotted: {total_steps: 20_000}")] = (
        msgspec.field(default_factory=dict)
    )
    vary: Annotated[
        dict[str, Any],
        Meta(
            description="keys in which trials differ, dotted: a list of values, or {low: …, high: …, scale: …}, whose "
            "scale is linear or log; of two whole numbers whole numbers are drawn"
        ),
    ] = msgspec.field(default_factory=dict)
    seeds: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], ...],
        Meta(min_length=1, max_length=10_000, description="seeds of each trial's runs", examples=[[1, 2, 3]]),
    ] = (1,)
    search: Annotated[Search, Meta(description="how values are chosen: grid, random, optuna or population")] = (
        GridKeys()
    )
    goal: GoalKeys = GoalKeys()
    stopping: Annotated[
        Stopping | None, Meta(description="the rule by which trials are ended early: median; null = all runs end")
    ] = None
    at_once: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="runs at once; null = as many as cores, memory and GPUs allow"),
    ] = None


SECTIONS: dict[str, dict[str, type[msgspec.Struct]]] = {
    "search": {"grid": GridKeys, "random": RandomKeys, "optuna": OptunaKeys, "population": PopulationKeys},
    "stopping": {"median": MedianKeys},
}
"""Structs of the sections whose keys depend on the ``name`` in them."""
OWN = {
    "seed": "a sweep's own key is seeds",
    "name": "runs of a sweep are named after it",
    "stop_at_steps": "a sweep says where its runs end",
}
"""Keys of a topology that a sweep sets itself -> why."""


def fill(section: dict[str, Any], keys: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a section of a file with its missing keys that have a default; mappings in it are left as they are."""
    defaults = {
        field.encode_name: field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(keys)
        if field.default is not msgspec.NODEFAULT or field.default_factory is not msgspec.NODEFAULT
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(defaults))
    return {**plain, **section}
