"""Contract tests for an algorithm: it must act and learn as ``actorlearn.algorithms.interface`` describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import torch
from torch import Tensor

from actorlearn.actions import Actions, cell, choices, draw
from actorlearn.algorithms.interface import PRIORITY, Algorithm, Batch, Bootstraps, MultiNetworkAlgorithm
from actorlearn.algorithms.make import extra_networks, make
from actorlearn.algorithms.settings import ALGORITHMS, AlgorithmSettings, AlgorithmSpec, OnPolicySettings
from actorlearn.algorithms.state import unchanged
from actorlearn.models.make import make as make_model
from actorlearn.models.several import networks
from actorlearn.models.specs import MLPSettings
from actorlearn.tasks.hidden_state import hidden_state
from actorlearn.tasks.rehearse import check_columns, check_heads

HORIZON, ENVIRONMENTS = 6, 4


class AlgorithmContract:
    """Tests of one algorithm; derive a class whose name begins with ``Test``, and set ``section``."""

    section: ClassVar[Mapping[str, Any]]
    """The section ``algorithm`` of a topology: ``{"name": "my_package:MyAlgorithm"}``."""
    actions: ClassVar[Actions] = 3
    """Space of the actions: n for Discrete, (n,) for Box, ``MultiDiscrete(sizes)``."""

    settings: ClassVar[AlgorithmSettings]

    @classmethod
    def setup_class(cls) -> None:
        """Read the settings from ``section``."""
        settings = ALGORITHMS.read(cls.section)
        on_policy = isinstance(settings, OnPolicySettings)
        cls.settings = msgspec.structs.replace(settings, horizon=HORIZON) if on_policy else settings

    def spec(self) -> AlgorithmSpec:
        """Return the algorithm's spec."""
        return ALGORITHMS.spec(self.settings.name)

    def algorithm(self) -> Any:
        """Make the algorithm, and call ``heads`` with the action space, as every process does."""
        algorithm = make(self.settings)
        algorithm.heads(self.actions)
        return algorithm

    def outputs(self, *rows: int, seed: int = 0) -> dict[str, Tensor]:
        """Draw random network outputs, [*rows, size] for each head."""
        generator = torch.Generator().manual_seed(seed)
        sizes = self.algorithm().heads(self.actions)
        return {name: torch.randn(*rows, size, generator=generator) for name, size in sizes.items()}

    def batch(self) -> Batch:
        """Return a batch to learn from: a rollout in which games end and begin, or transitions from a replay."""
        algorithm = self.algorithm()
        return self._replayed() if self.spec().replayed else self._played(algorithm)

    def _played(self, algorithm: Algorithm) -> Batch:
        terminated, truncated, nothing = torch.zeros(3, HORIZON, ENVIRONMENTS, dtype=torch.bool)
        terminated[1, 0] = terminated[4, 3] = truncated[2, 1] = True
        valid = torch.ones(HORIZON, ENVIRONMENTS, dtype=torch.bool)
        valid[1:] = ~(terminated | truncated)[:-1]  # the transition after a game's end is the reset
        acted = algorithm.act(self.outputs(HORIZON * ENVIRONMENTS), torch.Generator().manual_seed(1))
        columns = {name: value.reshape(HORIZON, ENVIRONMENTS, *value.shape[1:]) for name, value in acted.items()}
        return Batch.plain(
            observation=torch.zeros(HORIZON + 1, ENVIRONMENTS, 1),
            action=columns.pop("action"),
            reward=torch.randn(HORIZON, ENVIRONMENTS, generator=torch.Generator().manual_seed(2)).where(valid, 0.0),
            terminated=terminated,
            truncated=truncated,
            first=torch.cat([nothing[:1], ~valid]),
            valid=valid,
            columns=columns,
        )

    def _replayed(self) -> Batch:
        length = HORIZON if self.spec().sequences else 1
        shape, generator = (length, 8), torch.Generator().manual_seed(2)
        ended = (torch.arange(8) % 3 == 0).expand(shape)
        return Batch.plain(
            observation=torch.zeros(length + 1, 8, 1),
            action=torch.from_numpy(draw(self.actions, shape, np.random.default_rng(0))),
            reward=torch.randn(shape, generator=generator),
            terminated=ended,
            columns={
                "discount": torch.full(shape, 0.9).where(~ended, 0.0),
                "weight": torch.ones(shape),
                "reached": torch.arange(1, length + 1)[:, None].expand(shape),
            },
        )

    def learned(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Make the calls of one update with a new algorithm.

        Returns the loss, the metrics, and the gradients: those of the network outputs by head, or for an algorithm with
        several networks those of each network's parameters.
        """
        return self.learned_by(self.algorithm(), batch)

    def learned_by(self, algorithm: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Make the calls of `learned` with this algorithm."""
        count = batch.action.shape[1]
        with torch.no_grad(), unchanged(algorithm, "prepare"):
            last = self.outputs(algorithm.prepared_rows, count, seed=3) if algorithm.prepared_rows else {}
            if self.spec().replayed:
                target = self.outputs(len(batch.first) - 1, count, seed=4)
                last |= {f"target.{name}": output for name, output in target.items()}
            prepared = algorithm.prepare(batch, last)
        if isinstance(algorithm, MultiNetworkAlgorithm):
            return self._by_networks(algorithm, prepared)
        outputs = self.outputs(*prepared.observation.shape[:2], seed=5)
        for output in outputs.values():
            output.requires_grad_()
        loss, metrics = algorithm.loss(outputs, prepared, 0.5)
        loss.backward()
        gradients = {name: output.grad for name, output in outputs.items() if output.grad is not None}
        return loss.detach(), dict(metrics), gradients

    def _by_networks(self, algorithm: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Make an update of an algorithm with several networks, with perceptrons as the networks; see `learned`."""
        shape, heads = tuple(batch.observation.shape[2:]), algorithm.heads(self.actions)
        extra = extra_networks(algorithm, self.actions)
        own, older = (networks(make_model(MLPSettings(), shape, "float32", heads, seed, extra)) for seed in (5, 4))
        asked = {**own, **{f"target.{name}": network.requires_grad_(False) for name, network in older.items()}}
        losses, metrics = algorithm.losses(asked, batch, torch.Generator().manual_seed(6), 0.5)
        assert losses.keys() <= own.keys(), "the names of losses must be names of networks"
        gradients = {}
        for name, loss in losses.items():
            parameters = list(own[name].parameters())
            slopes = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
            gradients[name] = torch.cat([slope.flatten() for slope in slopes])
        return torch.stack([loss.detach() for loss in losses.values()]).sum(), dict(metrics), gradients

    def test_it_asks_for_outputs_and_columns_that_there_can_be(self) -> None:
        """Sizes of heads are 1 or more, and each column has a numpy dtype and a shape."""
        algorithm = self.algorithm()
        check_heads(algorithm.heads(self.actions))
        check_columns(algorithm.columns(self.actions))

    def test_an_action_is_one_of_those_there_are(self) -> None:
        """``act`` returns valid actions, greedy or not, and exactly the columns that ``columns`` names."""
        algorithm, rows = self.algorithm(), 50
        dtype, shape = cell(self.actions)
        for greedy in (False, True):
            acted = algorithm.act(self.outputs(rows), torch.Generator().manual_seed(0), greedy=greedy)
            action = acted.pop("action")
            assert (str(action.dtype), tuple(action.shape)) == (f"torch.{dtype}", (rows, *shape))
            if not isinstance(self.actions, tuple):
                assert (action >= 0).all() and (action < torch.as_tensor(choices(self.actions))).all()
            columns = algorithm.columns(self.actions)
            assert acted.keys() == columns.keys() or (greedy and acted.keys() <= columns.keys())
            for name, (kind, of_one) in columns.items():
                if name in acted:
                    found = (str(acted[name].dtype), tuple(acted[name].shape))
                    assert found == (f"torch.{kind}", (rows, *of_one)), name

    def test_the_generator_alone_is_chance(self) -> None:
        """Actions depend only on outputs and generator; with ``greedy``, ``act`` draws no random numbers."""
        algorithm, outputs = self.algorithm(), self.outputs(50)
        before = torch.random.get_rng_state()
        one, same = (algorithm.act(outputs, torch.Generator().manual_seed(1))["action"] for _ in range(2))
        assert torch.equal(one, same)
        generator = torch.Generator().manual_seed(1)
        untouched = generator.get_state()
        greedy = algorithm.act(outputs, generator, greedy=True)["action"]
        assert torch.equal(generator.get_state(), untouched), (
            "act with greedy=True must not draw random numbers, but it drew from the generator"
        )
        other = algorithm.act(outputs, torch.Generator().manual_seed(2), greedy=True)["action"]
        assert torch.equal(greedy, other)
        assert torch.equal(before, torch.random.get_rng_state()), "the algorithm drew from torch's global generator"

    def test_a_loss_is_a_finite_number_with_a_gradient(self) -> None:
        """The loss is finite and has a gradient; metrics are finite scalars, except "priority" with a replay."""
        batch = self.batch()
        loss, metrics, gradients = self.learned(batch)
        assert loss.shape == () and torch.isfinite(loss)
        assert gradients and any(gradient.any() for gradient in gradients.values())
        assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
        assert not [name for name, metric in metrics.items() if metric.requires_grad], "detach the metrics"
        if PRIORITY in metrics:
            priority = metrics.pop(PRIORITY)
            assert priority.shape == (1, batch.valid.shape[1]) and (priority >= 0).all()
        wrong = [name for name, metric in metrics.items() if metric.numel() != 1 or not torch.isfinite(metric)]
        assert not wrong, f"the metrics {wrong} must each be one finite number"

    def test_nothing_goes_back_from_rows_to_bootstrap_from(self) -> None:
        """The loss has no gradient for the last ``bootstrap_rows`` observations, because trainers do not compute it."""
        algorithm = self.algorithm()
        rows = algorithm.bootstrap_rows if isinstance(algorithm, Bootstraps) else 0
        _, _, gradients = self.learned(self.batch())
        moved = [name for name, gradient in gradients.items() if rows and gradient[-rows:].any()]
        assert not moved, (
            f"the outputs {moved} have a gradient in the last {rows} rows; detach them there, or set "
            "bootstrap_rows to 0"
        )

    def test_what_is_not_valid_counts_for_nothing(self) -> None:
        """The gradient does not depend on actions and rewards where ``valid`` is False."""
        batch = self.batch()
        if batch.valid.all():
            batch = replace(batch, valid=torch.arange(batch.valid.numel()).reshape(batch.valid.shape) % 2 == 0)
        void = ~batch.valid
        where = void.reshape(*void.shape, *[1] * (batch.action.ndim - 2))
        other = replace(
            batch,
            reward=torch.where(void, 1e6, batch.reward),
            action=torch.where(where, torch.zeros_like(batch.action), batch.action),
        )
        (loss, _, gradients), (same, _, of_other) = self.learned(batch), self.learned(other)
        torch.testing.assert_close(loss, same)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, of_other[name], msg=name)

    def test_a_batch_without_a_valid_transition_changes_nothing(self) -> None:
        """If no transition is valid, as in a rollout that is too old, the loss is finite and its gradient is zero."""
        batch = self.batch()
        loss, _, gradients = self.learned(replace(batch, valid=torch.zeros_like(batch.valid)))
        assert torch.isfinite(loss)
        assert not any(gradient.any() for gradient in gradients.values())

    def test_a_batch_is_learned_from_alike_each_time_and_left_as_it_is(self) -> None:
        """Equal batches give equal losses, and ``prepare`` and ``loss`` do not change the batch."""
        batch, before = self.batch(), torch.random.get_rng_state()
        kept = batch.environments(torch.arange(batch.action.shape[1]))
        (loss, _, gradients), (again, _, of_again) = self.learned(batch), self.learned(batch)
        assert torch.equal(before, torch.random.get_rng_state()), "the algorithm drew from torch's global generator"
        assert torch.equal(loss, again)
        assert all(torch.equal(gradient, of_again[name]) for name, gradient in gradients.items())
        names = [name for name in Batch.__slots__ if name != "columns"]
        changed = [name for name in names if not torch.equal(getattr(batch, name), getattr(kept, name))]
        assert not changed, f"prepare and loss must not change the batch, but one of them changed {changed}"

    def test_checkpoints_contain_all_its_state(self) -> None:
        """An algorithm has no state except ``state`` (`KeepsState`), which only ``loss`` changes.

        After some updates, a new object to which this state is copied gives the same results as the old one.
        """
        batch, rows = self.batch(), self.outputs(50)

        def update(algorithm: Any, number: int) -> list[Tensor]:
            generator = torch.Generator().manual_seed(number)
            reward = torch.randn(batch.reward.shape, generator=generator).where(batch.valid, 0.0)
            with unchanged(algorithm, "act"):
                acted = algorithm.act(rows, generator)
            loss, metrics, gradients = self.learned_by(algorithm, replace(batch, reward=reward))
            return [*acted.values(), loss, *metrics.values(), *gradients.values()]

        assert hidden_state(self.algorithm, update) == ""
