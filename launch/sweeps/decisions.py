"""Decides the next step of a sweep from its history and the runs that are alive. Pure.

``next_step`` decides whether to start a run, to choose a trial, or to wait for the end of a run. A ``Search`` chooses
the values of the next trial; there is a class for each kind of search, and ``OptunaSearch`` in ``optuna_search.py``.
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
    """The decision to start nothing until a run has ended."""


class Over:
    """The decision that the sweep is over, because nothing is left to start."""


WAIT, OVER = Wait(), Over()
Choice = Trial | Wait | Over


class Search(Protocol):
    """A way to choose the trials of a sweep."""

    seeds: Sequence[int]

    def choose(self, history: History) -> Choice:
        """Return the next trial, WAIT or OVER; the result depends on the history alone."""

    def runs(self, trial: Trial) -> list[RunId]:
        """Return the runs of a trial: one for each seed."""
        return [RunId(trial.number, seed) for seed in self.seeds]


@dataclass(frozen=True)
class Listed(Search):
    """A search whose trials are known from the start: a grid, or random combinations."""

    trials: Sequence[Values]
    seeds: Sequence[int]

    def choose(self, history: History) -> Choice:
        """Return the next trial of the list, or OVER at its end."""
        number = len(history.trials)
        return Trial(number=number, values=self.trials[number]) if number < len(self.trials) else OVER


@dataclass(frozen=True)
class Population(Search):
    """A search by population-based training: in each generation, every seed has one member, a trial with one run.

    The number of a member's trial is ``generation * len(seeds) + place``; ``place`` is the index of its seed.
    """

    axes: Sequence[Axis]
    keys: PopulationKeys
    seeds: Sequence[int]
    sign: int
    """1 if a higher score is better, -1 if a lower one is."""
    generations: int

    def choose(self, history: History) -> Choice:
        """Return the trial of the next member, or WAIT while a run of the previous generation has not ended.

        After the last generation, or if no member of the previous generation has a score, return OVER.
        """
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
        """Return the only run of a member."""
        return [RunId(trial.number, self.seeds[trial.number % len(self.seeds)])]

    def generation(self, trial: int) -> int:
        """Return the number of a trial's generation, from 0."""
        return trial // len(self.seeds)


def next_generation(
    axes: Sequence[Axis],
    keys: PopulationKeys,
    generation: int,
    before: Sequence[Values],
    scores: Sequence[float | None],
) -> list[tuple[Values, int]]:
    """Return, for each member of the next generation, its values and the index of the member it continues from.

    This is the exploit and explore step of population-based training (Jaderberg et al. 2017, arXiv 1711.09846). As in
    the paper, truncation selection replaces the worst members: each continues from the weights and values of one of the
    best members (exploit), and each of these values is multiplied by one of two factors (explore). The other members
    continue from their own weights, with the same values.

    In the paper, each member is compared as soon as it is ready, with members at other steps. Here a generation ends
    when all its members have ended. So members are compared at equal steps, they can run one after another on few
    cores, and the result does not depend on timing.

    ``generation``: number of the next generation, from 1. ``before``, ``scores``: values and scores of the previous
    generation's members; higher scores are better. Members without a score (None) are the worst, and no other member
    continues from them. At least one member must have a score.
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
    """Return the runs of chosen trials that have not ended, in the order of trials.

    Runs of a trial that the stopping rule has dropped are included only if they must still be stopped.
    """
    found = [run for trial in history.trials.values() for run in search.runs(trial) if run not in history.ended]
    return [run for run in found if run.trial not in history.dropped or run in history.starts]


def next_step(
    search: Search, history: History, alive: Collection[RunId], set_aside: Collection[RunId] = ()
) -> RunId | Choice:
    """Return the run to start; if there is none, a new trial; if there is neither, WAIT or OVER.

    Runs that have been started before, and must be continued, come first. ``set_aside``: runs that a user has stopped;
    they are not started again before the next `actorlearn sweep` of this file.
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
