"""Learning: rollouts in, new weights out, by optimizer steps: a forward pass, a loss, a backward pass and an exchange.

Reads: a ``Batch``, and its rollout's number. Writes: flat weights and optimizer state. Knows no blocks and no messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.algorithms.ratios import SAMPLE_SIZE
from actorlearn.learning.diagnosis import Diagnosis
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.minibatches import Minibatch, Minibatches
from actorlearn.learning.network import Network
from actorlearn.learning.norms import Norms
from actorlearn.learning.secondary import Secondary
from actorlearn.learning.staleness import open_rollouts
from actorlearn.metrics.registry import OWN_RATE
from actorlearn.models.normalize import Normalized, merge_into, moments_of, rows_before_learning
from actorlearn.models.several import spans
from actorlearn.optim.groups import make_groups
from actorlearn.optim.outer import Outer
from actorlearn.optim.schedules import linear, scale_rate
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.interface import Exchange, Learner, Position, Present, Stopped
from actorlearn.parameters.modes import make as make_exchange
from actorlearn.parameters.published import WeightSink
from actorlearn.parameters.settings import AloneExchangeSettings, ExchangeSettings
from actorlearn.wire.endpoints import Endpoints
from actorlearn.worker.settings import TrainerSettings


class OptimizerStep(NamedTuple):
    """Record of one optimizer step."""

    loss: float
    gradient_norm: float
    """Norm of the whole gradient, before clipping."""
    learning_rates: Mapping[str, float]
    """"learning_rate", and "learning_rate_<network>" of each network that has one of its own."""
    taken: bool
    """False: something was not finite, and nothing was changed."""
    metrics: dict[str, Tensor]
    """Metrics of the algorithm's own, one number each."""

    def row(self) -> dict[str, float]:
        """Return the step as a report has it."""
        own = {name: float(value) for name, value in self.metrics.items()}
        return own | {"loss": self.loss, "gradient_norm": self.gradient_norm, **self.learning_rates}


class Learning:
    """A network, the minibatches that it learns from, a loss, and the exchange that makes a gradient new weights.

    For each rollout a trainer calls ``prepare``, ``optimizer_steps_from``, ``exchange.agree``, ``pass_over`` and
    ``exchange.settle``; ``learn`` does all of that for a learner that is alone.
    """

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        network: Network,
        minibatches: Minibatches,
        optimizer: OptimizerSettings,
        position: Callable[[], Position] = Position,
        beat: Callable[[], object] = lambda: None,
        secondary: Secondary | None = None,
    ) -> None:
        """Put a learner together (``learning/make.py`` makes its parts from settings alone).

        ``optimizer``: settings for minibatches of this size. ``position`` returns this learner's position in its own
        experience; ``beat`` records a sign of life during long operations.
        """
        self.settings, self.algorithm, self.network = settings, algorithm, network
        self.algorithm_settings = settings.policy.algorithm
        self.minibatches, self.secondary = minibatches, secondary
        self.losses = make_losses(algorithm, network, minibatches.target, settings.device, settings.precision)
        self.weights, self.gradients, self.parameters = network.weights, network.gradients, network.parameters
        self.norms = Norms(network.module, self.parameters, self.gradients) if settings.norms else None
        self.diagnosis = Diagnosis(network, settings.policy.actions)
        self.optimizer_settings = optimizer
        networks = spans(network.module)
        self.groups = make_groups(optimizer, networks, len(self.parameters))
        self.own_rates = {name for name, own in optimizer.groups.items() if own.learning_rate is not None}
        """Networks whose learning rate is reported by itself."""
        self.consumed = Consumed(max(settings.learners, settings.learner + 1))
        self.position, self.beat = position, beat
        self.outer = Outer(settings.outer, self.parameters) if settings.outer.rule != "none" else None
        self.learner = Learner(
            optimizer,
            self.weights,
            self.gradients,
            position=position,
            number=settings.learner,
            consumed=self.consumed,
            spread=network.pool.spread,
            carried=minibatches.carried,
            networks=networks,
            outer=self.outer,
        )
        self.exchange: Exchange = make_exchange(AloneExchangeSettings(), self.learner)
        """Exchange that turns gradients into new weights: this learner's alone until others are joined."""
        self.finite = True
        """Whether all optimizer steps of the newest pass were finite."""
        self.skipped = 0
        """Consecutive rollouts with an optimizer step that was skipped because it was not finite."""
        self._newest: dict[str, float] = {}
        """Metrics of the newest optimizer step, or of the first that its pass skipped."""
        self._rows_needed = rows_before_learning(settings.policy.model, settings.total_steps)
        self._opened_before = 0
        """Rollouts that were opened before the statistics were complete, and whose end is still to come."""

    @property
    def learns(self) -> bool:
        """Whether weights ever change; else rollouts are only played (``algorithm.epochs: 0``)."""
        return self.algorithm_settings.epochs > 0

    @property
    def normalizes(self) -> bool:
        """Whether observations are normalised by statistics that this learner collects."""
        return self.learns and isinstance(self.network.module, Normalized)

    @property
    def lacks_statistics(self) -> bool:
        """Whether the next rollout was played with statistics of too few observations to be learned from.

        Learners in step have the same statistics, so that they begin to learn with the same update.
        """
        return self.normalizes and (self._opened_before > 0 or not self._has_statistics())

    def _has_statistics(self) -> bool:
        """Whether the statistics in the weights are those of enough observations."""
        module = self.network.module
        return isinstance(module, Normalized) and float(module.number) >= self._rows_needed

    @property
    def columns(self) -> list[str]:
        """Columns of batches, besides those that all have."""
        own = self.algorithm.columns(self.settings.policy.actions)
        return [*own, *(["state"] if self.network.state_size else [])]

    # Other learners ------------------------------------------------------------------------------------------------

    def exchange_by(
        self,
        settings: ExchangeSettings,
        alive: Callable[[], bool],
        present: Callable[[], Present] = Present,
        warn: Callable[[str], None] = lambda text: None,
        endpoints: Endpoints | None = None,
    ) -> None:
        """Replace the exchange, or its learners; the optimizer's state is carried over."""
        self.minibatches.together = settings.together
        learner = replace(self.learner, alive=alive, present=present, warn=warn, endpoints=endpoints)
        if not settings.together:
            self.consumed.know_only(self.settings.learner)
        before, self.exchange = self.exchange, make_exchange(settings, learner)
        self.exchange.restore(before.state())
        before.close()

    # A rollout -----------------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> Batch:
        """Compute values that all minibatches of a batch share."""
        return self.minibatches.prepare(batch)

    def optimizer_steps_from(
        self, prepared: Batch, env_steps: int, own_steps: int, only_statistics: bool = False
    ) -> int:
        """Return how many optimizer steps a prepared batch will give; so many env steps were learned from before it.

        ``only_statistics``: the rollout was played while this learner lacked statistics, and gives none.
        """
        if only_statistics:
            return 0
        if self.secondary:
            self.secondary.learning.optimizer_steps_from(prepared, env_steps, own_steps)
        self.minibatches.count_due(env_steps, own_steps)
        return self.minibatches.remaining(prepared, self._done(self.position().rollout))

    def pass_over(
        self,
        prepared: Batch,
        env_steps: int,
        rollout: int,
        going_on: Callable[[], bool] = lambda: True,
        only_statistics: bool = False,
    ) -> dict[str, float]:
        """Take all optimizer steps left of a rollout; returns metrics of the newest, or of the first skipped one.

        A pass may take minutes: ``going_on`` is called between two steps, and Stopped raised when it returns False. A
        pass that was broken off continues later, in this process or in one that restores its state.
        """
        self.finite = True
        self._observe(prepared)
        done = self._done(rollout)
        idle = self.exchange.idle
        remaining = 0 if only_statistics else self.minibatches.remaining(prepared, done)
        minibatches = self.minibatches.draw(prepared, rollout, done, env_steps)
        for step in range(idle + remaining):
            if step and not going_on():
                raise Stopped("told to end among the minibatches of a rollout")
            if step < idle:  # others have more left to do, and this learner's gradient counts for nothing
                self.exchange.step(self.gradients, self.learning_rates(env_steps, self._rate_share({})))
            else:
                self.learn_from(next(minibatches), env_steps)
        if remaining:
            self.skipped = 0 if self.finite else self.skipped + 1
        metrics = {**self._newest, **self.minibatches.finish()}
        return metrics | (self.secondary.pass_over(prepared, env_steps, rollout, going_on) if self.secondary else {})

    def learn(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Learn from a batch, all of it; returns what ``pass_over`` does."""
        metrics = self.pass_over(self.prepare(batch), env_steps, rollout)
        self.exchange.settle()
        return metrics

    def _done(self, rollout: int) -> int:
        """Return how many optimizer steps by this rollout are in the weights."""
        return self.consumed.done(self.settings.learner, rollout)

    def _observe(self, prepared: Batch) -> None:
        """Bring the statistics of observations up to date: by rows that were acted upon, each once, no void ones."""
        if not self.normalizes:
            return
        seen, valid = prepared.observation[: len(prepared.valid)], prepared.valid
        seen = seen.flatten(0, 1) if valid.all() else seen[valid]  # a selection is a copy
        complete = self._has_statistics()
        self.exchange.merge(moments_of(seen), merge_into)
        if not complete:
            self._opened_before = open_rollouts(self.settings.blocks, self.algorithm_settings) - 1
        elif self._opened_before:
            self._opened_before -= 1

    # One optimizer step --------------------------------------------------------------------------------------------

    def learn_from(self, minibatch: Minibatch, env_steps: int) -> None:
        """Take an optimizer step with a minibatch, and report its result to the minibatches' source."""
        finite = self.finite
        self.diagnosis.note_minibatch(minibatch.batch)
        step = self.step(minibatch, env_steps)
        self.minibatches.note_learned(minibatch, step.taken, step.metrics)
        if finite:  # else the metrics of the first that was skipped stay
            self._newest = step.row()

    def step(self, minibatch: Minibatch, env_steps: int) -> OptimizerStep:
        """Take one: a minibatch's gradient, the exchange, the optimizer. A step that is not finite changes nothing."""
        progress = self.settings.schedule_progress(env_steps)
        loss, metrics = self.losses.compute_gradient(minibatch, progress)
        share = self._rate_share(metrics)
        rates = self.learning_rates(env_steps, share)
        if self.norms:
            self.norms.before()
        stepped = self.exchange.step(self.gradients, rates, bool(torch.isfinite(loss)) and isfinite(share))
        if self.norms and stepped.taken:
            self.norms.after()
        self.finite &= stepped.taken
        reported = {"learning_rate": share * self._rate(self.optimizer_settings, env_steps)}
        reported |= {f"{OWN_RATE}{g.name}": rates[g.number] for g in self.groups if g.name in self.own_rates}
        return OptimizerStep(float(loss.detach()), stepped.norm, reported, stepped.taken, metrics)

    def learning_rates(self, env_steps: int, share: float = 1.0) -> list[float]:
        """Return the learning rate of each parameter group, all times ``share``."""
        return [share * self._rate(group.settings, env_steps) for group in self.groups]

    def _rate_share(self, metrics: Mapping[str, Tensor]) -> float:
        """Return the factor on learning rates that a minibatch's effective sample size gives; one for all in step."""
        scaling = self.optimizer_settings.sample_size_scaling
        if scaling == "none":
            return 1.0
        return scale_rate(1.0, self.exchange.mean(float(metrics.get(SAMPLE_SIZE, 1.0))), scaling)

    def _rate(self, o: OptimizerSettings, env_steps: int) -> float:
        """Linear from the first to the final value over the schedule, scaled by the number of learners."""
        s = self.settings
        rate = linear(o.learning_rate, o.learning_rate_final, s.schedule_progress(env_steps))
        return scale_rate(rate, s.learners, s.rate_scaling)

    # Results -------------------------------------------------------------------------------------------------------

    def publish(self, published: WeightSink, env_steps: int) -> int:
        """Publish the weights to act by, as learned from so many steps; returns their version."""
        if self.secondary:
            self.secondary.publish(env_steps)
        return published.publish(self.weights.detach().cpu().numpy(), env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, besides those of the newest optimizer step."""
        symptoms = self.diagnosis.row(self._newest.get("entropy"))
        own = {**self.exchange.metrics(), **(self.norms.row() if self.norms else {}), **symptoms}
        return own | (self.secondary.metrics() if self.secondary else {})

    def sha256(self) -> str:
        """Fingerprint of the weights, for comparing runs."""
        return hashlib.sha256(self.weights.detach().cpu().numpy().tobytes()).hexdigest()

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that learning changes, by name, for a checkpoint."""
        weights = {f"weights.{name}": tensor for name, tensor in self.network.module.state_dict().items()}
        optimizer = {f"optimizer.{name}": tensor for name, tensor in self.exchange.state().items()}
        outer = {f"outer.{name}": tensor for name, tensor in self.outer.state().items()} if self.outer else {}
        own = {**weights, **optimizer, **outer, "consumed": self.consumed.table, **self.minibatches.tensors()}
        return own | (self.secondary.tensors() if self.secondary else {})

    def save(self, folder: Path) -> dict[str, Any]:
        """Write large state into files of a checkpoint's folder; returns plain numbers; raises OSError."""
        own = {"told": self._newest, **self.minibatches.save(folder)}  # "told": the key's name in older checkpoints
        own["opened_before_statistics"] = self._opened_before
        return own | (self.secondary.save(folder) if self.secondary else {})

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Restore the state of ``tensors`` and ``save``; ``goes_on``: simulators continue exactly, too."""
        self.network.module.load_state_dict(saved.section("weights"))
        self.exchange.restore(saved.section("optimizer"))
        if self.outer and (outer := saved.section("outer")):
            self.outer.restore(outer)
        elif self.outer:  # the run had none
            self.outer.begin(self.parameters)
        self.consumed.restore(saved.tensors["consumed"])
        self._newest = dict(saved.state.get("told", {}))
        self._opened_before = saved.state.get("opened_before_statistics", 0) if goes_on else 0
        self.minibatches.restore(saved, goes_on)
        if self.secondary:
            self.secondary.restore(saved, goes_on)
