"""The search by Optuna (Akiba et al. 2019): its TPE sampler proposes the values of trials from the scores so far.

No state of Optuna is kept between proposals: a new sampler is given the whole history each time. Its random numbers
follow from the seed and the trial's number. So a proposal is a function of the history, also after a restart of the
sweep. Optuna is an optional dependency, and is imported only when a sweep uses it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any

from actorlearn.imports import own_extra
from launch.errors import RunError
from launch.sweeps.axes import Axis, Choices, Range, Values, written
from launch.sweeps.decisions import OVER, Choice, Search
from launch.sweeps.history import History, Trial
from launch.sweeps.keys import OptunaKeys

ASKED = 100
"""Number of proposals to try for one trial; if none of them has new values, the search is over."""
_NO_TIME = datetime(2000, 1, 1)
"""Time of all trials. Optuna requires a time, and the TPE sampler does not use it."""


class OptunaSearch(Search):
    """The search in which Optuna proposes the values of the next trial from the scores so far."""

    def __init__(self, axes: Sequence[Axis], keys: OptunaKeys, seeds: Sequence[int], sign: int) -> None:
        """Import Optuna; raises RunError if it is not installed. ``sign``: 1 if a higher score is better, else -1."""
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise RunError(
                f"search.name: optuna: {error.name} is not installed; {own_extra('optuna')}, or search by random"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna: Any = optuna
        self._axes, self._keys, self.seeds, self._sign = axes, keys, seeds, sign
        self._exhausted: tuple[int, int] | None = None
        """Numbers of trials and of ended runs for which no new values were proposed; they need not be tried again."""

    def choose(self, history: History) -> Choice:
        """Return the next trial, with values that no earlier trial has.

        If there are ``search.trials`` trials, or if Optuna proposes no new values, return OVER.
        """
        number = len(history.trials)
        known = number, len(history.ended)
        if number >= self._keys.trials or known == self._exhausted:
            return OVER
        before = {written(trial.values) for trial in history.trials.values()}
        for attempt in range(ASKED):
            values = self._propose(history, Random(f"{self._keys.seed} {number} {attempt}").getrandbits(32))
            if written(values) not in before:
                return Trial(number=number, values=values)
        self._exhausted = known
        return OVER

    def _propose(self, history: History, seed: int) -> Values:
        startup = self._keys.startup_trials
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about changes in Optuna's next release
            sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)
            study = self._optuna.create_study(direction="maximize", sampler=sampler)
            for trial in history.trials.values():
                study.add_trial(self._as_optunas(trial, history))
            asked = study.ask(self._distributions()).params
        return {
            axis.key: axis.fit(asked[axis.key]) if isinstance(axis, Range) else axis.values[asked[axis.key]]
            for axis in self._axes
        }

    def _distributions(self) -> dict[str, Any]:
        """Return Optuna's distribution for each axis; for a list, it draws the index, as values may have any type."""
        kinds, found = self._optuna.distributions, {}
        for axis in self._axes:
            if isinstance(axis, Choices):
                found[axis.key] = kinds.CategoricalDistribution(range(len(axis.values)))
            else:
                kind = kinds.IntDistribution if axis.whole else kinds.FloatDistribution
                found[axis.key] = kind(axis.low, axis.high, log=axis.log)
        return found

    def _as_optunas(self, trial: Trial, history: History) -> Any:
        """Return a trial as Optuna's object, with its state (complete, pruned, failed or running) and score, if any."""
        states = self._optuna.trial.TrialState
        score, dropped = history.score(trial.number), history.dropped.get(trial.number)
        own: dict[str, Any] = {"state": states.RUNNING}
        if dropped is not None:
            own = {"state": states.PRUNED, "intermediate_values": {dropped.env_steps: self._sign * dropped.score}}
        elif history.has_ended(self.runs(trial)):
            own = {"state": states.FAIL} if score is None else {"state": states.COMPLETE, "value": self._sign * score}
        made = self._optuna.trial.create_trial(
            params={
                axis.key: value if isinstance(axis, Range) else axis.values.index(value)
                for axis in self._axes
                for value in (trial.values[axis.key],)
            },
            distributions=self._distributions(),
            **own,
        )
        made.datetime_start = _NO_TIME
        made.datetime_complete = None if own["state"] is states.RUNNING else _NO_TIME
        return made
