"""Reports of a trainer: a row of counts, rates and metrics every so often."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actorlearn.metrics.lags import Lags
from actorlearn.processes.counts import TrainerCounts
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Report
from actorlearn.worker.settings import TrainerSettings


def elapsed_s(settings: TrainerSettings) -> float:
    """Seconds on the run's clock, which goes on through restarts."""
    return time.monotonic() - settings.began_s


class Reports:
    """The reports of one trainer."""

    def __init__(self, settings: TrainerSettings, control: Control, counts: TrainerCounts) -> None:
        """Report these counts to the supervisor; rates are counted from ``begin`` on."""
        self._settings, self._control, self._counts = settings, control, counts
        self._newest: dict[str, float] = {}
        """Metrics of the newest optimizer step."""
        self._lags = Lags()
        """Policy lags of the steps learned from since the last report."""
        self._since_s, self._since_steps = 0.0, 0

    def begin(self) -> None:
        """Count rates from now on."""
        self._since_s, self._since_steps = time.monotonic(), self._counts.account.steps.used

    def note_learned(self, metrics: dict[str, float], lags: NDArray[np.int64]) -> None:
        """Keep, for the next report, the metrics of the newest optimizer step and the lag of each step learned from."""
        self._newest = metrics
        self._lags.add(lags)

    @property
    def skipped(self) -> str:
        """Loss and gradient norm of the newest optimizer step, in words: why it was skipped."""
        return f"loss {self._newest['loss']}, norm {self._newest['gradient_norm']}"

    @property
    def pending(self) -> bool:
        """Whether anything was learned from since the last report."""
        return bool(self._lags)

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return self.seconds >= self._settings.report_every_s

    @property
    def seconds(self) -> float:
        """Seconds since the last report."""
        return max(time.monotonic() - self._since_s, 1e-9)

    def send(self, metrics: Mapping[str, Any]) -> None:
        """Report the time since the last report; ``metrics`` are those of the learner over that time."""
        rate = (self._counts.account.steps.used - self._since_steps) / self.seconds
        rates = {"env_steps_per_s": rate, "frames_per_s": rate * self._settings.frames_per_step}
        self._control.send(Report(row={**self.row(), **rates, **self._lags.row(), **self._newest, **metrics}))
        self._lags = Lags()
        self.begin()

    def row(self) -> dict[str, Any]:
        """Return what has been learned and played until now."""
        steps, episodes = self._counts.account.steps, self._counts.episodes
        return {
            "time_s": round(elapsed_s(self._settings), 3),
            "env_steps": self._counts.env_steps,
            "frames": self._counts.env_steps * self._settings.frames_per_step,
            "updates": self._counts.updates,
            "episodes": episodes.finished,
            "episode_return_mean": episodes.mean(),
            "episode_length_mean": episodes.mean_length(),
            "steps_used": steps.used,
            "steps_dropped": steps.dropped_steps,
            **{f"dropped_{reason}": number for reason, number in steps.dropped.items()},
        }
