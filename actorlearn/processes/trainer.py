"""Stage 4 of 5: the trainer, which makes an update from each rollout (``learning/update.py``).

Reads: a rollout that stage 3 has gathered (``processes/batches.py``).
Writes: a new version of the published weights for each rollout (``parameters/published.py``, stage 5), which stage 2
reads; checkpoints (``processes/checkpoints.py``); reports (``processes/counts.py``).
"""

from __future__ import annotations

from contextlib import suppress

from actorlearn.failpoints import hit
from actorlearn.learning.make import make as make_learning
from actorlearn.learning.minibatches import Gathered
from actorlearn.learning.replay import Replayed
from actorlearn.learning.reward_scale import RewardScale
from actorlearn.learning.update import Update
from actorlearn.memory.account import Account
from actorlearn.memory.rollout import Rollouts
from actorlearn.memory.shared import Segment
from actorlearn.metrics.episodes import Episodes
from actorlearn.parameters.experience import Experience
from actorlearn.parameters.interface import Stopped
from actorlearn.parameters.modes import mode_of
from actorlearn.parameters.published import Published
from actorlearn.processes.batches import Gatherer
from actorlearn.processes.checkpoints import Checkpoints, TrainerState
from actorlearn.processes.counts import Reports, TrainerCounts, elapsed_s
from actorlearn.processes.members import RolloutMembers, SimulatorLink
from actorlearn.processes.simulator_snapshots import SimulatorSnapshots
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

SKIPS_ALLOWED = 10
"""Largest number of consecutive rollouts with a skipped optimizer step, whose loss or gradient was not finite. After
more of them, the trainer fails."""


class Trainer:
    """The loop of a trainer: get a rollout, learn from it, publish weights, start the next rollout, report, save."""

    def __init__(self, settings: TrainerSettings) -> None:
        self.settings = settings
        self.worker = worker = Worker(settings)
        account, episodes = Account(Segment.open(settings.account.file)), Episodes()
        self.learning = learning = make_learning(settings, worker)
        self.peers = learning.peers
        algorithm = learning.algorithm_settings
        rollouts = Rollouts(Segment.open(settings.rollouts.file), settings.rollout_steps)
        self.members = RolloutMembers(rollouts, account, episodes, algorithm.open_rollouts(settings.blocks))
        self.link = SimulatorLink(settings, worker, self.members)
        self.rewards = RewardScale(algorithm.discount) if algorithm.scales_reward else None
        replayed = learning.minibatches if isinstance(learning.minibatches, Replayed) else None
        self.gatherer = Gatherer(
            rollouts,
            settings.device,
            learning.columns if replayed is None else (),
            rewards=self.rewards,
            most_lag=algorithm.lag_limit,
            replayed=replayed,
        )
        shared = settings.experience
        self.experience = Experience(shared, settings.learner, settings.seed, self.peers.present) if shared else None
        """Rollouts that learners share with each other (``gossip.experience``); None if they share none."""
        self.published = Published.open(settings.weights)
        self.counts = TrainerCounts(account, episodes)
        state = TrainerState(learning, self.counts, self.members, self.published, self.rewards)
        snapshots = SimulatorSnapshots(settings.states, self.members, self.link.wake_all, self.link.wait_following)
        self.checkpoints = Checkpoints(settings, worker.control, state, snapshots)
        self.reports = Reports(settings, worker.control, self.counts, self.members.in_flight, learning.collected)
        self._end_steps = settings.end_steps
        self._draining = False
        """Whether this learner has to finish its work and leave."""
        self._joined = False
        """Whether this learner exchanges with all present learners, so that it can learn."""
        self._version = -1
        """Newest published version of the weights."""
        self._broken_off: Gathered | None = None
        """The rollout whose update was broken off because another learner was lost; its update is continued next."""
        self._pulls = 0
        """Number of times that other learners' weights were fetched while the present rollout is played."""

    def run(self) -> None:
        """Learn until the run's last step, until the supervisor tells this learner to finish, or until SIGTERM."""
        self._begin()
        self._follow_orders()  # opens blocks, whose steps are counted even if nothing is left to learn
        self.reports.begin()
        if self._draining and mode_of(self.settings.exchange).central:
            self._join_to_save()
        while self.counts.env_steps < self._end_steps and not self._draining and self.worker.poll():
            draining = self._follow_orders()
            joined = self._joined or self._join_learners()
            if draining:
                if joined and self.peers.in_step:  # in other modes, `_finish` tells the others
                    self.learning.leave(self.counts.position)
                break
            gathered = self._next_rollout() if joined else None
            self.worker.timings.add("copy")
            if gathered is None:
                self.link.wait()
                self.worker.timings.add("wait")
                self.reports.send_waiting(self.members.progress)
            elif self._is_over() or not self._learn(gathered):
                break
        self._finish()

    # One rollout ---------------------------------------------------------------------------------------------------

    def _next_rollout(self) -> Gathered | None:
        """Return the rollout to learn from next; None while it is incomplete."""
        broken_off, self._broken_off = self._broken_off, None
        if broken_off is not None:
            if not self._skips(broken_off):
                return broken_off
            self.link.open_next()
        while (parts := self.link.parts()) is not None:
            rollout, lacking = self.counts.account.rollouts_learned, self.learning.lacks_statistics
            gathered = self.gatherer.gather(rollout, parts, self._version, lacking)
            if not self._skips(gathered):
                return gathered
            self.link.open_next()
        self._pull()
        return None

    def _is_over(self) -> bool:
        """Whether all learners together have learned from all steps of the run, by the newest counts."""
        learned = self.peers.exchange.learned(self._end_steps)
        if learned >= self._end_steps:
            self.counts.env_steps = max(self.counts.env_steps, learned)
        return self.counts.env_steps >= self._end_steps

    def _learn(self, gathered: Gathered) -> bool:
        """Make an update from a rollout, publish, start the next rollout; returns False if this process must end."""
        if self.experience is not None:
            gathered = self._share(self.experience, gathered)
        env_steps = self.counts.env_steps
        exchange = self.peers.exchange
        exchange.saving, exchange.saves = self.checkpoints.due, self.worker.control.order.save
        update = self.learning.update(gathered, self.counts.position, env_steps)
        if update.outcome != "learned":
            return self._unlearned(gathered, update)
        self._count(gathered, update)
        self.worker.timings.add("learn")
        if self.learning.learns:
            self._publish()
        hit("trainer.published")
        saving = self._is_save_due(env_steps)
        if saving:
            self.checkpoints.take_snapshots()  # if only one rollout is open, simulators are between two rollouts now
        self.link.open_next()
        hit("trainer.opened")
        self.worker.timings.add("publish")
        if self.reports.due:
            self._report()
        if saving:
            self.checkpoints.save(exchange.saves)
        return True

    def _unlearned(self, gathered: Gathered, update: Update) -> bool:
        """Handle an update that was not completed; returns False if this process must end."""
        if update.outcome == "lost":
            self._broken_off, self._joined = gathered, False
            return True
        self._draining = update.outcome == "leaving" or self.peers.leaving
        if update.outcome == "stopped":
            self.checkpoints.note_weights_changed()
        return False

    def _count(self, gathered: Gathered, update: Update) -> None:
        """Count a learned rollout, and warn if one of its optimizer steps was skipped.

        Raises FloatingPointError after more than SKIPS_ALLOWED such rollouts in a row.
        """
        self.reports.note_learned(update.metrics, gathered.lags)
        self.counts.count_learned(gathered, update)
        self._note_returns(gathered)
        if self.learning.finite:
            return
        loss, norm = update.metrics["loss"], update.metrics["gradient_norm"]
        self.worker.control.warned(
            f"update {self.counts.updates} was skipped because it is not finite: loss {loss}, gradient norm {norm}"
        )
        if self.learning.skipped > SKIPS_ALLOWED:
            raise FloatingPointError(
                f"non-finite updates from {self.learning.skipped} rollouts in a row at {self.counts.env_steps} steps; "
                "lower optimizer.learning_rate or set optimizer.clip_norm, and resume from the last checkpoint"
            )

    def _skips(self, gathered: Gathered) -> bool:
        """Count a rollout without learning from it, and return True, if one of two conditions holds; else return False.

        The trainer has learned from it before a restart, or the weights that chose all its actions are too old.
        """
        minibatches, peers = self.learning.minibatches, self.peers
        if gathered.rollout < self.counts.learned_before.rollout and (minibatches.replay is None or peers.in_step):
            minibatches.store(gathered.rollout, gathered.parts)
            self.counts.count_learned_before(gathered, peers.in_step, self.learning.normalizes)
        elif gathered.stale and not len(gathered.lags) and not peers.in_step:
            self.counts.finish_rollout(gathered)
        else:
            return False
        self._note_returns(gathered)
        return True

    def _note_returns(self, gathered: Gathered) -> None:
        """Update the reward scale after a rollout that is counted."""
        if self.rewards is not None and gathered.returns is not None:
            self.rewards.note_learned(gathered.returns)

    def _publish(self) -> None:
        """Publish the weights, with which simulators play the rollouts that are opened from now on."""
        self._version = self.learning.publish(self.published, self.counts.env_steps)
        self.members.rollouts.published(self._version, self.counts.env_steps, self.counts.account.rollouts_learned)

    def _is_save_due(self, env_steps: int) -> bool:
        """Whether a checkpoint has become due since all learners had learned from ``env_steps`` environment steps.

        Checkpoints are due at multiples of ``checkpoint_every_steps``, by time, and for a new best score. In mode sync,
        the learners exchange with each update whether one is due by time, for a score or on request, so that all save
        at the same steps.
        """
        every = self.settings.checkpoint_every_steps
        return self.peers.exchange.saving or self.counts.env_steps // every > env_steps // every

    def _report(self) -> None:
        """Send a report; the first learner also warns if one learner is much slower than the others."""
        metrics = self.learning.metrics() | (self.experience.metrics() if self.experience else {})
        if self.settings.learner == 0:
            warning = self.peers.straggler(metrics, self.reports.seconds)
            if warning:
                self.worker.control.warned(warning)
        self.reports.send(metrics)

    # Other learners ------------------------------------------------------------------------------------------------

    def _join_learners(self) -> bool:
        """Join the other learners, and continue from their weights; returns False if that is not possible yet."""
        joined = self.peers.join(self.counts.env_steps, self.counts.updates, self.counts.position)
        if joined is None:
            return False
        self._joined = self.peers.joined
        hit("trainer.joined")
        if joined.position:
            used = self.counts.account.steps.used
            self.counts.continue_from(joined.position)
            if self.counts.account.steps.used < used:  # steps were lost, and a rate since before would be negative
                self.reports.begin()
        if (joined.env_steps, joined.updates) != (self.counts.env_steps, self.counts.updates):
            self.counts.env_steps, self.counts.updates = joined.env_steps, joined.updates
            self._publish()
        return True

    def _join_to_save(self) -> None:
        """Join the other learners only to save the shared weights of mode async when the run ends.

        This is needed if every trainer has died before it could save them.
        """
        while self.worker.poll() and not self._join_learners():
            self.link.wait()
            self._follow_orders()

    def _share(self, experience: Experience, gathered: Gathered) -> Gathered:
        """Send time steps of a rollout to other learners, and return the rollout joined with their newest ones."""
        experience.post(gathered.rollout, gathered.parts, self._version)
        others = experience.take()
        self.worker.timings.add("copy")
        return self.gatherer.share(gathered, others)

    def _pull(self) -> None:
        """Fetch and publish other learners' weights every ``pull_rows`` time steps of the present rollout."""
        if not self.settings.pull_rows:
            return
        pulls = self.members.rows() // self.settings.pull_rows
        with suppress(Stopped):  # raised if this process is told to end while it waits for a parameter server
            if pulls > self._pulls and self.peers.exchange.pull():
                self._publish()
        self._pulls = pulls

    # Begin, orders, end ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Restore a checkpoint, or save the first one; report to the supervisor, and wait for its first message."""
        published = self.settings.resume and self.checkpoints.restore()
        if not published:
            self._publish()
        self._version = self.published.version
        if not self.settings.resume:
            self.checkpoints.save_now()
        self.worker.hello()
        while not self.worker.control.order.version and self.worker.poll():
            self.link.wait()

    def _follow_orders(self) -> bool:
        """Do what the supervisor has requested; returns whether this learner has to finish."""
        control = self.worker.control
        while control.ordered:
            order = control.order
            self.link.follow(order)
            self.checkpoints.keep_best(order.best_steps)
            self.checkpoints.save_as_ordered(order.save)
            control.applied(order)
            self._draining, self._joined = self.peers.leaving, self.peers.joined
        return self._draining

    def _finish(self) -> None:
        if self.reports.pending:
            self._report()
        if self.peers.in_step:  # there are no local steps to merge, and others must not wait for the save below
            self.peers.leave()
        else:
            self._leave()
        if self.experience is not None:
            self.experience.close()
        self.checkpoints.save_last()
        self.counts.account.commit()  # a restarted trainer may have rolled back steps without learning again
        summary = {
            **self.reports.row(),
            "steps_in_flight": self.members.in_flight(),
            "wall_time_s": elapsed_s(self.settings),
            "weights_sha256": self.learning.sha256(),
        }
        done = self.counts.env_steps >= self._end_steps
        self.worker.control.finished("total_steps" if done else "drained" if self._draining else "stopped", summary)
        self.worker.control.close()

    def _leave(self) -> None:
        """Leave the other learners, and count what they have learned since this learner's newest update began.

        The last checkpoint of the run then counts the updates that several learners have made at the same time.
        """
        agreed = self.learning.leave(self.counts.position)
        if agreed is None or not self._joined or not mode_of(self.settings.exchange).own_weights:
            return  # nothing is known of what others have learned, or these weights do not contain it
        # A mode of another package may return the counts of this learner only.
        newest = max(agreed.env_steps, self.counts.env_steps), max(agreed.updates, self.counts.updates)
        if newest != (self.counts.env_steps, self.counts.updates):
            self.counts.env_steps, self.counts.updates = newest
            self._publish()


def run(settings: TrainerSettings) -> None:
    """Run a trainer to its end."""
    Trainer(settings).run()
