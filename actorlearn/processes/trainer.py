"""Stage 4 of 5: turns batches into updates (``learning/update.py`` says how), and publishes weights.

Reads: a ``Batch`` from stage 3.
Writes: a published version per batch; checkpoints; reports.
Next: ``parameters/published.py``, which stage 2 polls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.failpoints import hit
from actorlearn.learning.peers import Peers
from actorlearn.learning.resuming import resumed
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.secondary import learning_by
from actorlearn.learning.staleness import lags, open_rollouts, without_stale
from actorlearn.learning.update import make_ready
from actorlearn.memory.account import Account, Counts
from actorlearn.memory.rollout import Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.metrics.lags import Lags
from actorlearn.parameters import checkpoint
from actorlearn.parameters.checkpoint_folders import directory_of, in_all
from actorlearn.parameters.interface import PeerLost, Place, Stopped
from actorlearn.parameters.published import Published
from actorlearn.processes.batches import steps_in
from actorlearn.processes.gathering import Gathering, of_the_first, simulators_of
from actorlearn.processes.replay_batches import batches_for
from actorlearn.wire.channel import Waiter
from actorlearn.wire.messages import MOST_NAMES, Order, Released, Report, Saved
from actorlearn.wire.wakeup import Wakeup, Wakeups
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import POLL_MS, Worker

SKIPS_ALLOWED = 10
"""Batches in a row with non-finite updates after which the run is stopped rather than continued with old weights."""


class Trainer:
    """The loop around ``Learning``: rollouts in, versions, reports and checkpoints out."""

    def __init__(self, settings: TrainerSettings) -> None:
        """Build, restore if asked to, publish the first weights."""
        self.settings = settings
        self.worker = Worker(settings)
        self.learning = learning_by(settings)
        self.episodes = Episodes()
        algorithm = self.learning.algorithm_settings
        self.rewards = RewardScale(algorithm.discount) if algorithm.normalize_reward else None
        self.published = Published(Segment.open(Path(settings.weights)))
        rollouts = Rollouts(Segment.open(Path(settings.rollouts)), settings.rollout_steps)
        at_once = open_rollouts(settings.blocks, algorithm)
        self.account = Account(Segment.open(Path(settings.account)))
        self.batches = batches_for(self.learning, rollouts, self.account, at_once, self.episodes)
        self.gathering = Gathering(settings.states, self.batches)
        self.wakeups = Wakeups()
        self.waiter = Waiter(Wakeup(Path(settings.wakeup)), self.worker.control.dealer)
        self.checkpoints = settings.checkpoints
        self.learners = Peers(settings, self.worker, self.learning)
        self.learning.beat, self.learning.going_on = self.worker.alive, self.learners.going_on
        self.learning.place = lambda: Place(self.account.rollouts_learned, self.account.counts.used)
        self.env_steps = self.updates = self.saves_done = self.pulls = 0
        """Of which the first two are all learners' together."""
        self.saved_at = -1
        self.save_due = self.save_failed = False
        self.unlearned: Batch | None = None
        """A batch whose learning another learner's end broke off."""
        self.known = Place()
        """What was learned before this trainer's time, by what others have of it; mostly nothing."""
        self.stale = 0
        """Steps of the batch taken last that are too old to be learned from."""
        self.goes_on_from = ""
        """The checkpoint from which the run goes on exactly, with its simulators."""
        self.numbers: dict[str, Any] = {}
        """What the newest update said of itself."""
        self.lags = Lags()
        """Of the steps learned from since the last report."""
        if settings.resume:
            self._restore()
        self.last_report = (time.monotonic(), self.account.counts.used)
        if not self.goes_on_from:
            self._publish()
        if not settings.resume:
            self._gather()
            self._save()

    def run(self) -> None:
        """Learn until total_steps, a drain order or SIGTERM."""
        self.worker.hello()
        while not self.worker.control.order.version and self.worker.alive():  # it says who has died, and is not counted
            self.waiter.wait(POLL_MS)
        draining = self._follow_orders()  # whose blocks lie here counts also where there is nothing left to learn
        while self.env_steps < self.settings.total_steps and not draining and self.worker.alive():
            draining = self._follow_orders()
            joined = self._joined()
            batch = self._batch() if joined and not draining else None
            self.worker.timings.add("copy")
            if draining and not joined:
                break
            if batch is None and not draining:
                self.waiter.wait(POLL_MS)
                self.worker.timings.add("wait")
                continue
            try:
                draining = self._learn(batch, draining)
            except PeerLost:  # what was learned so far stays; the batch is learned with those who are left
                self.learners.part()
                self.unlearned = batch
            except Stopped:  # the rollout stays in flight: what was learned of it counts no steps
                draining = self.learners.leaving
                self.saved_at = -1  # but has changed the weights
                break
        self._finish(draining)

    def _joined(self) -> bool:
        """Whether all learners are joined; if some have come or gone, try."""
        if self.learners.joined:
            return True
        totals = self.learners.join(self.env_steps, self.updates)
        if totals is None:
            return False
        hit("trainer.joined")
        if place := self.learning.exchange.place():
            self._go_on_from(place)
        if totals != (self.env_steps, self.updates):
            self.env_steps, self.updates = totals
            self._publish()
        return True

    def _go_on_from(self, place: Place) -> None:
        """Go on where the weights say that this learner is, which an earlier incarnation of it may have left there.

        It has learned a rollout, at most, that it had not committed: that is taken once more, to be counted.
        """
        counts = self.account.counts
        if place.rollout > self.account.rollouts_learned and self.account.commits:
            self.known = place
            return
        counts.dropped["rolled_back"] += max(0, counts.used - place.used)  # more: of another's newer checkpoint
        counts.used, self.account.rollouts_learned = place.used, max(self.account.rollouts_learned, place.rollout)

    def _count_known(self, steps: int) -> None:
        """Count a rollout learned before this trainer's time; others may have traces of what is used no more."""
        counts, used = self.account.counts, self.known.used - self.account.counts.used
        self.stale = steps - used if self.learners.in_step else 0
        counts.dropped["rolled_back"] += steps - used - self.stale
        counts.used += used
        self.batches.keep()
        self._count_rollout()
        self._open()

    def _batch(self) -> Batch | None:
        """The batch to learn from next, or None while it is being gathered."""
        if self.unlearned is not None:
            batch, self.unlearned = self.unlearned, None
            return batch
        parts = self.batches.parts()
        if parts is None:
            self.batches.unblock()
            self._say_released()
            self._pull()
            return None
        batch = self.batches.take(parts)
        if self.rewards is not None:
            batch = self.rewards.scaled(batch, [(f"{peer}/{g}", b.envs_per_group) for peer, b, g in parts])
        if self.account.rollouts_learned < self.known.rollout and (
            self.learners.in_step or self.settings.replay is None
        ):
            self._count_known(steps_in(batch))
            return self._batch()
        version = self.batches.rollouts.judge(self.account.rollouts_learned, self.published.version)
        fresh = without_stale(batch, version, self.learning.algorithm_settings)
        self.stale = steps_in(batch) - steps_in(fresh)
        if self.stale and self.stale == steps_in(batch) and not self.learners.in_step:
            self._count_rollout()
            self._open()
            return self._batch()
        return fresh

    def _pull(self) -> None:
        """Act by what others have learned meanwhile, every so many rows."""
        if not self.settings.pull_rows:
            return
        pulls = self.batches.rows() // self.settings.pull_rows
        if pulls > self.pulls and self.learning.exchange.pull():
            self._publish()
        self.pulls = pulls

    def _learn(self, batch: Batch | None, draining: bool) -> bool:
        """Learn from a batch, unless a learner drains: says whether one does. Without a batch that is this one."""
        exchange = self.learning.exchange
        if batch is None:
            return exchange.agree(0, 0, draining).draining
        steps, prepared = steps_in(batch), self.learning.prepare(batch)
        self.worker.timings.add("learn")
        updates = self.learning.updates_from(prepared, self.env_steps, self.account.counts.used)
        agreed = exchange.agree(steps, updates, draining)
        self.worker.timings.add("wait")
        if agreed.draining:
            return True
        hit("trainer.agreed")
        self.batches.keep()
        hit("trainer.kept")
        self.numbers = self.learning.pass_over(prepared, self.env_steps, self.account.rollouts_learned)
        hit("trainer.learned")
        exchange.settle()
        hit("trainer.settled")
        self.lags.add(lags(batch, self.published.version))
        # At whole multiples, so that learners in step save at the same steps, whatever each has saved before.
        every = self.settings.checkpoint_every_steps
        self.save_due = agreed.env_steps // every > self.env_steps // every
        self.env_steps = agreed.env_steps
        self.account.counts.used += steps
        self.updates = agreed.updates
        self._count_rollout()
        self.worker.timings.add("learn")
        self._after_learning()
        return False

    def _count_rollout(self) -> None:
        """The rollout taken last is over: the next one follows."""
        self.account.counts.dropped["stale"] += self.stale
        self.batches.count_games()
        if self.rewards is not None:
            self.rewards.learned()
        self.account.rollouts_learned += 1

    def _after_learning(self) -> None:
        if not self.learning.finite:
            said = f"loss {self.numbers['loss']}, norm {self.numbers['gradient_norm']}"
            self._warn(f"update {self.updates} skipped: {said}")
            if self.learning.skipped > SKIPS_ALLOWED:
                raise FloatingPointError(
                    f"non-finite updates from {self.learning.skipped} batches in a row at {self.env_steps} steps; "
                    "lower optimizer.learning_rate or set optimizer.clip_norm, and resume from the last checkpoint"
                )
        if self.learning.algorithm_settings.epochs:
            self._publish()
        hit("trainer.published")
        if self.save_due:
            self._gather()  # while simulators stand between two rollouts, if only one is open
        self._open()
        hit("trainer.opened")
        self.worker.timings.add("publish")
        if time.monotonic() - self.last_report[0] >= self.settings.report_every_s:
            self._report()
        if self.save_due:
            self._save()

    def _open(self) -> None:
        self.batches.open_next()
        self.wakeups.wake_all()
        self._say_released()

    def _say_released(self) -> None:
        if released := self.batches.released[:MOST_NAMES]:
            self.worker.control.send(Released(peers=released))
            del self.batches.released[: len(released)]

    def _follow_orders(self) -> bool:
        control = self.worker.control
        while control.ordered:
            order = control.order
            self._follow_members(order)
            if order.save > self.saves_done:
                self.saves_done = order.save
                self._gather()
                self._save()
            control.applied(order)
        return self.learners.leaving

    def _follow_members(self, order: Order) -> None:
        own, gone = (
            [member for member in members if member.id.learner == self.settings.learner]
            for members in (order.members, order.gone)
        )
        self.batches.follow(own, order.leaving, gone)
        self._say_released()
        self.wakeups.follow({member.id.peer: member.wakeup for member in own})

    def _gather(self) -> None:
        """Have the simulators say where they stand, for the checkpoint that is to be saved."""
        self.gathering.gather(self.wakeups.wake_all, self._wait_for_snapshots)

    def _wait_for_snapshots(self) -> bool:
        self.waiter.wait(POLL_MS)
        if self.worker.control.ordered:
            self._follow_members(self.worker.control.order)
        return self.worker.alive()

    def _publish(self) -> None:
        version = self.learning.publish(self.published, self.env_steps)
        self.batches.rollouts.published(version, self.env_steps, self.account.rollouts_learned)

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
            "steps_used": self.account.counts.used,
            "steps_dropped": self.account.counts.dropped_steps,
            **{f"dropped_{reason}": steps for reason, steps in self.account.counts.dropped.items()},
        }

    def _report(self) -> None:
        then_s, then_steps = self.last_report
        rate = (self.account.counts.used - then_steps) / max(time.monotonic() - then_s, 1e-9)
        rates = {"env_steps_per_s": rate, "frames_per_s": rate * self.settings.frames_per_step}
        between = self.learning.numbers()
        if self.settings.learner == 0 and (said := self.learners.straggler(between, time.monotonic() - then_s)):
            self._warn(said)
        self.worker.control.send(Report(row={**self._row(), **rates, **self.lags.row(), **self.numbers, **between}))
        self.last_report = (time.monotonic(), self.account.counts.used)
        self.lags = Lags()

    def _warn(self, text: str) -> None:
        self.worker.control.warned(text)

    def _state(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "updates": self.updates,
            "account": msgspec.to_builtins(self.account.counts),
            "in_flight": self.batches.in_flight(),
            "learned": self.account.rollouts_learned,  # checkpoints of before have it by this name
            "elapsed_s": self._elapsed_s(),
            "episodes_finished": self.episodes.finished,
            "recent_returns": list(self.episodes.recent),
            "recent_lengths": list(self.episodes.recent_lengths),
            "policy_version": self.published.version,
            "rewards": self.rewards.state() if self.rewards is not None else None,
            "games": self.episodes.state(),
            "skipped": self.learning.skipped,
            "rollouts": self.batches.rollouts.state(self.account.rollouts_learned),
            "depends_on": self.settings.depends_on,
            "weights": self.learning.sha256(),
        }

    def _acted_by(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Weights by which open rollouts are played, and the steps they were published at, by version.

        Without the newest where it is what was learned last, as it is but for a pass that was broken off.
        """
        if self.gathering.inexact:
            return {}, {}
        rollouts = self.batches.rollouts
        versions = {rollouts.version(r) for r in range(self.account.rollouts_learned, rollouts.open)} | {
            self.published.version
        }
        kept = self.published.kept(versions)
        if gone := versions - kept.keys():
            self.gathering.inexact = f"versions {gone} of the weights are not kept any more"
        newest, weights = kept.get(self.published.version), self.learning.weights.detach().cpu().numpy()
        if newest is not None and np.array_equal(newest[0], weights, equal_nan=True):
            del kept[self.published.version]
        elif self.settings.replay is None:
            self.gathering.inexact = "it was told to end among the minibatches of a batch"
        tensors = {f"published.{version}": torch.from_numpy(copy) for version, (copy, _) in kept.items()}
        return tensors, {str(version): steps for version, (_, steps) in kept.items()}

    def _save(self) -> None:
        if self.goes_on_from and not self.batches.rollouts.open:  # nobody has taken up what is saved there yet
            self._say_saved(Path(self.goes_on_from))
            return
        self.saved_at = self.env_steps
        weights, steps = self._acted_by()
        state = {**self._state(), "published": steps}
        try:
            saved = self.env_steps, {**self.learning.tensors(), **weights}, state
            keep, beat, spared = self.settings.checkpoint_keep, self.learning.beat, self._spared
            path = checkpoint.save(self.checkpoints, *saved, keep, self._more, beat, spared)
        except OSError as error:  # training is worth more than this save; the one before stays
            self._warn(f"checkpoint at {self.env_steps} steps not written: {error}; the run goes on")
            self.save_failed = True
            return
        finally:
            self.gathering.close()
        self.save_failed = False
        hit("trainer.saved")
        if said := self.gathering.complaint():
            self._warn(said)
        self._say_saved(path)

    def _say_saved(self, path: Path) -> None:
        self.worker.control.send(Saved(path=str(path), env_steps=self.env_steps, order=self.saves_done))

    def _more(self, folder: Path) -> dict[str, Any]:
        return {**self.learning.save(folder), **self.gathering.put(folder)}

    def _spared(self) -> set[int]:
        """Steps of a checkpoint that is kept however old it is: the newest that all learners in step have."""
        if not self.learners.in_step:
            return set()
        root = Path(self.settings.run_dir) / "checkpoints"
        return {max(in_all([directory_of(root, k) for k in range(self.settings.learners)]), default=-1)}

    def _restore(self) -> None:
        """Take up a checkpoint."""
        goes_on = self.goes_on_from = self.settings.goes_on_from if not self.account.commits else ""
        saved, warnings = resumed(self.settings, self.learning.beat, goes_on)
        for warning in warnings:
            self._warn(warning)
        self.learning.restore(saved, bool(goes_on))
        state = saved.state
        self.env_steps, self.updates = state["env_steps"], state["updates"]
        self._go_on_counting(state)
        self.saved_at = self.env_steps
        self.episodes.finished = state["episodes_finished"]
        self.episodes.recent.extend(state["recent_returns"])
        self.episodes.recent_lengths.extend(state["recent_lengths"])
        if self.rewards is not None and state.get("rewards"):
            returns = state["rewards"]["returns"]
            owned = of_the_first(returns, simulators_of(state)) if goes_on else returns
            self.rewards.restore({**state["rewards"], "returns": owned})
        if goes_on:
            self._go_on(saved)
        else:
            self.published.go_on_after(state["policy_version"])

    def _go_on(self, saved: checkpoint.Checkpoint) -> None:
        """Publish what simulators act by and go on with what belongs to them, as if nothing had happened meanwhile."""
        state, weights = saved.state, saved.section("published")
        for version in sorted(map(int, weights)):
            self.published.go_on_after(version - 1)
            self.published.publish(weights[str(version)].numpy(), state["published"][str(version)])
        if str(state["policy_version"]) not in weights:
            self.published.go_on_after(state["policy_version"] - 1)
            self._publish()
        self.batches.rollouts.restore(state["rollouts"])
        self.episodes.restore(of_the_first(state["games"], simulators_of(state)))
        self.learning.skipped = state["skipped"]

    def _go_on_counting(self, state: Mapping[str, Any]) -> None:
        """Take up the account of a trainer that died, or of a run that ended, which is in the checkpoint's state."""
        saved = msgspec.convert(state.get("account") or {"used": state["own_steps"]}, Counts)  # else an older version's
        if not self.account.commits:
            self.account.rollouts_learned, self.account.counts = state["learned"], saved
            if not self.goes_on_from:
                saved.dropped["not_resumed"] += state.get("in_flight", 0)
                self.learning.consumed.forget_parts()
        elif not self.learners.outlived:
            counts = self.account.counts
            counts.dropped["rolled_back"] += counts.used - saved.used
            counts.used = saved.used

    def _finish(self, draining: bool) -> None:
        if self.lags:
            self._report()
        if self.learners.in_step:  # nothing is left to bring home; and nobody is to wait while this one saves
            self.learning.exchange.close()
        else:
            with suppress(Stopped):
                self.learning.exchange.agree(0, 0, True)
        if self.saved_at != self.env_steps or self.save_failed:
            self._gather()
            self._save()
        flight = {"steps_in_flight": self.batches.in_flight()}
        summary = {**self._row(), **flight, "wall_time_s": self._elapsed_s(), "weights_sha256": self.learning.sha256()}
        reason = "total_steps" if self.env_steps >= self.settings.total_steps else "drained" if draining else "stopped"
        self.worker.control.finished(reason, summary)
        self.worker.control.close()


def run(settings: TrainerSettings) -> None:
    """Train to the end of the topology."""
    make_ready()
    Trainer(settings).run()
