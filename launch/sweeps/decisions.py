"""The next step of a sweep, given its history and the runs that are alive. Pure.

``Search`` chooses the next trial, for every kind of search. ``next_step`` decides whether to start a run, to choose a
trial, or to wait for the end of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from launch.sweeps.axes import Axis, Values, draw
from launch.sweeps.history import History, RunId, Trial
from launch.sweeps.keys import PopulationKeys


class Wait:
    """Nothing can be started before a run has ended."""


class Over:
    """There is nothing left to choose."""


WAIT, OVER = Wait(), Over()
Choice = Trial | Wait | Over


class Search(Protocol):
    """Chooses trials."""

    def choose(self, history: History) -> Choice:
        """Return the next trial; depends on the history alone."""

    def runs(self, trial: Trial) -> list[RunId]:
        """Return the runs of a trial."""


@dataclass(frozen=True)
class Listed:
    """Trials that are known from the start: a grid, or random draws."""

    trials: Sequence[Values]
    seeds: Sequence[int]

    def choose(self, history: History) -> Choice:
        """Return the first trial that has not been chosen."""
        number = len(history.trials)
        return Trial(number=number, values=self.trials[number]) if number < len(self.trials) else OVER

    def runs(self, trial: Trial) -> list[RunId]:
        """Return a run for each seed."""
        return [RunId(trial.number, seed) for seed in self.seeds]


@dataclass(frozen=True)
class Population:
    """Generations of a population: trial ``generation * members + place``; each place has its own seed."""

    axes: Sequence[Axis]
    keys: PopulationKeys
    seeds: Sequence[int]
    sign: int
    generations: int

    def choose(self, history: History) -> Choice:
        """Return the next member once the generation before has ended; OVER if none of its members has a score."""
        number, size = len(history.trials), len(self.seeds)
        generation, place = divmod(number, size)
        if generation == self.generations:
            return OVER
        if generation == 0:
            return Trial(number=number, values=draw(self.axes, Random(f"{self.keys.seed} 0 {place}")))
        first = number - place - size
        before = [history.trials[trial] for trial in range(first, first + size)]
        if not history.has_ended(run for trial in before for run in self.runs(trial)):
            return WAIT
        scores = [None if (score := history.score(trial.number)) is None else self.sign * score for trial in before]
        if not any(score is not None for score in scores):
            return OVER
        known = [trial.values for trial in before]
        values, parent = next_generation(self.axes, self.keys, generation, known, scores)[place]
        return Trial(number=number, values=values, parent=first + parent)

    def runs(self, trial: Trial) -> list[RunId]:
        """Return the member's run."""
        return [RunId(trial.number, self.seeds[trial.number % len(self.seeds)])]

    def generation(self, trial: int) -> int:
        """Return the generation of a trial, from 0."""
        return trial // len(self.seeds)


def next_generation(
    axes: Sequence[Axis],
    keys: PopulationKeys,
    generation: int,
    before: Sequence[Values],
    scores: Sequence[float | None],
) -> list[tuple[Values, int]]:
    """Return values of each member of a generation (from 1), and the place of its parent in the one before.

    This is the exploit and explore step of population-based training (Jaderberg et al. 2017, arXiv 1711.09846). As in
    the paper, truncation selection replaces the worst members: they take weights and values of some of the best
    (exploit), and each of these values is multiplied by one of two factors (explore). The paper compares a member
    whenever it is ready with members at any other step. Here a generation ends when all its members have ended. So
    members are compared at equal steps, they can run one after another on few cores, and the result does not depend on
    timing.

    ``before``, ``scores``: those of the generation before; higher scores are better. Members without a score are the
    worst, and no member continues from them. At least one must have a score.
    """
    by_score = sorted((score, -place) for place, score in enumerate(scores) if score is not None)
    ranked = [-place for _, place in by_score]  # of equal scores the first is the best
    lost = [place for place, score in enumerate(scores) if score is None]
    count = min(max(1, int(keys.quantile * len(scores))), len(scores) // 2)
    worst = {*lost, *ranked[: max(0, count - len(lost))]} if count else set(lost)
    best = [place for place in ranked[-max(count, 1) :] if place not in worst] or ranked[-1:]
    found: list[tuple[Values, int]] = []
    for place, values in enumerate(before):
        random = Random(f"{keys.seed} {generation} {place}")
        if place in worst and place not in best:
            parent = random.choice(best)
            # Explore: a number is multiplied by a factor, a value of a list is replaced by a neighbour.
            explored = {axis.key: axis.move(before[parent][axis.key], keys.factors, random) for axis in axes}
            found.append((explored, parent))
        else:
            found.append((values, place))
    return found


def open_runs(search: Search, history: History) -> list[RunId]:
    """Return the runs of chosen trials that have not ended, in order; of dropped trials only those that have begun."""
    found = [run for trial in history.trials.values() for run in search.runs(trial) if run not in history.ended]
    return [run for run in found if run.trial not in history.dropped or run in history.starts]


def next_step(
    search: Search, history: History, alive: Collection[RunId], set_aside: Collection[RunId] = ()
) -> RunId | Choice:
    """Return the run to start; if there is none, the trial to choose; if there is neither, WAIT or OVER.

    Runs that were started before come first, then runs of chosen trials, then a new trial. ``set_aside``: runs that a
    user has stopped, which this life of the sweep does not start again.
    """
    ready = [run for run in open_runs(search, history) if run not in alive and run not in set_aside]
    ready = [run for run in ready if run.trial not in history.dropped]
    if ready:
        return min(ready, key=lambda run: run not in history.starts)
    choice = search.choose(history)
    if isinstance(choice, Over):
        return WAIT if alive else OVER
    if isinstance(choice, Wait) and not alive:
        return OVER  # it waits for a run that was set aside
    return choice
