"""Counts of a trainer (steps, updates, scores), and the reports that it sends to the supervisor.

A report is one row of metrics: these counts, rates computed from them, and metrics of learning. Reports are sent at
regular intervals.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from actorlearn.algorithms.lags import LAG_CLASSES
from actorlearn.learning.minibatches import Gathered
from actorlearn.learning.update import Update
from actorlearn.memory.account import Account, StepCounts
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters.consumed import BEGINNING, Position
from actorlearn.wire.control import Control
from actorlearn.wire.messages import Report
from actorlearn.worker.settings import TrainerSettings

FIRST_REPORT_S = 1.0
"""Seconds after the beginning of the first rollout at which its progress is reported, if it is not complete by then."""
NO_STEP_S = 2.0
"""The same if no step is complete in all environments after FIRST_REPORT_S."""


@dataclass
class TrainerCounts:
    """Environment steps, updates and game scores of one trainer."""

    account: Account
    """The numbers of steps of this learner's simulators that were used and dropped, and the rollout to learn next."""
    episodes: Episodes
    """The games of this learner's simulators."""
    env_steps: int = 0
    """Number of environment steps that all learners together have learned from."""
    updates: int = 0
    """Number of updates of all learners together. In mode sync, one update learns from a rollout of every learner."""
    learned_before: Position = BEGINNING
    """If this trainer was restarted: the weights contain the rollouts before this position, although the trainer was
    killed before it had counted all of them."""

    @property
    def position(self) -> Position:
        """The rollout that this learner learns from next, and its number of environment steps before it."""
        return Position(self.account.rollouts_learned, self.account.steps.passed)

    def continue_from(self, position: Position) -> None:
        """Continue after the rollouts of this learner from which the joined learners' weights have learned.

        If this trainer was restarted, the weights may have learned from a rollout that it had not counted yet. This
        rollout is then gathered again, and only counted.
        """
        account = self.account
        if position.rollout > account.rollouts_learned and account.commits:
            self.learned_before = position
            return
        # Steps that were used, but are not in the joined weights, are lost.
        steps, used = account.steps, max(0, position.used - account.steps.dropped["not_finite"])
        steps.dropped["rolled_back"] += max(0, steps.used - used)
        steps.used = used
        account.rollouts_learned = max(account.rollouts_learned, position.rollout)

    def count_learned_before(self, gathered: Gathered, in_step: bool, statistics: bool) -> None:
        """Count a rollout that this trainer learned from before it was restarted.

        In mode sync (``in_step``), its unused steps had been left out of the batch; otherwise they count as rolled
        back. If ``statistics``, the first rollouts only update the statistics of observations.
        """
        steps = self.account.steps
        played = len(gathered.lags) + gathered.stale
        used = self.learned_before.used - steps.passed
        left_out = played - used if in_step else 0
        only_statistics = statistics and not self.learned_before.used
        steps.dropped["rolled_back"] += played - used - left_out
        steps.dropped["statistics" if only_statistics else "stale"] += left_out
        steps.used += used
        self.finish_rollout(replace(gathered, stale=0, only_statistics=False))

    def count_learned(self, gathered: Gathered, update: Update) -> None:
        """Count a rollout from which this update has learned."""
        self.env_steps, self.updates = update.env_steps, update.updates
        self.account.steps.used += gathered.steps - update.skipped_steps
        self.account.steps.dropped["not_finite"] += update.skipped_steps
        self.finish_rollout(gathered)

    def finish_rollout(self, gathered: Gathered) -> None:
        """Count the games of a rollout and the steps left out of its batch, and move on to the next rollout."""
        dropped = self.account.steps.dropped
        dropped["stale"] += gathered.stale
        dropped["no_room"] += gathered.no_room
        dropped["statistics"] += len(gathered.lags) if gathered.only_statistics else 0
        for part in gathered.parts:
            column = {
                name: part.blocks.block(name, part.group, gathered.rollout)
                for name in ("reward", "terminated", "truncated", "first")
            }
            over = column["terminated"] | column["truncated"]
            self.episodes.add(part.owner, column["reward"], over, column["first"])
        self.account.rollouts_learned += 1

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the counts as plain values for a checkpoint."""
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "account": msgspec.to_builtins(self.account.steps),
            "rollouts_learned": self.account.rollouts_learned,
            "episodes_finished": self.episodes.finished,
            "recent_returns": list(self.episodes.recent),
            "recent_lengths": list(self.episodes.recent_lengths),
            "games": self.episodes.state(),
        }

    def restore(self, state: Mapping[str, Any], exactly: bool, outlived: bool) -> None:
        """Restore the counts of a checkpoint, except those of unfinished games.

        In a resumed run the step counts are the checkpoint's, and steps in flight count as dropped unless simulators
        continue ``exactly``. If only the trainer was restarted, the step counts are still in shared memory. Steps
        learned from since the checkpoint then count as rolled back, unless the weights have ``outlived`` the trainer.
        """
        self.env_steps, self.updates = state["env_steps"], state["updates"]
        self.episodes.finished = state["episodes_finished"]
        self.episodes.recent.extend(state["recent_returns"])
        self.episodes.recent_lengths.extend(state["recent_lengths"])
        saved = msgspec.convert(state["account"], StepCounts)
        if not self.account.commits:
            self.account.rollouts_learned, self.account.steps = state["rollouts_learned"], saved
            if not exactly:
                saved.dropped["not_resumed"] += state["in_flight"]
        elif not outlived:
            self.account.steps.roll_back(saved)


# Reports -------------------------------------------------------------------------------------------------------------


def elapsed_s(settings: TrainerSettings) -> float:
    """Return the seconds since the start of the run, by a clock that continues across restarts."""
    return time.monotonic() - settings.began_s


class Lags:
    """A histogram of policy lags: the age, in updates, of the weights that chose each action that was learned from."""

    def __init__(self) -> None:
        self._steps: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, lags: NDArray[np.int64]) -> None:
        """Count the steps of a batch, given the lag of each."""
        values, steps = np.unique(lags, return_counts=True)
        self._steps.update(dict(zip(values.tolist(), steps.tolist(), strict=True)))

    def row(self) -> dict[str, float | int]:
        """Return mean and largest lag, and the share of steps in each range of lags; all 0 if no step was counted."""
        total = max(self._steps.total(), 1)
        mean = sum(lag * steps for lag, steps in self._steps.items()) / total
        counted = {each: sum(steps for lag, steps in self._steps.items() if lag in each) for each in LAG_CLASSES}
        shares = {f"policy_lag_{each.name}": steps / total for each, steps in counted.items()}
        return {"policy_lag_mean": mean, "policy_lag_max": max(self._steps, default=0), **shares}


class Reports:
    """Composes and sends the reports of one trainer."""

    def __init__(
        self,
        settings: TrainerSettings,
        control: Control,
        counts: TrainerCounts,
        in_flight: Callable[[], int],
        collected: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Report ``counts`` to the supervisor.

        ``in_flight`` returns the number of steps that simulators have made and ``counts`` does not include yet.
        ``collected`` returns metrics of the collection of observation statistics, {} when learning has begun.
        """
        self._collected = collected
        self._settings, self._control, self._counts, self._in_flight = settings, control, counts, in_flight
        self._newest: Mapping[str, float] = {}
        """Metrics of the newest optimizer step."""
        self._lags = Lags()
        """Policy lags of the steps learned from since the last report."""
        self._since_s, self._since_used, self._since_made = 0.0, 0, 0
        """Time of the last report, in seconds, and the numbers of used steps and of made steps at this time."""
        self._rates: dict[str, float] = {}
        """Rates of learning in the newest report after an update; empty before the first."""
        self._played_since: tuple[float, int] | None = None
        """Time, in seconds, and number of steps made, from which the rate of steps made is measured; None before the
        first rollout begins."""
        self._wait_until_s = 0.0
        """Time, in seconds, of the next report without an update; each update postpones it."""

    def begin(self) -> None:
        """Start to measure rates, such as steps per second."""
        self._since_s = time.monotonic()
        self._since_used, self._since_made = self._counts.account.steps.used, self._steps_made()

    def note_learned(self, metrics: Mapping[str, float], lags: NDArray[np.int64]) -> None:
        """Keep an optimizer step's metrics and the policy lags of the steps learned from, for the next report."""
        self._newest = metrics
        self._lags.add(lags)
        self._wait_until_s = time.monotonic() + max(self._settings.report_every_s, FIRST_REPORT_S)

    @property
    def pending(self) -> bool:
        """Whether steps were learned from since the last report."""
        return bool(self._lags)

    @property
    def due(self) -> bool:
        """Whether it is time for the next report."""
        return self.seconds >= self._settings.report_every_s

    @property
    def seconds(self) -> float:
        """Seconds since the last report."""
        return max(time.monotonic() - self._since_s, 1e-9)

    def send(self, metrics: Mapping[str, Any]) -> None:
        """Send a report with ``metrics``, which the learner has measured since the last report."""
        rate = (self._counts.account.steps.used - self._since_used) / self.seconds
        self._rates = {"env_steps_per_s": rate, "frames_per_s": rate * self._settings.frames_per_step}
        row = self.row()
        made = {"steps_made_per_s": self._made_per_s(row["steps_made"])}
        measured = {**self._lags.row(), **self._newest, **metrics}
        self._control.send(Report(row={**row, **made, **self._rates, **measured, **self._collected()}))
        self._lags = Lags()
        self.begin()
        self._played_since = self._since_s, self._since_made

    def send_waiting(self, progress: Callable[[], tuple[int, int]]) -> None:
        """If the present rollout takes long, send a report on its progress, without new metrics of learning.

        ``progress`` returns how many steps of the rollout are made, and how many it will have; 0, 0 if none is played.
        """
        now_s = time.monotonic()
        if now_s < self._wait_until_s or not (steps := progress())[1]:
            return
        if self._played_since is None:
            self._played_since = now_s, self._steps_made()
            self._wait_until_s = now_s + FIRST_REPORT_S
            return
        made, complete = steps
        if not made and now_s < self._played_since[0] + NO_STEP_S:
            return
        row = self.row()
        rate = self._made_per_s(row["steps_made"])
        expected = {"update_in_s": (complete - made) / rate} if rate else {}
        waiting = {"steps_made_per_s": rate, "update_steps": complete, "update_steps_made": made, **expected}
        self._control.send(Report(row={**row, **self._rates, **waiting, **self._collected()}))
        self._wait_until_s = now_s + max(self._settings.report_every_s, FIRST_REPORT_S)

    def _made_per_s(self, steps_made: int) -> float:
        since_s, before = self._played_since or (self._since_s, self._since_made)
        return max(0, steps_made - before) / max(time.monotonic() - since_s, 1e-9)

    def _steps_made(self) -> int:
        steps = self._counts.account.steps
        return steps.used + steps.dropped_steps + self._in_flight()

    def row(self) -> dict[str, Any]:
        """Return the present counts of steps, updates and games, as metrics."""
        steps, episodes = self._counts.account.steps, self._counts.episodes
        return {
            "time_s": round(elapsed_s(self._settings), 3),
            "env_steps": self._counts.env_steps,
            "frames": self._counts.env_steps * self._settings.frames_per_step,
            "updates": self._counts.updates,
            "episodes": episodes.finished,
            "episode_return_mean": episodes.mean(),
            "episode_length_mean": episodes.mean_length(),
            "episodes_in_mean": len(episodes.recent),
            "steps_made": self._steps_made(),
            "steps_used": steps.used,
            "steps_dropped": steps.dropped_steps,
            **{f"dropped_{reason}": number for reason, number in steps.dropped.items()},
        }
