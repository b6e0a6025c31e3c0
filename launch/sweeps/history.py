"""The history of a sweep: facts, one after another, and what they come to. Pure.

A fact is written down before anything follows from it: a trial's values before its first run begins, a run's end before
its score is used. All decisions are functions of the history and of which runs are alive, so a sweep that is killed
anywhere and begun again decides as one that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, NamedTuple

import msgspec

FORMAT = 1
"""Format of the facts."""


class RunId(NamedTuple):
    """One run of a sweep."""

    trial: int
    seed: int


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """A line of the state file."""

    time: str = ""
    """Wall time at which it was written, for people."""


class Begun(Fact, frozen=True, kw_only=True, tag="begun"):
    """The first fact: the sweep file with its defaults, and the topology that all runs begin from."""

    format: int
    version: str
    keys: dict[str, Any]
    topology: str
    """The topology's file as it was then; all runs begin from it."""
    pins: dict[str, int] = {}
    """Keys that follow the machine's cores -> the values that all runs have."""


class Chosen(Fact, frozen=True, kw_only=True, tag="chosen"):
    """A trial has its values."""

    trial: int
    values: dict[str, Any]
    parent: int | None = None
    """The trial from whose checkpoint its runs go on; None: they begin anew."""


class Started(Fact, frozen=True, kw_only=True, tag="started"):
    """A process is about to be started for a run."""

    trial: int
    seed: int
    from_steps: int = 0
    """Steps of the run's own checkpoint from which it goes on; 0 = it begins."""
    gpu: str = ""
    """GPU that the run alone is shown; empty: it sees what the sweep sees."""
    hosts: tuple[str, ...] = ()
    """Hosts of its nodes, its own until it has ended; empty: it is not told where its nodes are."""


Status = Literal["finished", "failed", "dropped"]


class Ended(Fact, frozen=True, kw_only=True, tag="ended"):
    """A run is over for good."""

    trial: int
    seed: int
    status: Status
    """Finished at its last step; failed; or dropped by the rule that ends trials early."""
    score: float | None = None
    """Last number of the goal's metric; None where there was none."""
    env_steps: int = 0
    wall_time_s: float = 0.0
    error: str = ""


class Dropped(Fact, frozen=True, kw_only=True, tag="dropped"):
    """A rule ends a trial early: its runs are stopped, and those that have not begun never do."""

    trial: int
    env_steps: int
    score: float
    bound: float
    """Number that the score is worse than."""


class Retried(Fact, frozen=True, kw_only=True, tag="retried"):
    """A run that has failed is open again, because its user wants that."""

    trial: int
    seed: int


AnyFact = Begun | Chosen | Started | Ended | Dropped | Retried


@dataclass(frozen=True)
class Trial:
    """One choice of values."""

    number: int
    values: Mapping[str, Any]
    parent: int | None = None


@dataclass
class History:
    """All that is known of a sweep's trials and runs."""

    begun: Begun | None = None
    trials: dict[int, Trial] = field(default_factory=dict)
    starts: dict[RunId, list[Started]] = field(default_factory=dict)
    ended: dict[RunId, Ended] = field(default_factory=dict)
    dropped: dict[int, Dropped] = field(default_factory=dict)

    def add(self, fact: AnyFact) -> None:
        """Take in the next fact; raises ValueError for one that contradicts those before it."""
        if (self.begun is None) != isinstance(fact, Begun):
            raise ValueError("a sweep begins once, before everything else")
        if isinstance(fact, Begun):
            self.begun = fact
        elif isinstance(fact, Chosen):
            self._require(fact.trial == len(self.trials), f"trial {fact.trial} is out of turn")
            self._require(fact.parent is None or fact.parent in self.trials, f"trial {fact.parent} is not known")
            self.trials[fact.trial] = Trial(fact.trial, fact.values, fact.parent)
        else:
            self._require(fact.trial in self.trials, f"trial {fact.trial} is not known")
            self._of_trial(fact)

    def scores(self, trial: int) -> list[float]:
        """Return the scores of a trial's finished runs."""
        ends = (ended for run, ended in self.ended.items() if run.trial == trial and ended.status == "finished")
        return [ended.score for ended in ends if ended.score is not None]

    def score(self, trial: int) -> float | None:
        """Return a trial's score: the mean over the seeds that have finished; None where none has one."""
        return fmean(scores) if (scores := self.scores(trial)) else None

    def has_ended(self, runs: Iterable[RunId]) -> bool:
        """Whether all of these runs are over for good."""
        return all(run in self.ended for run in runs)

    def _of_trial(self, fact: Started | Ended | Dropped | Retried) -> None:
        if isinstance(fact, Dropped):
            self._require(fact.trial not in self.dropped, f"trial {fact.trial} was dropped before")
            self.dropped[fact.trial] = fact
            return
        run = RunId(fact.trial, fact.seed)
        before = self.ended.get(run)
        if isinstance(fact, Retried):
            self._require(before is not None and before.status == "failed", f"run {run} has not failed")
            del self.ended[run]
            self.starts.pop(run, None)
            return
        self._require(before is None, f"run {run} has ended before")
        if isinstance(fact, Started):
            self.starts.setdefault(run, []).append(fact)
        else:
            self.ended[run] = fact

    @staticmethod
    def _require(holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(rule)
