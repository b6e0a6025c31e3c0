"""Stage 4 of 5: makes an update of each rollout (``learning/update.py`` says how), and publishes the weights.

Reads: a rollout, ``Gathered`` by stage 3.
Writes: a published version per rollout; checkpoints (``processes/checkpoints.py``); reports (``processes/reports.py``).
Next: ``parameters/published.py``, which stage 2 polls.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from actorlearn.algorithms.interface import Batch
from actorlearn.failpoints import hit
from actorlearn.learning.make import make as make_learning
from actorlearn.learning.peers import Peers
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.staleness import lag_limit, lags, open_rollouts
from actorlearn.learning.update import Learning
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters.interface import Agreed, PeerLost, Position, Stopped
from actorlearn.parameters.published import WeightSink, open_publisher
from actorlearn.processes.batches import Gathered, Gatherer, steps_in
from actorlearn.processes.checkpoints import Checkpoints
from actorlearn.processes.counts import TrainerCounts
from actorlearn.processes.experience import Experience
from actorlearn.processes.members import RolloutMembers
from actorlearn.processes.replay_storage import ReplayStorage
from actorlearn.processes.reports import Reports, elapsed_s
from actorlearn.processes.simulator_link import SimulatorLink
from actorlearn.processes.simulator_snapshots import SimulatorSnapshots
from actorlearn.processes.state import TrainerState
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

SKIPS_ALLOWED = 10
"""Rollouts in a row with a non-finite optimizer step after which the run ends rather than go on with old weights."""


@dataclass
class Trainer:
    """The loop: gather a rollout, learn from it as agreed with other learners, publish, open the next, report, save."""

    settings: TrainerSettings
    worker: Worker
    learning: Learning
    peers: Peers
    members: RolloutMembers
    link: SimulatorLink
    gatherer: Gatherer
    storage: ReplayStorage | None
    """Storage of rollouts before they are learned from, for algorithms that learn from a replay."""
    experience: Experience | None
    """Experience shared with other learners, where it is."""
    rewards: RewardScale | None
    published: WeightSink
    counts: TrainerCounts
    checkpoints: Checkpoints
    reports: Reports
    _unlearned: Gathered | None = field(default=None, init=False)
    """A rollout whose learning another learner's end broke off."""
    _known: Position = field(default=Position(), init=False)
    """Position up to which other learners have the weights of an earlier incarnation; mostly the beginning."""
    _pulls: int = field(default=0, init=False)
    """Number of pulls of other learners' changes while the next rollout is being played."""

    def run(self) -> None:
        """Learn until the run's last step, a drain order or SIGTERM."""
        self._begin()
        draining = self._follow_orders()  # whose blocks lie here counts also where there is nothing left to learn
        while self.counts.env_steps < self.settings.end_steps and not draining and self.worker.alive():
            draining = self._follow_orders()
            joined = self._join_learners()
            gathered = self._next_rollout() if joined and not draining else None
            self.worker.timings.add("copy")
            if draining and not joined:
                break
            if gathered is None and not draining:
                self.link.wait()
                self.worker.timings.add("wait")
                continue
            try:
                draining = self._update(gathered) if gathered is not None else self._say_draining()
            except PeerLost:  # steps of all learners stay; the rollout is continued with the remaining ones
                self.learning.exchange.break_off()
                self.peers.part()
                self._unlearned = gathered
            except Stopped:  # the rollout stays in flight: what was learned of it counts no steps
                draining = self.peers.leaving
                self.learning.exchange.break_off()
                self.checkpoints.note_weights_changed()
                break
        self._finish(draining)

    def _update(self, gathered: Gathered) -> bool:
        """Learn from a rollout and wake waiting simulators; True where a learner drains instead, and none learns."""
        prepared = self.learning.prepare(self._with_others(gathered))
        self.worker.timings.add("learn")
        agreed = self._agree(gathered, prepared)
        if agreed.draining:
            return True
        saving = self._saves_at(agreed.env_steps)
        self._learn(gathered, prepared)
        self._count(gathered, agreed)
        self.worker.timings.add("learn")
        if self.learning.learns:
            self._publish()
        hit("trainer.published")
        if saving:
            self.checkpoints.take_snapshots()  # while simulators stand between two rollouts, if only one is open
        self.link.open_next()
        hit("trainer.opened")
        self.worker.timings.add("publish")
        if self.reports.due:
            self._report()
        if saving:
            self.checkpoints.save()
        return False

    # One update, step by step ------------------------------------------------------------------------------------

    def _next_rollout(self) -> Gathered | None:
        """Return the rollout to learn from next; None while it is being played."""
        unlearned, self._unlearned = self._unlearned, None
        if unlearned is not None:
            return unlearned
        while (parts := self.members.parts()) is not None:
            lacking = self.learning.lacks_statistics
            gathered = self.gatherer.gather(self.members.next, parts, self.published.version, lacking)
            in_step = self.peers.in_step
            if gathered.rollout < self._known.rollout and (in_step or self.settings.replay is None):
                self._count_known(gathered)
            elif gathered.stale and not gathered.steps and not in_step:
                self._finish_rollout(gathered)
                self.link.open_next()
            else:
                return gathered
        self.link.unblock()
        self._pull()
        return None

    def _with_others(self, gathered: Gathered) -> Batch:
        """Return a rollout's batch, and beside it what other learners have played, where experience is shared."""
        if self.experience is None:
            return gathered.batch
        self.experience.post(gathered.rollout, gathered.parts, self.published.version)
        others = self.experience.take()
        self.worker.timings.add("copy")
        return self.gatherer.gather_beside(gathered, others) if others else gathered.batch

    def _agree(self, gathered: Gathered, prepared: Batch) -> Agreed:
        """Announce this learner's batch, and return the learners' agreement; in mode sync it waits for all."""
        steps = self.learning.optimizer_steps_from(
            prepared, self.counts.env_steps, self.counts.account.steps.used, gathered.only_statistics
        )
        agreed = self.learning.exchange.agree(gathered.steps, steps)
        self.worker.timings.add("wait")
        return agreed

    def _saves_at(self, env_steps: int) -> bool:
        """Whether a checkpoint is due when all learners have learned from so many steps.

        At whole multiples, so that learners in step save at the same steps, whatever each has saved before.
        """
        every = self.settings.checkpoint_every_steps
        return env_steps // every > self.counts.env_steps // every

    def _say_draining(self) -> bool:
        """Announce to the other learners that this one leaves; True when all of them have left."""
        return self.learning.exchange.agree(0, 0, True).draining

    def _learn(self, gathered: Gathered, prepared: Batch) -> None:
        """Store the rollout, where rollouts are stored, and take the optimizer steps that are due."""
        hit("trainer.agreed")
        if self.storage is not None:
            self.storage.store(gathered.rollout, gathered.parts)
        hit("trainer.kept")
        self.learning.diagnosis.note_rollout(gathered.batch)
        metrics = self.learning.pass_over(
            prepared, self.counts.env_steps, gathered.rollout, self.peers.going_on, gathered.only_statistics
        )
        hit("trainer.learned")
        self.learning.exchange.settle()
        hit("trainer.settled")
        self.reports.note_learned(metrics, lags(gathered.batch))

    def _count(self, gathered: Gathered, agreed: Agreed) -> None:
        """Count the learned steps of this learner and of all; raises after too many skipped updates in a row."""
        self.counts.count_learned(agreed, gathered.steps)
        self._finish_rollout(gathered)
        if self.learning.finite:
            return
        self.worker.control.warned(f"update {self.counts.updates} skipped: {self.reports.skipped}")
        if self.learning.skipped > SKIPS_ALLOWED:
            raise FloatingPointError(
                f"non-finite updates from {self.learning.skipped} batches in a row at {self.counts.env_steps} steps; "
                "lower optimizer.learning_rate or set optimizer.clip_norm, and resume from the last checkpoint"
            )

    def _finish_rollout(self, gathered: Gathered) -> None:
        """Count a rollout that is over, learned from or not: the next one follows."""
        self.counts.finish_rollout(gathered)
        if self.rewards is not None and gathered.returns is not None:
            self.rewards.note_learned(gathered.returns)

    def _publish(self) -> None:
        """Publish the weights as they are; rollouts that are opened from now on are played by this version."""
        version = self.learning.publish(self.published, self.counts.env_steps)
        self.members.rollouts.published(version, self.counts.env_steps, self.members.next)

    def _report(self) -> None:
        """Report the time since the last report, and warn of a learner that the others wait for."""
        metrics = self.learning.metrics() | (self.experience.metrics() if self.experience else {})
        if self.settings.learner == 0 and (warning := self.peers.straggler(metrics, self.reports.seconds)):
            self.worker.control.warned(warning)
        self.reports.send(metrics)

    # Other learners ------------------------------------------------------------------------------------------------

    def _join_learners(self) -> bool:
        """Return True where this learner is joined with all others; if some have come or gone, try to join them."""
        if self.peers.joined:
            return True
        joined = self.peers.join(self.counts.env_steps, self.counts.updates)
        if joined is None:
            return False
        hit("trainer.joined")
        if joined.position:
            self._go_on_from(joined.position)
        if (joined.env_steps, joined.updates) != (self.counts.env_steps, self.counts.updates):
            self.counts.env_steps, self.counts.updates = joined.env_steps, joined.updates
            self._publish()
        return True

    def _go_on_from(self, position: Position) -> None:
        """Go on where the weights say that this learner is, which an earlier incarnation of it may have left there.

        It has learned a rollout, at most, that it had not committed: that is taken once more, to be counted.
        """
        account = self.counts.account
        if position.rollout > account.rollouts_learned and account.commits:
            self._known = position
            return
        account.steps.dropped["rolled_back"] += max(0, account.steps.used - position.used)  # of another's newer one
        account.steps.used = position.used
        account.rollouts_learned = max(account.rollouts_learned, position.rollout)

    def _count_known(self, gathered: Gathered) -> None:
        """Count a rollout that an earlier incarnation learned; other learners may have mixed its weights."""
        steps = self.counts.account.steps
        played, used = steps_in(gathered.batch) + gathered.stale, self._known.used - steps.used
        left_out = played - used if self.peers.in_step else 0
        only_statistics = self.learning.normalizes and not self._known.used
        steps.dropped["rolled_back"] += played - used - left_out
        steps.dropped["statistics" if only_statistics else "stale"] += left_out
        steps.used += used
        if self.storage is not None:
            self.storage.store(gathered.rollout, gathered.parts)
        self._finish_rollout(replace(gathered, stale=0, only_statistics=False))
        self.link.open_next()

    def _pull(self) -> None:
        """Take and publish other learners' changes, every ``pull_rows`` rows of the rollout that is being played."""
        if not self.settings.pull_rows:
            return
        pulls = self.members.rows() // self.settings.pull_rows
        if pulls > self._pulls and self.learning.exchange.pull():
            self._publish()
        self._pulls = pulls

    # The begin, orders, the end --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Restore a checkpoint, or save the first; report this trainer as ready, and read the first orders."""
        acting = self.settings.resume and self.checkpoints.take_up()
        if not acting:
            self._publish()
        if not self.settings.resume:
            self.checkpoints.save_now()
        self.reports.begin()
        self.worker.hello()
        while not self.worker.control.order.version and self.worker.alive():
            self.link.wait()

    def _follow_orders(self) -> bool:
        """Carry out the orders that have come; True when this learner is to finish."""
        control = self.worker.control
        while control.ordered:
            order = control.order
            self.link.follow(order)
            self.checkpoints.save_as_ordered(order.save)
            control.applied(order)
        return self.peers.leaving

    def _finish(self, draining: bool) -> None:
        if self.reports.pending:
            self._report()
        if self.peers.in_step:  # no local steps are left to merge, and others must not wait for the save
            self.learning.exchange.close()
        else:
            with suppress(Stopped):
                self.learning.exchange.agree(0, 0, True)
        if self.experience is not None:
            self.experience.close()
        self.checkpoints.save_last()
        self.counts.account.commit()  # a trainer that was restarted after the last update has rolled steps back
        summary = {
            **self.reports.row(),
            "steps_in_flight": self.members.in_flight(),
            "wall_time_s": elapsed_s(self.settings),
            "weights_sha256": self.learning.sha256(),
        }
        done = self.counts.env_steps >= self.settings.end_steps
        self.worker.control.finished("total_steps" if done else "drained" if draining else "stopped", summary)
        self.worker.control.close()


def make(settings: TrainerSettings) -> Trainer:
    """Make a trainer and all its parts, and connect them; the only place that does."""
    worker = Worker(settings)
    account, episodes = Account(Segment.open(settings.account.file)), Episodes()
    learning = make_learning(settings, account, worker.alive)
    peers = Peers(settings, worker, learning)
    algorithm = learning.algorithm_settings
    rollouts = Rollouts(Segment.open(settings.rollouts.file), settings.rollout_steps)
    members = RolloutMembers(rollouts, account, episodes, open_rollouts(settings.blocks, algorithm))
    link = SimulatorLink(settings, worker, members)
    rewards = RewardScale(algorithm.discount) if algorithm.scales_reward else None
    replay = learning.minibatches.replay
    storage = ReplayStorage(replay) if replay is not None else None
    columns, most_lag = learning.columns if storage is None else (), lag_limit(algorithm)
    counts = TrainerCounts(account, episodes)
    published, shared = open_publisher(settings.weights), settings.experience
    state = TrainerState(learning, counts, members, published, rewards)
    snapshots = SimulatorSnapshots(settings.states, members, link.wake_all, link.wait_following)
    return Trainer(
        settings=settings,
        worker=worker,
        learning=learning,
        peers=peers,
        members=members,
        link=link,
        gatherer=Gatherer(rollouts, settings.device, columns, rewards=rewards, most_lag=most_lag, storage=storage),
        storage=storage,
        experience=Experience(shared, settings.learner, settings.seed, peers.present) if shared else None,
        rewards=rewards,
        published=published,
        counts=counts,
        checkpoints=Checkpoints(settings, worker.control, state, snapshots),
        reports=Reports(settings, worker.control, counts),
    )


def run(settings: TrainerSettings) -> None:
    """Train to the end of the topology."""
    make(settings).run()
