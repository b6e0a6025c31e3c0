"""Reports of a trainer: a row of counts, rates and metrics every so often."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.learning.peers import Peers
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account
from actorlearn.metrics.episodes import Episodes
from actorlearn.metrics.lags import Lags
from actorlearn.processes.publishing import Totals
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Report
from actorlearn.worker.settings import TrainerSettings


def elapsed_s(settings: TrainerSettings) -> float:
    """Seconds on the run's clock, which goes on through restarts."""
    return time.monotonic() - settings.began_s


class Reports:
    """The reports of one trainer."""

    def __init__(
        self,
        settings: TrainerSettings,
        control: Control,
        totals: Totals,
        account: Account,
        episodes: Episodes,
        learning: Learning,
        peers: Peers,
    ) -> None:
        """Report to the supervisor; rates are counted from ``begin`` on."""
        self._settings, self._control = settings, control
        self._totals, self._account, self._episodes = totals, account, episodes
        self._learning, self._peers = learning, peers
        self._update: dict[str, Any] = {}
        """Metrics of the newest update."""
        self._lags = Lags()
        """Policy lags of the steps learned from since the last report."""
        self._since_s, self._since_steps = 0.0, 0

    def begin(self) -> None:
        """Count rates from now on."""
        self._since_s, self._since_steps = time.monotonic(), self._account.counts.used

    def learned(self, metrics: dict[str, float], lags: NDArray[np.int64]) -> None:
        """Take, for the next report, the metrics of the newest update and the lag of each step learned from."""
        self._update = metrics
        self._lags.add(lags)

    @property
    def skipped(self) -> str:
        """Why the newest update was skipped, in words."""
        return f"loss {self._update['loss']}, norm {self._update['gradient_norm']}"

    @property
    def pending(self) -> bool:
        """Whether anything was learned from since the last report."""
        return bool(self._lags)

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._since_s >= self._settings.report_every_s

    def send(self) -> None:
        """Report the time since the last report."""
        seconds = max(time.monotonic() - self._since_s, 1e-9)
        rate = (self._account.counts.used - self._since_steps) / seconds
        rates = {"env_steps_per_s": rate, "frames_per_s": rate * self._settings.frames_per_step}
        between = self._learning.metrics()
        if self._settings.learner == 0 and (warning := self._peers.straggler(between, seconds)):
            self._control.warned(warning)
        self._control.send(Report(row={**self.row(), **rates, **self._lags.row(), **self._update, **between}))
        self._lags = Lags()
        self.begin()

    def row(self) -> dict[str, Any]:
        """Return what has been learned and played until now."""
        counts, episodes = self._account.counts, self._episodes
        return {
            "time_s": round(elapsed_s(self._settings), 3),
            "env_steps": self._totals.env_steps,
            "frames": self._totals.env_steps * self._settings.frames_per_step,
            "updates": self._totals.updates,
            "episodes": episodes.finished,
            "episode_return_mean": episodes.mean(),
            "episode_length_mean": episodes.mean_length(),
            "steps_used": counts.used,
            "steps_dropped": counts.dropped_steps,
            **{f"dropped_{reason}": steps for reason, steps in counts.dropped.items()},
        }
