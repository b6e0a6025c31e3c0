"""Stage 4 of 5: turns batches into updates (``processes/learning.py`` says how), and publishes weights.

Reads: a ``Batch`` from stage 3.
Writes: a published version per batch; checkpoints; reports.
Next: ``parameters/published.py``, which stage 2 polls.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from actorlearn.algorithms.interface import Batch
from actorlearn.memory.rollout import Rounds
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters import checkpoint
from actorlearn.parameters.published import Published
from actorlearn.processes.batches import Batches, lag, steps_in
from actorlearn.processes.learning import Learning
from actorlearn.processes.role import POLL_MS, Role
from actorlearn.processes.settings import TrainerSettings
from actorlearn.wire.bell import Bell, Bells
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import Report, Saved, Warned

SETTINGS = TrainerSettings
SKIPS_ALLOWED = 10
"""Batches in a row with non-finite updates after which the run is stopped rather than continued with old weights."""


class Trainer:
    """The loop around ``Learning``: rounds in, versions, reports and checkpoints out."""

    def __init__(self, settings: TrainerSettings) -> None:
        """Build, restore if asked to, publish the first weights."""
        self.settings = settings
        self.role = Role(settings)
        self.learning = Learning(settings)
        self.episodes = Episodes()
        self.published = Published(Segment.open(Path(settings.weights)))
        rounds = Rounds(Segment.open(Path(settings.rounds)))
        columns = sorted(self.learning.algorithm.columns())
        self.batches = Batches(rounds, settings.blocks, settings.device, columns, self.episodes)
        self.bells = Bells()
        self.checkpoints = Path(settings.run_dir) / "checkpoints"
        self.env_steps = self.updates = self.learned = self.saves_done = 0
        self.saved_at = -1
        self.numbers: dict[str, Any] = {}
        """What the newest update said of itself."""
        self.lags: list[tuple[float, int]] = []
        """Mean and largest lag of each update since the last report."""
        if settings.resume:
            self._restore(checkpoint.newest(self.checkpoints))
        self.learned = max(self.learned, rounds.open - settings.blocks)  # a restarted trainer goes on with open rounds
        self.last_report = (time.monotonic(), self.env_steps)
        self._publish()
        if not settings.resume:
            self._save()

    def run(self) -> None:
        """Learn until total_steps, a drain order or SIGTERM."""
        waiter = Waiter(Bell(Path(self.settings.bell)), self.role.control.dealer)
        self.role.hello()
        draining = False
        while self.env_steps < self.settings.total_steps and not draining and self.role.alive():
            draining = self._follow_orders()
            parts = self.batches.parts(self.learned)
            if parts is None:
                self.learned = self.batches.unblock(self.learned)
                self.role.timings.add("copy")
                waiter.wait(POLL_MS)
                self.role.timings.add("wait")
                continue
            batch = self.batches.take(self.learned, parts)
            self.role.timings.add("copy")
            self._learn(batch)
        self._finish(draining)

    def _learn(self, batch: Batch) -> None:
        self.lags.append(lag(batch, self.published.version))
        self.numbers = self.learning.learn(batch, self.env_steps, self.learned)
        self.env_steps += steps_in(batch)
        self.updates += 1
        self.learned += 1
        self.role.timings.add("learn")
        if self.learning.skipped:
            said = f"loss {self.numbers['loss']}, norm {self.numbers['gradient_norm']}"
            self._warn(f"update {self.updates} skipped: {said}")
            if self.learning.skipped > SKIPS_ALLOWED:
                raise FloatingPointError(
                    f"non-finite updates from {self.learning.skipped} batches in a row at {self.env_steps} steps; "
                    "lower optimizer.learning_rate or set optimizer.clip_norm, and resume from the last checkpoint"
                )
        self._publish()
        self._open()
        self.role.timings.add("publish")
        if time.monotonic() - self.last_report[0] >= self.settings.report_every_s:
            self._report()
        if self.env_steps - self.saved_at >= self.settings.checkpoint_every_steps:
            self._save()

    def _open(self) -> None:
        self.batches.open_after(self.learned)
        self.bells.ring_all()

    def _follow_orders(self) -> bool:
        control = self.role.control
        if control.ordered:
            own = [seat for seat in control.order.roster if seat.learner == self.settings.learner]
            self.batches.follow(own, control.order.leaving)
            self.bells.follow({seat.peer: seat.bell for seat in own})
            if control.order.save > self.saves_done:
                self.saves_done = control.order.save
                self._save()
            control.applied()
        return control.order.phase == "drain"

    def _publish(self) -> None:
        self.published.publish(self.learning.weights.detach().cpu().numpy(), self.env_steps)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.settings.began_s

    def _row(self) -> dict[str, Any]:
        return {
            "time_s": round(self._elapsed_s(), 3),
            "env_steps": self.env_steps,
            "frames": self.env_steps * self.settings.frames_per_step,
            "updates": self.updates,
            "episodes": self.episodes.finished,
            "episode_return_mean": self.episodes.mean(),
            "episode_length_mean": self.episodes.mean_length(),
            "steps_dropped": self.batches.dropped_steps,
        }

    def _report(self) -> None:
        then_s, then_steps = self.last_report
        rate = (self.env_steps - then_steps) / max(time.monotonic() - then_s, 1e-9)
        rates = {"env_steps_per_s": rate, "frames_per_s": rate * self.settings.frames_per_step}
        means, largest = zip(*self.lags, strict=True)
        lags = {"policy_lag_mean": sum(means) / len(means), "policy_lag_max": max(largest)}
        self.role.control.send(Report(row={**self._row(), **rates, **lags, **self.numbers}))
        self.last_report = (time.monotonic(), self.env_steps)
        self.lags = []

    def _warn(self, text: str) -> None:
        self.role.control.send(Warned(name=self.settings.name, incarnation=self.settings.incarnation, text=text))

    def _state(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "learned": self.learned,
            "elapsed_s": self._elapsed_s(),
            "episodes_finished": self.episodes.finished,
            "recent_returns": list(self.episodes.recent),
            "recent_lengths": list(self.episodes.recent_lengths),
            "policy_version": self.published.version,
            "dropped_steps": self.batches.dropped_steps,
        }

    def _save(self) -> None:
        self.saved_at = self.env_steps
        try:
            path = checkpoint.save(
                self.checkpoints, self.env_steps, self.learning.tensors(), self._state(), self.settings.checkpoint_keep
            )
        except OSError as error:  # training is worth more than this save; the one before stays
            self._warn(f"checkpoint at {self.env_steps} steps not written: {error}; the run goes on")
            return
        self.role.control.send(Saved(path=str(path), env_steps=self.env_steps, order=self.saves_done))

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        self.learning.restore(saved)
        state = saved.state
        self.env_steps, self.updates, self.learned = state["env_steps"], state["updates"], state["learned"]
        self.saved_at = self.env_steps
        self.episodes.finished = state["episodes_finished"]
        self.episodes.recent.extend(state["recent_returns"])
        self.episodes.recent_lengths.extend(state["recent_lengths"])
        lost = self.published.env_steps - self.env_steps  # learned by a trainer that died before it saved again
        self.batches.dropped_steps = state["dropped_steps"] + max(lost, 0)

    def _finish(self, draining: bool) -> None:
        if self.lags:
            self._report()
        if self.saved_at != self.env_steps:
            self._save()
        summary = {**self._row(), "wall_time_s": self._elapsed_s(), "weights_sha256": self.learning.sha256()}
        reason = "total_steps" if self.env_steps >= self.settings.total_steps else "drained" if draining else "stopped"
        self.role.control.finished(reason, summary)
        self.role.control.close()


def run(settings: TrainerSettings) -> None:
    """Train to the end of the topology."""
    torch.set_num_threads(settings.threads)
    Trainer(settings).run()
