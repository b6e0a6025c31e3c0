"""The update that one batch makes: outputs, loss, gradient, step; epochs over it in parts.

Reads: a ``Batch``, and its rollout's number. Writes: flat weights and optimizer state. Knows no blocks and no messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.make import make as make_algorithm
from actorlearn.algorithms.settings import OnPolicySettings
from actorlearn.learning.norms import Norms
from actorlearn.models.make import flatten, set_layout
from actorlearn.models.make import make as make_model
from actorlearn.models.normalize import Normalized, merge_into, moments_of
from actorlearn.models.unroll import state_size
from actorlearn.optim.schedules import linear, scaled
from actorlearn.optim.specs import OptimizerSettings
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Consumed
from actorlearn.parameters.interface import Exchange, Learner, Place, Present, Stopped
from actorlearn.parameters.modes import make as make_exchange
from actorlearn.parameters.published import Published
from actorlearn.parameters.settings import AloneExchange, ExchangeSettings
from actorlearn.replay.buffer import Replay
from actorlearn.worker.passes import ComputePool, Passes
from actorlearn.worker.settings import TrainerSettings


class Update(NamedTuple):
    """One optimizer step."""

    loss: float
    gradient_norm: float
    """Before clipping."""
    learning_rate: float
    taken: bool
    """False: something was not finite, and nothing was changed."""
    metrics: dict[str, Tensor]
    """The algorithm's own, one number each."""

    def reported(self) -> dict[str, float]:
        """Return what a report says of it."""
        own = {name: float(value) for name, value in self.metrics.items()}
        return own | {"loss": self.loss, "gradient_norm": self.gradient_norm, "learning_rate": self.learning_rate}


class Learning:
    """Network, loss and optimizer; one ``update`` is the whole of what learning does to the weights."""

    finish_s = 5.0
    """For what is left of a pass once it is time to end: what is learned of a part of it counts no steps."""
    replay: Replay | None = None
    """The replay that is learned from, where that is not the batch itself."""

    def __init__(
        self,
        settings: TrainerSettings,
        place: Callable[[], Place] = Place,
        beat: Callable[[], object] = lambda: None,
        optimizer: OptimizerSettings | None = None,
    ) -> None:
        """Build everything from the settings, weights drawn from the seed.

        ``place`` says how far this learner is with its own experience; ``beat`` shows a sign of life while something
        takes long; ``optimizer`` is not as in the settings where minibatches are of another size.
        """
        policy = settings.policy
        self.settings = settings
        self.algorithm_settings = policy.algorithm
        self.algorithm = make_algorithm(policy.algorithm)
        self.network = make_model(
            policy.model,
            policy.observation_shape,
            policy.observation_dtype,
            self.algorithm.heads(policy.actions),
            settings.seed,
        ).to(settings.device)
        set_layout(self.network, settings.layout)
        self.weights, self.gradients = flatten(self.network)
        self.parameters = self.weights[: self.gradients.numel()]  # the rest are statistics
        self.state_size = state_size(self.network)
        self.norms = Norms(self.network, self.parameters, self.gradients) if settings.norms else None
        self.columns = [*self.algorithm.columns(policy.actions), *(["state"] if self.state_size else [])]
        """Columns of batches, besides those that all have."""
        self.pool = ComputePool(settings.threads if settings.device == "cpu" else 1)
        self.passes = self.passes_of(self.network, self.gradients)
        self.optimizer_settings = optimizer or settings.optimizer
        self.consumed = Consumed(max(settings.learners, settings.learner + 1))
        self.place, self.beat = place, beat
        self.learner = Learner(
            *(self.optimizer_settings, self.weights, self.gradients),
            place=place,
            number=settings.learner,
            consumed=self.consumed,
            spread=self.pool.spread,
        )
        self.exchange: Exchange = make_exchange(AloneExchange(), self.learner)
        """The way from a gradient to new weights: by this learner alone, until others are joined."""
        self.finite = True
        self.skipped = 0
        """Batches in a row with an update that was skipped because it was not finite."""

    def passes_of(self, network: nn.Module, gradients: Tensor | None = None) -> Passes:
        """Passes of a network on this learner's cores; without gradients only forward ones."""
        return Passes(network, self.pool, self.settings.precision, gradients, self.settings.compile)

    def exchange_by(
        self,
        settings: ExchangeSettings,
        alive: Callable[[], bool],
        present: Callable[[], Present] = Present,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Exchange in another way, or with others, from now on; what the optimizer remembers goes along."""
        learner = replace(self.learner, alive=alive, present=present, warn=warn)
        if not settings.together:
            self.consumed.know_only(self.settings.learner)
        before, self.exchange = self.exchange, make_exchange(settings, learner)
        self.exchange.restore(before.state())
        before.close()

    def learning_rate(self, env_steps: int) -> float:
        """Linear from the first to the final value over ``total_steps``, scaled by the number of learners."""
        o, s = self.optimizer_settings, self.settings
        rate = linear(o.learning_rate, o.learning_rate_final, env_steps / s.total_steps)
        return scaled(rate, s.learners, s.rate_scaling)

    def learn(self, batch: Batch, env_steps: int, rollout: int) -> dict[str, float]:
        """Learn from a batch, all of it; returns what ``pass_over`` does."""
        metrics = self.pass_over(self.prepare(batch), env_steps, rollout)
        self.exchange.settle()
        return metrics

    def updates_from(self, prepared: Batch, env_steps: int, own_steps: int) -> int:
        """Return the optimizer steps that a prepared batch will give, so many steps having been learned from before."""
        done = self.consumed.done(self.settings.learner, self.place().rollout)
        return self.algorithm_settings.epochs * self._parts(prepared) - done

    def _parts(self, prepared: Batch) -> int:
        a = self.algorithm_settings
        return min(a.minibatches if isinstance(a, OnPolicySettings) else 1, prepared.action.shape[1])

    def pass_over(
        self, batch: Batch, env_steps: int, rollout: int, going_on: Callable[[], bool] = lambda: True
    ) -> dict[str, float]:
        """Pass over a prepared batch ``epochs`` times, in parts; returns the metrics of the last update.

        Those of the first skipped one, if any. A part is drawn, along the second dimension, from seed and rollout: a
        pass that was broken off goes on where it was. A pass may take minutes: ``going_on`` is asked between two
        updates, and Stopped raised where it says no.
        """
        if not self.algorithm_settings.epochs:
            return {}
        self.finite = True
        metrics: dict[str, float] = {}
        if isinstance(self.network, Normalized):  # by the rows that were acted upon, each once, and no void ones
            self.exchange.merge(moments_of(batch.observation[: len(batch.valid)][batch.valid]), merge_into)
        for steps in range(self.exchange.idle):
            if steps:
                go_on(going_on)
            self.exchange.step(self.gradients, self.learning_rate(env_steps))
        done = self.consumed.done(self.settings.learner, rollout)
        for index, chosen in enumerate(self._minibatches(batch, rollout)):
            if index < done:
                continue
            if self.exchange.idle + index > done:
                go_on(going_on)
            part = batch if self._parts(batch) == 1 else batch.environments(chosen)
            finite, update = self.finite, self.update(part, env_steps)
            metrics = update.reported() if finite else metrics  # those of the first skipped one stay
        self.skipped = 0 if self.finite else self.skipped + 1
        return metrics

    def _minibatches(self, batch: Batch, rollout: int) -> Iterator[Tensor]:
        """Environments of each minibatch, epoch after epoch."""
        generator = torch.Generator().manual_seed((self.settings.seed << 32) + rollout)
        for _ in range(self.algorithm_settings.epochs):
            order = torch.randperm(batch.action.shape[1], generator=generator)
            yield from order.tensor_split(self._parts(batch))

    @torch.no_grad()
    def prepare(self, batch: Batch) -> Batch:
        """Work out once what all epochs over a batch have in common."""
        if not self.algorithm_settings.epochs:
            return batch
        last = self.algorithm.prepared_rows
        return self.algorithm.prepare(batch, self.outputs(batch, last) if last else {})

    def outputs(self, batch: Batch, last: int = 0) -> dict[str, Tensor]:
        """Return outputs of one forward pass for all rows of a batch, or the ``last``: {head: [rows, B, size]}.

        A recurrent network passes over all rows, from the state it had when it acted on the first.
        """
        state = batch.columns["state"][0] if self.state_size else None
        observation = batch.observation if self.state_size else batch.observation[-last:]
        outputs, _ = self.passes.forward(observation, state, batch.first)
        return {name: output[-last:] for name, output in outputs.items()}

    def update(self, batch: Batch, env_steps: int) -> Update:
        """One forward pass, one backward pass, one step. Non-finite updates change nothing."""
        progress = min(env_steps / self.settings.total_steps, 1.0)
        loss, metrics = self.algorithm.loss(self.outputs(batch), batch, progress)
        self.passes.backward(loss)
        learning_rate = self.learning_rate(env_steps)
        if self.norms:
            self.norms.before()
        stepped = self.exchange.step(self.gradients, learning_rate, bool(torch.isfinite(loss)))
        if self.norms and stepped.taken:
            self.norms.after()
        self.finite &= stepped.taken
        return Update(float(loss.detach()), stepped.norm, learning_rate, stepped.taken, metrics)

    def publish(self, published: Published, env_steps: int) -> int:
        """Publish the weights to act by, as learned from so many steps; returns their version."""
        return published.publish(self.weights.detach().cpu().numpy(), env_steps)

    def metrics(self) -> dict[str, Any]:
        """Return what a report says besides the newest update's metrics: of the time since the last call."""
        return {**self.exchange.metrics(), **(self.norms.row() if self.norms else {})}

    def save(self, folder: Path) -> dict[str, Any]:
        """Write what is too long for tensors into a checkpoint's folder, and return its state; raises OSError."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Everything that learning changes, by name, for a checkpoint."""
        weights = {f"weights.{name}": tensor for name, tensor in self.network.state_dict().items()}
        optimizer = {f"optimizer.{name}": tensor for name, tensor in self.exchange.state().items()}
        return {**weights, **optimizer, "consumed": self.consumed.table}

    def restore(self, saved: checkpoint.Checkpoint, goes_on: bool = False) -> None:
        """Take back what ``tensors`` and ``save`` gave; ``goes_on``: simulators do so too, exactly where they stood."""
        self.network.load_state_dict(saved.section("weights"))
        self.exchange.restore(saved.section("optimizer"))
        self.consumed.restore(saved.tensors["consumed"])

    def sha256(self) -> str:
        """Fingerprint of the weights, for comparing runs."""
        return hashlib.sha256(self.weights.detach().cpu().numpy().tobytes()).hexdigest()


def go_on(going_on: Callable[[], bool]) -> None:
    """Raise Stopped where it is time to end."""
    if not going_on():
        raise Stopped("told to end among the minibatches of a batch")
