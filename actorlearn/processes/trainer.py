"""Stage 4 of 5: turns batches into updates (``learning/update.py`` says how), and publishes weights.

Reads: a ``Batch`` from stage 3.
Writes: a published version per batch; checkpoints (``processes/checkpoints.py``); reports (``processes/reports.py``).
Next: ``parameters/published.py``, which stage 2 polls.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.settings import OnPolicySettings
from actorlearn.failpoints import hit
from actorlearn.learning.make import make as make_learning
from actorlearn.learning.peers import Peers
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.staleness import dropped_beyond, lags, open_rollouts
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters.interface import Agreed, PeerLost, Place, Stopped
from actorlearn.parameters.published import Published
from actorlearn.processes.batches import Batches, steps_in
from actorlearn.processes.checkpoints import Checkpoints
from actorlearn.processes.membership import Membership
from actorlearn.processes.publishing import Publisher, Totals
from actorlearn.processes.replay_batches import ReplayBatches
from actorlearn.processes.reports import Reports, elapsed_s
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

SKIPS_ALLOWED = 10
"""Batches in a row with non-finite updates after which the run is stopped rather than continued with old weights."""


@dataclass
class Trainer:
    """The loop: take a batch, learn from it as agreed with other learners, publish, count, open, report, save."""

    settings: TrainerSettings
    worker: Worker
    learning: Learning
    peers: Peers
    account: Account
    batches: Batches
    membership: Membership
    publisher: Publisher
    checkpoints: Checkpoints
    reports: Reports
    totals: Totals
    _unlearned: Batch | None = field(default=None, init=False)
    """A batch whose learning another learner's end broke off."""
    _known: Place = field(default=Place(), init=False)
    """The place up to which others have what was learned before this trainer's time; mostly nowhere."""
    _pulls: int = field(default=0, init=False)
    """Looks at what others have learned, while the next batch is gathered."""

    def run(self) -> None:
        """Learn until total_steps, a drain order or SIGTERM."""
        self._begin()
        draining = self._follow_orders()  # whose blocks lie here counts also where there is nothing left to learn
        while self.totals.env_steps < self.settings.total_steps and not draining and self.worker.alive():
            draining = self._follow_orders()
            joined = self._joined()
            batch = self._batch() if joined and not draining else None
            self.worker.timings.add("copy")
            if draining and not joined:
                break
            if batch is None and not draining:
                self.membership.wait()
                self.worker.timings.add("wait")
                continue
            try:
                draining = self._update(batch) if batch is not None else self._say_draining()
            except PeerLost:  # what was learned so far stays; the batch is learned with those who are left
                self.peers.part()
                self._unlearned = batch
            except Stopped:  # the rollout stays in flight: what was learned of it counts no steps
                draining = self.peers.leaving
                self.checkpoints.weights_changed()
                break
        self._finish(draining)

    def _update(self, batch: Batch) -> bool:
        """Learn from a batch and let all who wait go on; True where a learner drains instead, and nobody learns it."""
        prepared = self.learning.prepare(batch)
        self.worker.timings.add("learn")
        agreed = self._agree(batch, prepared)
        if agreed.draining:
            return True
        saving = self.checkpoints.due_by(agreed.env_steps)
        self._learn(batch, prepared)
        self._count(batch, agreed)
        self.worker.timings.add("learn")
        self._publish()
        if saving:
            self.checkpoints.gather()  # while simulators stand between two rollouts, if only one is open
        self.membership.open_next()
        hit("trainer.opened")
        self.worker.timings.add("publish")
        if self.reports.due:
            self.reports.send()
        if saving:
            self.checkpoints.save()
        return False

    # One update, step by step ------------------------------------------------------------------------------------

    def _batch(self) -> Batch | None:
        """Take the batch to learn from next; None while it is being gathered."""
        unlearned, self._unlearned = self._unlearned, None
        if unlearned is not None:
            return unlearned
        while (batch := self.batches.gather(self.publisher.version)) is not None:
            in_step = self.peers.in_step
            if self.batches.next < self._known.rollout and (in_step or self.settings.replay is None):
                self._count_known(steps_in(batch) + self.batches.stale)
            elif self.batches.stale and not steps_in(batch) and not in_step:
                self.batches.count()
                self.membership.open_next()
            else:
                return batch
        self.membership.unblock()
        self._pull()
        return None

    def _agree(self, batch: Batch, prepared: Batch) -> Agreed:
        """Say what this learner is about to do, and hear what all do; in mode sync it waits for all."""
        updates = self.learning.updates_from(prepared, self.totals.env_steps, self.account.counts.used)
        agreed = self.learning.exchange.agree(steps_in(batch), updates)
        self.worker.timings.add("wait")
        return agreed

    def _say_draining(self) -> bool:
        """Tell the other learners that this one leaves; True once nobody learns with it any more."""
        return self.learning.exchange.agree(0, 0, True).draining

    def _learn(self, batch: Batch, prepared: Batch) -> None:
        """Store the rollout, where rollouts are stored, and make the updates that are due."""
        hit("trainer.agreed")
        self.batches.keep()
        hit("trainer.kept")
        metrics = self.learning.pass_over(prepared, self.totals.env_steps, self.batches.next, self.peers.going_on)
        hit("trainer.learned")
        self.learning.exchange.settle()
        hit("trainer.settled")
        self.reports.learned(metrics, lags(batch, self.publisher.version))

    def _count(self, batch: Batch, agreed: Agreed) -> None:
        """Count what was learned, by this learner and by all; raise where it has come to nothing too often."""
        self.totals.env_steps, self.totals.updates = agreed.env_steps, agreed.updates
        self.account.counts.used += steps_in(batch)
        self.batches.count()
        if self.learning.finite:
            return
        self.worker.control.warned(f"update {self.totals.updates} skipped: {self.reports.skipped}")
        if self.learning.skipped > SKIPS_ALLOWED:
            raise FloatingPointError(
                f"non-finite updates from {self.learning.skipped} batches in a row at {self.totals.env_steps} steps; "
                "lower optimizer.learning_rate or set optimizer.clip_norm, and resume from the last checkpoint"
            )

    def _publish(self) -> None:
        if self.learning.algorithm_settings.epochs:
            self.publisher.publish()
        hit("trainer.published")

    # Other learners ------------------------------------------------------------------------------------------------

    def _joined(self) -> bool:
        """Whether all learners are joined; if some have come or gone, try."""
        if self.peers.joined:
            return True
        totals = self.peers.join(self.totals.env_steps, self.totals.updates)
        if totals is None:
            return False
        hit("trainer.joined")
        if place := self.learning.exchange.place():
            self._go_on_from(place)
        if totals != (self.totals.env_steps, self.totals.updates):
            self.totals.env_steps, self.totals.updates = totals
            self.publisher.publish()
        return True

    def _go_on_from(self, place: Place) -> None:
        """Go on where the weights say that this learner is, which an earlier incarnation of it may have left there.

        It has learned a rollout, at most, that it had not committed: that is taken once more, to be counted.
        """
        account, counts = self.account, self.account.counts
        if place.rollout > account.rollouts_learned and account.commits:
            self._known = place
            return
        counts.dropped["rolled_back"] += max(0, counts.used - place.used)  # more: of another's newer checkpoint
        counts.used, account.rollouts_learned = place.used, max(account.rollouts_learned, place.rollout)

    def _count_known(self, steps: int) -> None:
        """Count a rollout learned before this trainer's time; others may have traces of what is used no more."""
        counts, used = self.account.counts, self._known.used - self.account.counts.used
        self.batches.stale = steps - used if self.peers.in_step else 0
        counts.dropped["rolled_back"] += steps - used - self.batches.stale
        counts.used += used
        self.batches.keep()
        self.batches.count()
        self.membership.open_next()

    def _pull(self) -> None:
        """Act by what others have learned meanwhile, every so many rows."""
        if not self.settings.pull_rows:
            return
        pulls = self.batches.rows() // self.settings.pull_rows
        if pulls > self._pulls and self.learning.exchange.pull():
            self.publisher.publish()
        self._pulls = pulls

    # The begin, orders, the end --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take up what there is, say that this trainer is ready, and hear who has died."""
        self.checkpoints.begin()
        self.reports.begin()
        self.worker.hello()
        while not self.worker.control.order.version and self.worker.alive():
            self.membership.wait()

    def _follow_orders(self) -> bool:
        """Do what orders say that have come; True when this learner is to finish."""
        control = self.worker.control
        while control.ordered:
            order = control.order
            self.membership.follow(order)
            self.checkpoints.ordered(order.save)
            control.applied(order)
        return self.peers.leaving

    def _finish(self, draining: bool) -> None:
        if self.reports.pending:
            self.reports.send()
        if self.peers.in_step:  # nothing is left to bring home; and nobody is to wait while this one saves
            self.learning.exchange.close()
        else:
            with suppress(Stopped):
                self.learning.exchange.agree(0, 0, True)
        self.checkpoints.save_last()
        summary = {
            **self.reports.row(),
            "steps_in_flight": self.batches.in_flight(),
            "wall_time_s": elapsed_s(self.settings),
            "weights_sha256": self.learning.sha256(),
        }
        done = self.totals.env_steps >= self.settings.total_steps
        self.worker.control.finished("total_steps" if done else "drained" if draining else "stopped", summary)
        self.worker.control.close()


def make(settings: TrainerSettings) -> Trainer:
    """Make a trainer and all its parts; who is given whom is said here, and nowhere else."""
    worker = Worker(settings)
    account = Account(Segment.open(settings.account.file))
    learning = make_learning(settings, account, worker.alive)
    peers = Peers(settings, worker, learning)
    batches = make_batches(settings, learning, account)
    membership = Membership(settings, worker, batches)
    totals = Totals()
    publisher = Publisher(learning, Published(Segment.open(settings.weights.file)), batches, totals)
    return Trainer(
        settings=settings,
        worker=worker,
        learning=learning,
        peers=peers,
        account=account,
        batches=batches,
        membership=membership,
        publisher=publisher,
        checkpoints=Checkpoints(settings, worker.control, totals, learning, peers, batches, membership, publisher),
        reports=Reports(settings, worker.control, totals, account, batches.episodes, learning, peers),
        totals=totals,
    )


def make_batches(settings: TrainerSettings, learning: Learning, account: Account) -> Batches:
    """Make what gathers a learner's rollouts: into batches, or into its replay."""
    rollouts = Rollouts(Segment.open(settings.rollouts.file), settings.rollout_steps)
    algorithm = learning.algorithm_settings
    scales = isinstance(algorithm, OnPolicySettings) and algorithm.normalize_reward
    rewards = RewardScale(algorithm.discount) if scales else None
    blocks, most_lag, episodes = open_rollouts(settings.blocks, algorithm), dropped_beyond(algorithm), Episodes()
    if learning.replay is not None:
        return ReplayBatches(rollouts, account, blocks, settings.device, learning.replay, episodes, rewards, most_lag)
    return Batches(rollouts, account, blocks, settings.device, learning.columns, episodes, rewards, most_lag)


def run(settings: TrainerSettings) -> None:
    """Train to the end of the topology."""
    make(settings).run()
