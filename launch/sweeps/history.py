"""The history of a sweep: the events in its file sweep.jsonl, and the state that follows from them. Pure.

An event (class `Fact`) is for example the choice of a trial, or the end of a run. It is recorded before anything
depends on it: the values of a trial before its first run starts, the end of a run before its score is used. All
decisions are functions of the history and of the runs that are alive. So a sweep that is killed at any moment and
started again makes the same decisions as one that was not killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, NamedTuple

import msgspec

FORMAT = 1
"""Version of the format of sweep.jsonl."""


class RunId(NamedTuple):
    """Identifies a run of a sweep."""

    trial: int
    seed: int


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of the events that sweep.jsonl records, one JSON object on each line."""

    time: str = ""
    """Wall time at which the fact was recorded; no decision depends on it."""


class Begun(Fact, frozen=True, kw_only=True, tag="begun"):
    """The sweep was started; this is the first event of its history."""

    format: int
    version: str
    """Version of actorlearn."""
    keys: dict[str, Any]
    """The keys of the sweep file, with defaults."""
    topology: str
    """Content of the topology's file at that time; all runs start from it."""
    pins: dict[str, int] = {}
    """Keys whose defaults depend on the machine's cores -> the values that all runs have."""


class Trial(Fact, frozen=True, kw_only=True, tag="chosen"):
    """A trial, one combination of values that is trained with every seed; recorded when the values are chosen."""

    number: int = msgspec.field(name="trial")
    values: Mapping[str, Any]
    parent: int | None = None
    """Number of the trial from whose checkpoint the run continues, in a population; None: a new run."""


class Started(Fact, frozen=True, kw_only=True, tag="started"):
    """A process is about to be started for a run."""

    trial: int
    seed: int
    from_steps: int = 0
    """Environment steps of the checkpoint in its folder from which the run continues; 0: there is none."""
    gpu: str = ""
    """The only GPU that the run sees; empty: it sees the GPUs that the sweep sees."""
    hosts: tuple[str, ...] = ()
    """Hosts for the nodes of the run, which no other run uses until it ends; empty: the sweep assigns no hosts."""


Status = Literal["finished", "failed", "dropped"]


class Ended(Fact, frozen=True, kw_only=True, tag="ended"):
    """A run has ended and will not be started again, unless it is retried."""

    trial: int
    seed: int
    status: Status
    """"finished": the run ended, with its last evaluation; "dropped": the stopping rule ended its trial early."""
    score: float | None = None
    """Last value of the goal's metric; None if there was none."""
    env_steps: int = 0
    wall_time_s: float = 0.0
    error: str = ""


class Dropped(Fact, frozen=True, kw_only=True, tag="dropped"):
    """The stopping rule ends a trial early: its living runs are stopped, and its other runs are not started.

    ``stopping.py`` describes the rule.
    """

    trial: int
    env_steps: int
    """Steps at which the trial was compared with the others."""
    score: float
    """Best value of the trial's curve so far."""
    bound: float
    """Median over the finished trials, which ``score`` did not reach."""


class Retried(Fact, frozen=True, kw_only=True, tag="retried"):
    """A failed run may be started again, because the user has given ``--retry``."""

    trial: int
    seed: int


AnyFact = Begun | Trial | Started | Ended | Dropped | Retried


@dataclass
class History:
    """The state of a sweep: the events of sweep.jsonl by trial or by run."""

    begun: Begun | None = None
    trials: dict[int, Trial] = field(default_factory=dict)
    starts: dict[RunId, list[Started]] = field(default_factory=dict)
    ended: dict[RunId, Ended] = field(default_factory=dict)
    dropped: dict[int, Dropped] = field(default_factory=dict)

    def add(self, fact: AnyFact) -> None:
        """Add the next event; raises ValueError if it contradicts earlier ones."""
        if (self.begun is None) != isinstance(fact, Begun):
            raise ValueError("the start of the sweep must be recorded exactly once, on the first line of its history")
        if isinstance(fact, Begun):
            self.begun = fact
        elif isinstance(fact, Trial):
            self._require(fact.number == len(self.trials), f"trial {fact.number} is not the next trial")
            self._require(fact.parent is None or fact.parent in self.trials, f"trial {fact.parent} is unknown")
            self.trials[fact.number] = fact
        else:
            self._require(fact.trial in self.trials, f"trial {fact.trial} is unknown")
            self._of_trial(fact)

    def scores(self, trial: int) -> list[float]:
        """Return the scores of a trial's finished runs."""
        ends = (ended for run, ended in self.ended.items() if run.trial == trial and ended.status == "finished")
        return [ended.score for ended in ends if ended.score is not None]

    def score(self, trial: int) -> float | None:
        """Return the score of a trial, the mean over its finished seeds; None if no seed has a score."""
        return fmean(scores) if (scores := self.scores(trial)) else None

    def has_ended(self, runs: Iterable[RunId]) -> bool:
        """Whether all of these runs have ended."""
        return all(run in self.ended for run in runs)

    def _of_trial(self, fact: Started | Ended | Dropped | Retried) -> None:
        if isinstance(fact, Dropped):
            self._require(fact.trial not in self.dropped, f"trial {fact.trial} has already been dropped")
            self.dropped[fact.trial] = fact
            return
        run = RunId(fact.trial, fact.seed)
        before = self.ended.get(run)
        if isinstance(fact, Retried):
            self._require(before is not None and before.status == "failed", f"run {run} has not failed")
            del self.ended[run]
            self.starts.pop(run, None)
            return
        self._require(before is None, f"run {run} has already ended")
        if isinstance(fact, Started):
            self.starts.setdefault(run, []).append(fact)
        else:
            self.ended[run] = fact

    @staticmethod
    def _require(holds: bool, rule: str) -> None:
        if not holds:
            raise ValueError(rule)
