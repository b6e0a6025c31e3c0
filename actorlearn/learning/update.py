"""One update: learns from a rollout (`Gathered`) in one or more optimizer steps.

Each step consists of a forward pass, a loss, a backward pass, and a call of the exchange. The exchange combines the
gradient with those of other learners, if there are any, and changes the weights (``parameters/interface.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import PRIORITY, Algorithm, Batch
from actorlearn.algorithms.ratios import DIVERGENCE, SAMPLE_SIZE
from actorlearn.algorithms.state import DeclaredState
from actorlearn.failpoints import hit
from actorlearn.learning.diagnosis import Diagnosis
from actorlearn.learning.losses import CapturedLoss
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.minibatches import Gathered, Minibatch, Minibatches
from actorlearn.learning.norms import Norms
from actorlearn.metrics.registry import OWN_RATE, STATISTICS_MADE, STATISTICS_NEEDED
from actorlearn.metrics.timings import Timings
from actorlearn.models.masked import without_mask
from actorlearn.models.normalize import merge_into, moments_of, normalized_in
from actorlearn.models.several import spans
from actorlearn.models.specs import rows_before_learning
from actorlearn.optim.groups import make_groups
from actorlearn.optim.outer import Outer
from actorlearn.optim.schedules import rate_after, scale_rate
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Agreed, Exchange, Learner, PeerLost, Stepped, Stopped
from actorlearn.parameters.peers import Peers
from actorlearn.parameters.published import Published
from actorlearn.wire.control import Control
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker


class Update(NamedTuple):
    """Result of one update, that is, of learning from one rollout."""

    outcome: Literal["learned", "leaving", "lost", "stopped"]
    """Result of the update for the rollout:

    =======  ==========================================================================================================
    learned  the rollout was learned from
    leaving  a learner is leaving the run, and the rollout was not learned from
    lost     another learner has died or hangs; the update has to be continued with the remaining learners
    stopped  this process was told to end; the steps of the rollout are not counted as used
    =======  ==========================================================================================================
    """
    env_steps: int = 0
    """Number of environment steps that all learners together have learned from."""
    updates: int = 0
    """Number of updates that all learners together have made."""
    skipped_steps: int = 0
    """Number of this learner's environment steps in the rollout for which every optimizer step was skipped, because its
    loss or gradient was not finite."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """Metrics of the newest optimizer step, or of the first skipped one."""


class Computed(NamedTuple):
    """Loss and metrics of one minibatch. The gradient is in `Learning.gradients`."""

    loss: Tensor
    metrics: Mapping[str, Tensor]
    proposed: Tensor
    """State of the algorithm (`KeepsState`) after the optimizer step, as one flat vector."""


class Early(NamedTuple):
    """Moments or gradient that are computed before the learners agree on an update, and sent with the agreement.

    This saves a message exchange in each update.
    """

    moments: Tensor | None = None
    """Number, mean and variance of the rollout's observations, as one vector."""
    first: Computed | None = None
    """Results for the first minibatch."""


NOTHING = Early()
"""For an update in which everything is computed after the agreement."""


class Learning:
    """The learning part of a trainer: the network, its minibatches, the loss, and the exchange with other learners."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        network: FlatNetwork,
        minibatches: Minibatches,
        optimizer: OptimizerSettings,
        worker: Worker | None = None,
    ) -> None:
        """Connect these parts; ``learning/make.py`` makes them from settings.

        ``optimizer`` has the optimizer's settings, scaled to the size of the minibatches. ``worker`` is this process,
        which receives the list of the other learners; with None it learns alone.
        """
        self.settings, self.algorithm, self.network = settings, algorithm, network
        self.algorithm_settings = settings.policy.algorithm
        self.learns = self.algorithm_settings.epochs > 0
        """Whether the weights change. With ``algorithm.epochs: 0`` rollouts are played, and nothing is learned."""
        self.minibatches, self._number = minibatches, settings.learner
        self.state = DeclaredState(algorithm, settings.device)
        """State of the algorithm besides weights (`KeepsState`). A loss computes its next value, which replaces it if
        the optimizer step is taken."""
        control = worker.control if worker else Control(None, settings.id, settings.run_id)
        warn = control.warned if settings.cuda_graphs and not settings.compile else None
        self.losses = make_losses(algorithm, network, minibatches.target, settings.device, settings.precision, warn)
        self.weights, self.gradients, self.parameters = network.weights, network.gradients, network.parameters
        self.norms = Norms(network.module, self.parameters, self.gradients) if settings.norms else None
        self.diagnosis = Diagnosis(network, settings.policy.actions, settings.policy.action_mask)
        self.optimizer_settings = optimizer
        networks = spans(network.module)
        self.groups = make_groups(optimizer, networks, len(self.parameters))
        self.own_rates = {name for name, own in optimizer.groups.items() if own.learning_rate is not None}
        """Names of the networks with their own learning rates, which are reported as metrics."""
        self.consumed = Consumed(max(settings.learners, settings.learner + 1))
        self.outer = Outer(settings.outer, self.parameters) if settings.outer.rule != "none" else None
        learner = Learner(
            optimizer,
            self.weights,
            self.gradients,
            number=settings.learner,
            consumed=self.consumed,
            spread=network.pool.spread,
            carried=minibatches,
            state=self.state.vector if self.state.tensors else None,
            networks=networks,
            outer=self.outer,
        )
        self.beat: Callable[[], bool] = worker.poll if worker else lambda: True
        """Called during long operations, to show the supervisor that this process is alive."""
        self._timings = worker.timings if worker else Timings()
        self.peers = Peers(settings.exchange, learner, control, self.beat)
        self.going_on: Callable[[], bool] = partial(self.peers.going_on, minibatches.finish_s)
        """Returns False if an update must end between two optimizer steps, because this learner was told to leave and
        ``Minibatches.finish_s`` seconds have passed."""
        self.finite = True
        """Whether all optimizer steps of the newest update were finite."""
        self.skipped = 0
        """Number of consecutive rollouts with an optimizer step that was skipped because it was not finite."""
        self._newest: dict[str, float] = {}
        """Metrics of the newest optimizer step; if a step of the update was skipped, of the first skipped one."""
        self._unread: Callable[[], dict[str, float]] | None = None
        """Computes these metrics, if they have not been read since the step. Reading them waits for a GPU."""
        self._minibatch: Batch | None = None
        """The newest minibatch of which `metrics` has not reported yet."""
        self._normalized = normalized_in(network.module)
        self.normalizes = self.learns and self._normalized is not None
        """Whether observations are normalised by statistics that this learner collects."""
        self._rows_needed = rows_before_learning(settings.policy.model, settings.total_steps)
        """Number of observations that the statistics must have before learning begins."""
        self._opened_before = 0
        """Number of coming rollouts that simulators may have begun when the statistics had too few observations."""

    @property
    def exchange(self) -> Exchange:
        """The exchange that turns gradients into new weights."""
        return self.peers.exchange

    @property
    def lacks_statistics(self) -> bool:
        """Whether the next rollout only updates the observation statistics, because it was played with too few of them.

        Learners in mode sync have the same statistics, so they all begin to learn with the same update.
        """
        return self.normalizes and (self._opened_before > 0 or not self._has_statistics())

    def _has_statistics(self) -> bool:
        """Whether the observation statistics include enough observations to learn.

        If the weights have learned, one is enough: the run was resumed with another number of observations needed.
        """
        if self._normalized is None:
            return False
        needed = min(1, self._rows_needed) if self.consumed.learned else self._rows_needed
        return float(self._normalized.number) >= needed

    def collected(self) -> dict[str, int]:
        """Return how many observations the statistics include and need, as metrics; {} if they include enough."""
        if self._normalized is None or not self.lacks_statistics:
            return {}
        made = min(int(self._normalized.number), self._rows_needed)
        return {STATISTICS_MADE: made, STATISTICS_NEEDED: self._rows_needed}

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the algorithm needs in a batch, besides those that all batches have."""
        own = self.algorithm.columns(self.settings.policy.actions)
        return [*own, *(["state"] if self.network.state_size else [])]

    # One update ----------------------------------------------------------------------------------------------------

    def update(self, gathered: Gathered, position: Position, env_steps: int) -> Update:
        """Make an update from the gathered rollout, when the other learners agree.

        ``position`` has the number of the rollout, and this learner's environment steps before it. ``env_steps`` is the
        number of environment steps that all learners have learned from before.
        """
        try:
            return self._update(gathered, position, env_steps)
        except PeerLost:  # optimizer steps that all learners completed stay; the others continue the update later
            self.exchange.break_off()
            self.peers.part()
            return Update("lost")
        except Stopped:
            self.exchange.break_off()
            return Update("stopped")

    def _update(self, gathered: Gathered, position: Position, env_steps: int) -> Update:
        prepared = self.minibatches.prepare(gathered.batch if gathered.shared is None else gathered.shared)
        steps = 0 if gathered.only_statistics else self.due(prepared, env_steps, position)
        early = self._compute_early(prepared, env_steps, position, steps) if self.exchange.early else NOTHING
        self._timings.add("learn")
        agreed = self.exchange.agree(gathered.steps, steps, position)
        self._timings.add("wait")
        if agreed.draining:
            return Update("leaving")
        hit("update.agreed")
        self.minibatches.store(gathered.rollout, gathered.parts)
        hit("update.stored")
        self.diagnosis.note_rollout(gathered.batch)
        metrics = self.pass_over(prepared, env_steps, position, steps, agreed.idle, early)
        hit("update.learned")
        self.exchange.settle()
        hit("update.settled")
        skipped = min(self.minibatches.skipped_steps(prepared, gathered), gathered.steps) if steps else 0
        return Update("learned", agreed.env_steps, agreed.updates, skipped, metrics)

    def _compute_early(self, prepared: Batch, env_steps: int, position: Position, steps: int) -> Early:
        """Compute what the exchange sends first: the moments of observations or, without them, the first gradient.

        With a replay there is no gradient yet, because minibatches are drawn only after the agreement.
        """
        if self.normalizes:
            early = Early(moments=self._moments(prepared))
            self.exchange.bring(moments=early.moments)
            return early
        if not steps or self.minibatches.replay is not None:
            return NOTHING
        first = self._compute(next(self.minibatches.draw(prepared, position.rollout, steps, env_steps)), env_steps)
        if not isfinite(first.loss.item()):
            self.gradients.fill_(torch.nan)
        self.exchange.bring(gradients=self.gradients)
        return Early(first=first)

    def due(self, prepared: Batch, env_steps: int, position: Position) -> int:
        """Return how many optimizer steps remain for a prepared batch; arguments as for `update`."""
        done = self.consumed.done(self._number, position.rollout)
        return self.minibatches.due(prepared, done, env_steps, position.used)

    def pass_over(
        self, prepared: Batch, env_steps: int, position: Position, remaining: int, idle: int = 0, early: Early = NOTHING
    ) -> dict[str, float]:
        """Take the remaining optimizer steps of a rollout; returns metrics of the newest step or the first skipped one.

        First come ``idle`` steps for which only other learners have minibatches; this learner only takes part in the
        exchange. ``early`` has results that were computed before. If ``idle`` steps come first, the gradient of the
        first minibatch is computed again, because the weights have changed.

        The steps may take minutes. Raises Stopped if ``going_on`` returns False between two of them; the remaining
        steps can then be taken later, by this process or by one that restores its state. Steps are left out if the
        policy has moved too far from the acting policy (``algorithm.target_kl``).
        """
        self.finite, taken = True, 0
        self._observe(prepared, early.moments)
        computed = None if idle else early.first
        minibatches = self.minibatches.draw(prepared, position.rollout, remaining, env_steps)
        for step in range(idle + remaining):
            if step and not self.going_on():
                raise Stopped("told to end between two minibatches of a rollout")
            if step >= idle:
                if not self.learn_from(next(minibatches), env_steps, computed):
                    break
                computed = None
                taken += 1
            elif self._moved_too_far({}):
                break
            else:
                self._step(self.learning_rates(env_steps, self._rate_share({})), self.state.vector)
        if taken:
            self.skipped = 0 if self.finite else self.skipped + 1
        newest = self._read_newest()
        if remaining and self.algorithm_settings.divergence_limit is not None:
            newest["learned_share"] = taken / remaining
        return {**newest, **self.minibatches.finish(remaining, env_steps, position.used)}

    def learn(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Make an update with a batch, without other learners; returns metrics as `pass_over` does."""
        prepared, position = self.minibatches.prepare(batch), Position(rollout, env_steps)
        metrics = self.pass_over(prepared, env_steps, position, self.due(prepared, env_steps, position))
        self.exchange.settle()
        return metrics

    def leave(self, position: Position) -> Agreed | None:
        """Tell the other learners that this one leaves, and send them the result of its local steps.

        Returns the newest known counts of all learners; None if a learner was lost or this process must end.
        """
        try:
            return self.exchange.agree(0, 0, position, True)
        except (PeerLost, Stopped):
            self.exchange.break_off()
            return None

    def _observe(self, prepared: Batch, moments: Tensor | None) -> None:
        """Update the observation statistics with the valid time steps of a batch, once for each rollout."""
        if not self.normalizes:
            return
        complete = self._has_statistics()
        self.exchange.merge(self._moments(prepared) if moments is None else moments, merge_into)
        if not complete:
            self._opened_before = self.algorithm_settings.open_rollouts(self.settings.blocks) - 1
        elif self._opened_before:
            self._opened_before -= 1

    def _moments(self, prepared: Batch) -> Tensor:
        """Return number, mean and variance of the observations (without masks) in the batch's valid time steps."""
        seen, valid = prepared.observation[: len(prepared.valid)], prepared.valid
        rows = seen.flatten(0, 1) if valid.all() else seen[valid]  # a selection is a copy
        return moments_of(without_mask(self.network.module, rows))

    # One optimizer step --------------------------------------------------------------------------------------------

    def learn_from(self, minibatch: Minibatch, env_steps: int, computed: Computed | None = None) -> bool:
        """Take one optimizer step with a minibatch; it is skipped if the loss or the gradient is not finite.

        ``computed`` has the results for the minibatch, if they were computed before. Returns False, without a step, if
        the policy has moved too far from the acting policy.
        """
        loss, metrics, proposed = computed or self._compute(minibatch, env_steps)
        self._minibatch = minibatch.batch
        if self._moved_too_far(metrics):
            return False
        share = self._rate_share(metrics)
        rates = self.learning_rates(env_steps, share)
        if self.norms:
            self.norms.before()
        stepped = self._step(rates, proposed, isfinite(loss.item()) and isfinite(share))
        if self.norms and stepped.taken:
            self.norms.after()
        self.minibatches.note_learned(minibatch, stepped.taken, metrics)
        if self.finite:  # otherwise the metrics of the first skipped step are kept
            self._unread = lambda: {
                **{name: float(value) for name, value in metrics.items() if name != PRIORITY},
                "loss": float(loss.detach()),
                "gradient_norm": stepped.norm,  # of the whole gradient, before clipping
                "learning_rate": share * self._rate(self.optimizer_settings, env_steps),
                **{f"{OWN_RATE}{g.name}": rates[g.number] for g in self.groups if g.name in self.own_rates},
            }
        self.finite &= stepped.taken
        if not stepped.taken:
            self._read_newest()  # before the next gradient overwrites the metrics (`CapturedLoss`)
        return True

    def _read_newest(self) -> dict[str, float]:
        """Return the metrics of the newest optimizer step, or of the first skipped one, and compute them if needed."""
        unread, self._unread = self._unread, None
        if unread is not None:
            self._newest = unread()
        return self._newest

    def _compute(self, minibatch: Minibatch, env_steps: int) -> Computed:
        """Compute the loss and the gradient of a minibatch; changes neither the weights nor the algorithm's state."""
        alone = self.settings.exchange.mode == "alone"
        if isinstance(self.losses, CapturedLoss) and not (alone and self.algorithm_settings.divergence_limit is None):
            self._read_newest()  # this gradient overwrites the metrics, and perhaps its step is left out
        before = self.state.vector.clone()
        loss, metrics = self.losses.compute_gradient(minibatch, self.settings.schedule_progress(env_steps))
        return Computed(loss, metrics, self.state.put_back(before))

    def _step(self, rates: list[float], proposed: Tensor, usable: bool = True) -> Stepped:
        """Take an optimizer step. If it is taken, the algorithm's state becomes ``proposed``, in mode sync the mean.

        ``rates`` has the learning rate of each parameter group. ``usable`` is False if the loss is not finite.
        """
        state = self.exchange.mean(proposed) if self.state.tensors else proposed
        stepped = self.exchange.step(self.gradients, rates, usable)
        if stepped.taken:
            self.state.vector.copy_(state)
        return stepped

    def learning_rates(self, env_steps: int, share: float = 1.0) -> list[float]:
        """Return the learning rate of each parameter group after ``env_steps`` environment steps, times ``share``."""
        return [share * self._rate(group.settings, env_steps) for group in self.groups]

    def _moved_too_far(self, metrics: Mapping[str, Tensor]) -> bool:
        """Whether the policy has moved so far from the acting policy that the rest of the rollout's steps is left out.

        It is the same for learners in mode sync. The divergence of each minibatch is computed before its step, so an
        update that is interrupted and continued ends at the same step.
        """
        limit = self.algorithm_settings.divergence_limit
        return limit is not None and self._mean(metrics.get(DIVERGENCE, 0.0)) > limit

    def _rate_share(self, metrics: Mapping[str, Tensor]) -> float:
        """Return the factor of learning rates for the effective sample size (``optimizer.sample_size_scaling``).

        It is the same for learners in mode sync.
        """
        scaling = self.optimizer_settings.sample_size_scaling
        if scaling == "none":
            return 1.0
        return scale_rate(1.0, self._mean(metrics.get(SAMPLE_SIZE, 1.0)), scaling)

    def _mean(self, number: Tensor | float) -> float:
        """Return the mean of a number over the learners in mode sync; in other modes, the number itself."""
        return float(self.exchange.mean(torch.tensor([float(number)])))

    def _rate(self, o: OptimizerSettings, env_steps: int) -> float:
        """Return the learning rate by the schedule, scaled with the number of learners (``learners.rate_scaling``)."""
        rate = rate_after(o, env_steps, self.settings.schedule_end)
        return scale_rate(rate, self.settings.learners, self.settings.rate_scaling)

    # Results -------------------------------------------------------------------------------------------------------

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights, which have learned from ``env_steps`` environment steps; returns their version."""
        return published.publish(self.weights.detach().cpu().numpy(), env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the exchange, the norms and the diagnosis since the last call.

        Metrics of optimizer steps are returned by `pass_over` instead.
        """
        minibatch, self._minibatch = self._minibatch, None
        symptoms = self.diagnosis.row(minibatch, self._read_newest().get("entropy")) if minibatch is not None else {}
        return {**self.exchange.metrics(), **(self.norms.row() if self.norms else {}), **symptoms}

    def sha256(self) -> str:
        """Return the SHA-256 of the weights in hex digits, for comparing runs."""
        return hashlib.sha256(self.weights.detach().cpu().numpy().tobytes()).hexdigest()

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that learning changes, by name, for a checkpoint."""
        weights = {f"weights.{name}": tensor for name, tensor in self.network.module.state_dict().items()}
        optimizer = {f"optimizer.{name}": tensor for name, tensor in self.exchange.state().items()}
        outer = {f"outer.{name}": tensor for name, tensor in self.outer.state().items()} if self.outer else {}
        consumed = {"consumed": torch.from_numpy(self.consumed.table)}
        state = {f"algorithm.{name}": tensor for name, tensor in self.state.tensors.items()}
        return {**weights, **optimizer, **outer, **state, **consumed, **self.minibatches.tensors()}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write large state to files in a checkpoint's folder, and return plain values; raises OSError."""
        own = {"newest_metrics": self._read_newest(), "opened_before_statistics": self._opened_before}
        return own | self.minibatches.save(folder)

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Restore the state of `tensors` and `save`; ``goes_on``: the simulators also continue the saved games."""
        self.network.module.load_state_dict(saved.section("weights"))
        self.exchange.restore(saved.section("optimizer"))
        if self.outer and (outer := saved.section("outer")):
            self.outer.restore(outer)
        elif self.outer:  # the checkpoint is of a run without an outer optimizer
            self.outer.begin(self.parameters)
        self.state.restore(saved.section("algorithm"))
        self.consumed.restore(saved.tensors["consumed"].numpy())
        self._newest, self._unread = dict(saved.state["newest_metrics"]), None
        self._opened_before = saved.state["opened_before_statistics"] if goes_on else 0
        self.minibatches.restore(saved, goes_on)
