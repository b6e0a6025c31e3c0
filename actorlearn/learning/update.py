"""One update: a rollout in, new weights out, in optimizer steps: a forward pass, a loss, a backward pass, an exchange.

Reads: a ``Gathered`` rollout. Writes: flat weights and optimizer state. Knows no messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from actorlearn.algorithms.interface import Algorithm, Batch
from actorlearn.algorithms.ratios import SAMPLE_SIZE
from actorlearn.failpoints import hit
from actorlearn.learning.diagnosis import Diagnosis
from actorlearn.learning.losses import make as make_losses
from actorlearn.learning.minibatches import Gathered, Minibatch, Minibatches
from actorlearn.learning.norms import Norms
from actorlearn.metrics.registry import OWN_RATE
from actorlearn.metrics.timings import Timings
from actorlearn.models.normalize import Normalized, merge_into, moments_of, rows_before_learning
from actorlearn.models.several import spans
from actorlearn.optim.groups import make_groups
from actorlearn.optim.outer import Outer
from actorlearn.optim.schedules import linear, scale_rate
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Consumed, Position
from actorlearn.parameters.interface import Exchange, Learner, PeerLost, Stopped
from actorlearn.parameters.peers import Peers
from actorlearn.parameters.published import Published
from actorlearn.wire.control import Control
from actorlearn.worker.passes import Network
from actorlearn.worker.settings import TrainerSettings
from actorlearn.worker.worker import Worker

SECONDARY = "secondary"
"""Word before the names of a secondary learner's metrics and tensors."""


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


class Update(NamedTuple):
    """Result of one update."""

    outcome: Literal["learned", "leaving", "lost", "stopped"]
    """What became of the rollout:

    =======  ==========================================================================================================
    learned  it is in the weights
    leaving  a learner is leaving, and none has learned
    lost     another learner was lost; the rollout is to be learned again with the remaining ones
    stopped  this process was told to end; the rollout stays in flight, and what was learned of it counts no steps
    =======  ==========================================================================================================
    """
    env_steps: int = 0
    """Environment steps that all learners together have learned from."""
    updates: int = 0
    """Updates that all learners together have made."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """Metrics of the newest optimizer step, or of the first that was skipped."""


class Learning:
    """A network, the minibatches that it learns from, a loss, and the exchange that makes a gradient new weights."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        network: Network,
        minibatches: Minibatches,
        optimizer: OptimizerSettings,
        worker: Worker | None = None,
    ) -> None:
        """Put a learner together (``learning/make.py`` makes its parts from settings alone).

        ``optimizer``: settings for minibatches of this size. ``worker``: the process, whose orders list other learners;
        None: this learner is alone.
        """
        self.settings, self.algorithm, self.network = settings, algorithm, network
        self.algorithm_settings = settings.policy.algorithm
        self.learns = self.algorithm_settings.epochs > 0
        """Whether weights ever change; else rollouts are only played (``algorithm.epochs: 0``)."""
        self.minibatches, self._number = minibatches, settings.learner
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
        self.outer = Outer(settings.outer, self.parameters) if settings.outer.rule != "none" else None
        learner = Learner(
            optimizer,
            self.weights,
            self.gradients,
            number=settings.learner,
            consumed=self.consumed,
            spread=network.pool.spread,
            carried=minibatches,
            networks=networks,
            outer=self.outer,
        )
        control = worker.control if worker else Control(None, settings.id, settings.run_id)
        self.beat: Callable[[], bool] = worker.poll if worker else lambda: True
        """Records a sign of life during long operations."""
        self._timings = worker.timings if worker else Timings()
        self.peers = Peers(settings.exchange, learner, control, self.beat)
        self.secondary: Learning | None = None
        """A learner that learns beside this one from the same replay, with minibatches of another size, and never acts.

        It is the experiment of Stooke & Abbeel (2018), section 5.4.2: does it keep pace with the one that acts?"""
        self.secondary_published: Published | None = None
        """Where the secondary learner's weights are published."""
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
    def exchange(self) -> Exchange:
        """The exchange that turns gradients into new weights."""
        return self.peers.exchange

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

    # One update ----------------------------------------------------------------------------------------------------

    def update(self, gathered: Gathered, position: Position, env_steps: int) -> Update:
        """Learn from a rollout as agreed with the other learners; ``env_steps``: those of all learners before it.

        ``position``: that of this learner in its own experience, whose rollout is the gathered one.
        """
        try:
            return self._update(gathered, position, env_steps)
        except PeerLost:  # steps of all learners stay; the rollout is continued with the remaining ones
            self.peers.exchange.break_off()
            self.peers.part()
            return Update("lost")
        except Stopped:
            self.peers.exchange.break_off()
            return Update("stopped")

    def _update(self, gathered: Gathered, position: Position, env_steps: int) -> Update:
        only_statistics = gathered.only_statistics
        prepared = self.minibatches.prepare(gathered.batch if gathered.shared is None else gathered.shared)
        self._timings.add("learn")
        steps = self.optimizer_steps_from(prepared, env_steps, position.used, only_statistics, position.rollout)
        agreed = self.peers.exchange.agree(gathered.steps, steps, position)
        self._timings.add("wait")
        if agreed.draining:
            return Update("leaving")
        hit("trainer.agreed")
        if self.minibatches.storage is not None:
            self.minibatches.storage.store(gathered.rollout, gathered.parts)
        hit("trainer.kept")
        self.diagnosis.note_rollout(gathered.batch)
        metrics = self.pass_over(prepared, env_steps, gathered.rollout, steps, agreed.idle)
        hit("trainer.learned")
        self.peers.exchange.settle()
        hit("trainer.settled")
        return Update("learned", agreed.env_steps, agreed.updates, metrics)

    def optimizer_steps_from(
        self, prepared: Batch, env_steps: int, own_steps: int, only_statistics: bool = False, rollout: int = 0
    ) -> int:
        """Return how many optimizer steps a prepared batch will give; so many env steps were learned from before it.

        ``only_statistics``: the rollout was played while this learner lacked statistics, and gives none.
        """
        if only_statistics:
            return 0
        if self.secondary:
            self.secondary.minibatches.count_due(env_steps, own_steps)
        self.minibatches.count_due(env_steps, own_steps)
        return self.minibatches.remaining(prepared, self._done(rollout))

    def pass_over(
        self,
        prepared: Batch,
        env_steps: int,
        rollout: int,
        remaining: int,
        idle: int = 0,
        going_on: Callable[[], bool] | None = None,
    ) -> dict[str, float]:
        """Take the optimizer steps that remain of a rollout; returns metrics of the newest, or of the first skipped.

        A pass may take minutes: ``going_on`` is called between two steps, and Stopped raised when it returns False. A
        pass that was broken off continues later, in this process or in one that restores its state. In the first
        ``idle`` steps others have more left to do, and this learner's gradient counts for nothing.
        """
        going_on = going_on or self.going_on
        self.finite = True
        self._observe(prepared)
        minibatches = self.minibatches.draw(prepared, rollout, remaining, env_steps)
        for step in range(idle + remaining):
            if step and not going_on():
                raise Stopped("told to end among the minibatches of a rollout")
            if step < idle:
                self.peers.exchange.step(self.gradients, self.learning_rates(env_steps, self._rate_share({})))
            else:
                self.learn_from(next(minibatches), env_steps)
        if remaining:
            self.skipped = 0 if self.finite else self.skipped + 1
        metrics = {**self._newest, **self.minibatches.finish()}
        if self.secondary:
            due = self.secondary.minibatches.remaining(prepared, 0)
            own = self.secondary.pass_over(prepared, env_steps, rollout, due, going_on=going_on)
            del own["replay_transitions"]
            metrics |= _as_secondary(own)
        return metrics

    def going_on(self) -> bool:
        """Whether a pass continues: no learner is to end, or this one is to and may finish first."""
        return self.peers.going_on(self.minibatches.finish_s)

    def learn(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Learn from a batch, all of it; returns what ``pass_over`` does."""
        prepared = self.minibatches.prepare(batch)
        remaining = self.minibatches.remaining(prepared, self._done(rollout))
        metrics = self.pass_over(prepared, env_steps, rollout, remaining)
        self.exchange.settle()
        return metrics

    def leave(self, position: Position) -> None:
        """Tell the other learners that this one leaves, and merge what it has learned by itself."""
        try:
            self.exchange.agree(0, 0, position, True)
        except (PeerLost, Stopped):
            self.exchange.break_off()

    def _done(self, rollout: int) -> int:
        """Return how many optimizer steps by this rollout are in the weights."""
        return self.consumed.done(self._number, rollout)

    def _observe(self, prepared: Batch) -> None:
        """Bring the statistics of observations up to date: by rows that were acted upon, each once, no void ones."""
        if not self.normalizes:
            return
        seen, valid = prepared.observation[: len(prepared.valid)], prepared.valid
        seen = seen.flatten(0, 1) if valid.all() else seen[valid]  # a selection is a copy
        complete = self._has_statistics()
        self.peers.exchange.merge(moments_of(seen), merge_into)
        if not complete:
            self._opened_before = self.algorithm_settings.open_rollouts(self.settings.blocks) - 1
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
        rates = self._rates(progress, share)
        if self.norms:
            self.norms.before()
        usable = bool(torch.isfinite(loss)) and isfinite(share)
        stepped = self.peers.exchange.step(self.gradients, rates, usable)
        if self.norms and stepped.taken:
            self.norms.after()
        self.finite &= stepped.taken
        reported = {"learning_rate": share * self._rate(self.optimizer_settings, progress)}
        reported |= {f"{OWN_RATE}{g.name}": rates[g.number] for g in self.groups if g.name in self.own_rates}
        return OptimizerStep(float(loss.detach()), stepped.norm, reported, stepped.taken, metrics)

    def learning_rates(self, env_steps: int, share: float = 1.0) -> list[float]:
        """Return the learning rate of each parameter group after so many steps, all times ``share``."""
        return self._rates(self.settings.schedule_progress(env_steps), share)

    def _rates(self, progress: float, share: float) -> list[float]:
        return [share * self._rate(group.settings, progress) for group in self.groups]

    def _rate_share(self, metrics: Mapping[str, Tensor]) -> float:
        """Return the factor on learning rates that a minibatch's effective sample size gives; one for all in step."""
        scaling = self.optimizer_settings.sample_size_scaling
        if scaling == "none":
            return 1.0
        return scale_rate(1.0, self.exchange.mean(float(metrics.get(SAMPLE_SIZE, 1.0))), scaling)

    def _rate(self, o: OptimizerSettings, progress: float) -> float:
        """Linear from the first to the final value over the schedule, scaled by the number of learners."""
        rate = linear(o.learning_rate, o.learning_rate_final, progress)
        return scale_rate(rate, self.settings.learners, self.settings.rate_scaling)

    # Results -------------------------------------------------------------------------------------------------------

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights to act by, as learned from so many steps; returns their version."""
        if self.secondary and self.secondary_published:
            self.secondary.publish(self.secondary_published, env_steps)
        return published.publish(self.weights.detach().cpu().numpy(), env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the time since the last call, besides those of the newest optimizer step."""
        symptoms = self.diagnosis.row(self._newest.get("entropy"))
        own = {**self.exchange.metrics(), **(self.norms.row() if self.norms else {}), **symptoms}
        return own | (_as_secondary(self.secondary.metrics()) if self.secondary else {})

    def sha256(self) -> str:
        """Fingerprint of the weights, for comparing runs."""
        return hashlib.sha256(self.weights.detach().cpu().numpy().tobytes()).hexdigest()

    # Checkpoints ---------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors that learning changes, by name, for a checkpoint."""
        weights = {f"weights.{name}": tensor for name, tensor in self.network.module.state_dict().items()}
        optimizer = {f"optimizer.{name}": tensor for name, tensor in self.exchange.state().items()}
        outer = {f"outer.{name}": tensor for name, tensor in self.outer.state().items()} if self.outer else {}
        consumed = {"consumed": torch.from_numpy(self.consumed.table)}
        own = {**weights, **optimizer, **outer, **consumed, **self.minibatches.tensors()}
        beside = self.secondary.tensors() if self.secondary else {}
        return own | {f"{SECONDARY}.{name}": tensor for name, tensor in beside.items()}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write large state into files of a checkpoint's folder; returns plain numbers; raises OSError."""
        own = {"told": self._newest, **self.minibatches.save(folder)}  # "told": the key's name in older checkpoints
        own["opened_before_statistics"] = self._opened_before
        return own | ({SECONDARY: self.secondary.save(folder)} if self.secondary else {})

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Restore the state of ``tensors`` and ``save``; ``goes_on``: simulators continue exactly, too."""
        self.network.module.load_state_dict(saved.section("weights"))
        self.exchange.restore(saved.section("optimizer"))
        if self.outer and (outer := saved.section("outer")):
            self.outer.restore(outer)
        elif self.outer:  # the run had none
            self.outer.begin(self.parameters)
        self.consumed.restore(saved.tensors["consumed"].numpy())
        self._newest = dict(saved.state.get("told", {}))
        self._opened_before = saved.state.get("opened_before_statistics", 0) if goes_on else 0
        self.minibatches.restore(saved, goes_on)
        if self.secondary:
            own = replace(saved, tensors=saved.section(SECONDARY), state=saved.state[SECONDARY])
            self.secondary.restore(own, goes_on)


def _as_secondary(metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"{SECONDARY}_{name}": value for name, value in metrics.items()}
