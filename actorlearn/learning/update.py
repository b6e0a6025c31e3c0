"""One update: learns from a rollout in optimizer steps, each a forward pass, a loss, a backward pass and an exchange.

Reads: a ``Gathered`` rollout. Writes: flat weights and optimizer state.
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

from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.algorithms.ratios import DIVERGENCE, SAMPLE_SIZE
from actorlearn.algorithms.state import DeclaredState
from actorlearn.failpoints import hit
from actorlearn.learning.diagnosis import Diagnosis
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.minibatches import Gathered, Minibatch, Minibatches
from actorlearn.learning.norms import Norms
from actorlearn.metrics.registry import OWN_RATE
from actorlearn.metrics.timings import Timings
from actorlearn.models.masked import without_mask
from actorlearn.models.normalize import merge_into, moments_of, normalized_in, rows_before_learning
from actorlearn.models.several import spans
from actorlearn.optim.groups import make_groups
from actorlearn.optim.outer import Outer
from actorlearn.optim.schedules import rate_after, scale_rate
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Exchange, Learner, PeerLost, Stepped, Stopped
from actorlearn.parameters.peers import Peers
from actorlearn.parameters.published import Published
from actorlearn.wire.control import Control
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker


class Update(NamedTuple):
    """Result of one update."""

    outcome: Literal["learned", "leaving", "lost", "stopped"]
    """What became of the rollout:

    =======  ==========================================================================================================
    learned  the weights contain it
    leaving  a learner is leaving, and the rollout was not learned
    lost     another learner was lost; the update is continued with the remaining learners
    stopped  this process was told to end; the rollout stays in flight, and its steps are not counted as used
    =======  ==========================================================================================================
    """
    env_steps: int = 0
    """Environment steps that all learners together have learned from."""
    updates: int = 0
    """Updates that all learners together have made."""
    skipped_steps: int = 0
    """This learner's environment steps in the rollout that are in no optimizer step that was taken, as these were not
    finite."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """Metrics of the newest optimizer step, or of the first skipped one."""


class Computed(NamedTuple):
    """What was computed of a minibatch, besides the gradient, which is in `Learning.gradients`."""

    loss: Tensor
    metrics: dict[str, Tensor]
    proposed: Tensor
    """The algorithm's own state after the step."""


class Early(NamedTuple):
    """What was computed of a pass before the learners agreed on it, to be exchanged with the agreement."""

    moments: Tensor | None = None
    """Moments of the observations."""
    first: Computed | None = None
    """The first minibatch's."""


NOTHING = Early()
"""If everything is computed after the agreement."""


class Learning:
    """A network, the minibatches that it learns from, a loss, and an exchange that turns gradients into new weights."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        network: FlatNetwork,
        minibatches: Minibatches,
        optimizer: OptimizerSettings,
        worker: Worker | None = None,
    ) -> None:
        """Make a learner of these parts (``learning/make.py`` makes them from settings).

        ``optimizer``: settings for minibatches of this size. ``worker``: the process, whose orders list other learners;
        None: this learner learns alone.
        """
        self.settings, self.algorithm, self.network = settings, algorithm, network
        self.algorithm_settings = settings.policy.algorithm
        self.learns = self.algorithm_settings.epochs > 0
        """Whether the weights change; if not, rollouts are only played (``algorithm.epochs: 0``)."""
        self.minibatches, self._number = minibatches, settings.learner
        self.state = DeclaredState(algorithm, settings.device)
        """The algorithm's own state; a loss proposes a change of it, which an optimizer step makes."""
        self.losses = make_losses(algorithm, network, minibatches.target, settings.device, settings.precision)
        self.weights, self.gradients, self.parameters = network.weights, network.gradients, network.parameters
        self.norms = Norms(network.module, self.parameters, self.gradients) if settings.norms else None
        self.diagnosis = Diagnosis(network, settings.policy.actions, settings.policy.action_mask)
        self.optimizer_settings = optimizer
        networks = spans(network.module)
        self.groups = make_groups(optimizer, networks, len(self.parameters))
        self.own_rates = {name for name, own in optimizer.groups.items() if own.learning_rate is not None}
        """Networks with a learning rate of their own, which is reported."""
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
        control = worker.control if worker else Control(None, settings.id, settings.run_id)
        self.beat: Callable[[], bool] = worker.poll if worker else lambda: True
        """Gives a sign of life during long operations."""
        self._timings = worker.timings if worker else Timings()
        self.peers = Peers(settings.exchange, learner, control, self.beat)
        self.going_on: Callable[[], bool] = partial(self.peers.going_on, minibatches.finish_s)
        """Whether a pass continues; a learner that is told to leave has ``Minibatches.finish_s`` to finish it."""
        self.finite = True
        """Whether all optimizer steps of the newest pass were finite."""
        self.skipped = 0
        """Number of consecutive rollouts with an optimizer step that was skipped because it was not finite."""
        self._newest: dict[str, float] = {}
        """Metrics of the newest optimizer step, or of the first skipped one in its pass."""
        self._rows_needed = rows_before_learning(settings.policy.model, settings.total_steps)
        self._opened_before = 0
        """Number of rollouts that were opened before the statistics had enough observations, and are still to come."""

    @property
    def exchange(self) -> Exchange:
        """The exchange that turns gradients into new weights."""
        return self.peers.exchange

    @property
    def normalizes(self) -> bool:
        """Whether observations are normalised by statistics that this learner collects."""
        return self.learns and normalized_in(self.network.module) is not None

    @property
    def lacks_statistics(self) -> bool:
        """Whether the next rollout is not learned from because it was played with statistics of too few observations.

        Learners in lock-step have the same statistics, so they begin to learn with the same update.
        """
        return self.normalizes and (self._opened_before > 0 or not self._has_statistics())

    def _has_statistics(self) -> bool:
        """Whether the statistics in the weights have enough observations."""
        normalized = normalized_in(self.network.module)
        return normalized is not None and float(normalized.number) >= self._rows_needed

    @property
    def columns(self) -> list[str]:
        """Columns of this learner's batches, besides the columns of all batches."""
        own = self.algorithm.columns(self.settings.policy.actions)
        return [*own, *(["state"] if self.network.state_size else [])]

    # One update ----------------------------------------------------------------------------------------------------

    def update(self, gathered: Gathered, position: Position, env_steps: int) -> Update:
        """Agree with the other learners on the next batch, and learn from the gathered rollout.

        ``position``: this learner's position in its own experience, at the gathered rollout. ``env_steps``: environment
        steps that all learners together have learned from before.
        """
        try:
            return self._update(gathered, position, env_steps)
        except PeerLost:  # completed steps of all learners stay; the update is continued with the remaining learners
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
        skipped = min(self.minibatches.skipped_steps(prepared), gathered.steps) if steps else 0
        return Update("learned", agreed.env_steps, agreed.updates, skipped, metrics)

    def _compute_early(self, prepared: Batch, env_steps: int, position: Position, steps: int) -> Early:
        """Compute what the exchange needs first: moments of observations or, without these, the first gradient.

        Minibatches of a replay are drawn only after the agreement, as the replay then contains the rollout.
        """
        if self.normalizes:
            early = Early(moments=self._moments(prepared))
            self.exchange.bring(moments=early.moments)
            return early
        if not steps or self.minibatches.replay is not None:
            return NOTHING
        first = self._compute(next(self.minibatches.draw(prepared, position.rollout, steps, env_steps)), env_steps)
        if not torch.isfinite(first.loss):
            self.gradients.fill_(torch.nan)
        self.exchange.bring(gradients=self.gradients)
        return Early(first=first)

    def due(self, prepared: Batch, env_steps: int, position: Position) -> int:
        """Return how many optimizer steps remain to be taken with a prepared batch; arguments as for ``update``."""
        done = self.consumed.done(self._number, position.rollout)
        return self.minibatches.due(prepared, done, env_steps, position.used)

    def pass_over(
        self,
        prepared: Batch,
        env_steps: int,
        position: Position,
        remaining: int,
        idle: int = 0,
        early: Early = NOTHING,
    ) -> dict[str, float]:
        """Take the remaining optimizer steps of a rollout; returns metrics of the newest, or of the first skipped.

        A pass may take minutes: ``going_on`` is called between two steps, and Stopped is raised if it returns False. A
        pass that was broken off continues later, in this process or in one that restores its state. In the first
        ``idle`` steps only other learners have minibatches, and this learner's gradient is not used. The pass ends
        early if the policy has moved too far from the acting one (``algorithm.target_kl``). ``early``: what was
        computed before; the first minibatch's gradient is computed again if steps of others come before it.
        """
        self.finite, taken = True, 0
        self._observe(prepared, early.moments)
        computed = None if idle else early.first
        minibatches = self.minibatches.draw(prepared, position.rollout, remaining, env_steps)
        for step in range(idle + remaining):
            if step and not self.going_on():
                raise Stopped("told to end between two minibatches of a rollout")
            if step >= idle:
                minibatch = next(minibatches)
                stepped = (
                    self._take(minibatch, computed, env_steps) if computed else self.learn_from(minibatch, env_steps)
                )
                if not stepped:
                    break
                computed = None
                taken += 1
            elif self._moved_too_far({}):
                break
            else:
                self._step(self.learning_rates(env_steps, self._rate_share({})), self.state.vector)
        if taken:
            self.skipped = 0 if self.finite else self.skipped + 1
        if remaining and self.algorithm_settings.divergence_limit is not None:
            self._newest["learned_share"] = taken / remaining
        return {**self._newest, **self.minibatches.finish(remaining, env_steps, position.used)}

    def learn(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Learn from a whole batch without other learners; returns metrics as ``pass_over`` does."""
        prepared, position = self.minibatches.prepare(batch), Position(rollout, env_steps)
        metrics = self.pass_over(prepared, env_steps, position, self.due(prepared, env_steps, position))
        self.exchange.settle()
        return metrics

    def leave(self, position: Position) -> None:
        """Tell the other learners that this one leaves, and merge its local steps."""
        try:
            self.exchange.agree(0, 0, position, True)
        except (PeerLost, Stopped):
            self.exchange.break_off()

    def _observe(self, prepared: Batch, moments: Tensor | None) -> None:
        """Update the statistics of observations by the batch's valid rows, each once."""
        if not self.normalizes:
            return
        complete = self._has_statistics()
        self.exchange.merge(self._moments(prepared) if moments is None else moments, merge_into)
        if not complete:
            self._opened_before = self.algorithm_settings.open_rollouts(self.settings.blocks) - 1
        elif self._opened_before:
            self._opened_before -= 1

    def _moments(self, prepared: Batch) -> Tensor:
        """Return the moments of the observations, without masks, in a batch's valid rows."""
        seen, valid = prepared.observation[: len(prepared.valid)], prepared.valid
        rows = seen.flatten(0, 1) if valid.all() else seen[valid]  # a selection is a copy
        return moments_of(without_mask(self.network.module, rows))

    # One optimizer step --------------------------------------------------------------------------------------------

    def learn_from(self, minibatch: Minibatch, env_steps: int) -> bool:
        """Take one optimizer step with a minibatch, by the exchange; a step that is not finite changes nothing.

        Returns False, without a step, if the policy has moved too far from the acting one.
        """
        return self._take(minibatch, self._compute(minibatch, env_steps), env_steps)

    def _compute(self, minibatch: Minibatch, env_steps: int) -> Computed:
        """Compute the gradient of a minibatch; changes nothing but the gradient."""
        before = self.state.vector.clone()
        loss, metrics = self.losses.compute_gradient(minibatch, self.settings.schedule_progress(env_steps))
        return Computed(loss, metrics, self.state.put_back(before))

    def _take(self, minibatch: Minibatch, computed: Computed, env_steps: int) -> bool:
        """Take the optimizer step of a minibatch whose gradient is computed; returns as ``learn_from`` does."""
        self.diagnosis.note_minibatch(minibatch.batch)
        loss, metrics, proposed = computed
        if self._moved_too_far(metrics):
            return False
        share = self._rate_share(metrics)
        rates = self.learning_rates(env_steps, share)
        if self.norms:
            self.norms.before()
        stepped = self._step(rates, proposed, bool(torch.isfinite(loss)) and isfinite(share))
        if self.norms and stepped.taken:
            self.norms.after()
        self.minibatches.note_learned(minibatch, stepped.taken, metrics)
        if self.finite:  # otherwise the metrics of the first skipped step are kept
            self._newest = {
                **{name: float(value) for name, value in metrics.items()},
                "loss": float(loss.detach()),
                "gradient_norm": stepped.norm,  # of the whole gradient, before clipping
                "learning_rate": share * self._rate(self.optimizer_settings, env_steps),
                **{f"{OWN_RATE}{g.name}": rates[g.number] for g in self.groups if g.name in self.own_rates},
            }
        self.finite &= stepped.taken
        return True

    def _step(self, rates: list[float], proposed: Tensor, usable: bool = True) -> Stepped:
        """Take an optimizer step; the algorithm's state then becomes the mean of the states that learners propose."""
        state = self.exchange.mean(proposed) if self.state.tensors else proposed
        stepped = self.exchange.step(self.gradients, rates, usable)
        if stepped.taken:
            self.state.vector.copy_(state)
        return stepped

    def learning_rates(self, env_steps: int, share: float = 1.0) -> list[float]:
        """Return the learning rate of each parameter group after ``env_steps`` steps, times ``share``."""
        return [share * self._rate(group.settings, env_steps) for group in self.groups]

    def _moved_too_far(self, metrics: Mapping[str, Tensor]) -> bool:
        """Whether the divergence from the acting policy ends the pass; equal for learners in lock-step.

        The divergence is computed before each step from the minibatch itself. A pass that was broken off therefore
        continues to the same end.
        """
        limit = self.algorithm_settings.divergence_limit
        return limit is not None and self._mean(metrics.get(DIVERGENCE, 0.0)) > limit

    def _rate_share(self, metrics: Mapping[str, Tensor]) -> float:
        """Return the factor on learning rates from the effective sample size; equal for learners in lock-step."""
        scaling = self.optimizer_settings.sample_size_scaling
        if scaling == "none":
            return 1.0
        return scale_rate(1.0, self._mean(metrics.get(SAMPLE_SIZE, 1.0)), scaling)

    def _mean(self, number: Tensor | float) -> float:
        """Return the mean of the number of each learner in lock-step."""
        return float(self.exchange.mean(torch.tensor([float(number)])))

    def _rate(self, o: OptimizerSettings, env_steps: int) -> float:
        """Return the learning rate of the schedule, scaled by the number of learners."""
        rate = rate_after(o, env_steps, self.settings.schedule_end)
        return scale_rate(rate, self.settings.learners, self.settings.rate_scaling)

    # Results -------------------------------------------------------------------------------------------------------

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights, learned from ``env_steps`` steps; returns their version."""
        return published.publish(self.weights.detach().cpu().numpy(), env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, without those of the newest optimizer step."""
        symptoms = self.diagnosis.row(self._newest.get("entropy"))
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
        """Write large state to files in a checkpoint's folder; returns plain numbers; raises OSError."""
        own = {"newest_metrics": self._newest, "opened_before_statistics": self._opened_before}
        return own | self.minibatches.save(folder)

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Restore the state of ``tensors`` and ``save``; ``goes_on``: simulators continue from snapshots, too."""
        self.network.module.load_state_dict(saved.section("weights"))
        self.exchange.restore(saved.section("optimizer"))
        if self.outer and (outer := saved.section("outer")):
            self.outer.restore(outer)
        elif self.outer:  # the checkpoint is of a run without an outer optimizer
            self.outer.begin(self.parameters)
        self.state.restore(saved.section("algorithm"))
        self.consumed.restore(saved.tensors["consumed"].numpy())
        self._newest = dict(saved.state["newest_metrics"])
        self._opened_before = saved.state["opened_before_statistics"] if goes_on else 0
        self.minibatches.restore(saved, goes_on)
