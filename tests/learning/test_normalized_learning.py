"""Learning with normalised observations: each row counts once, and statistics are saved and used for acting."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest
import torch

from actorlearn.acting.policy import Policy
from actorlearn.algorithms.interface import Batch
from actorlearn.learning.make import make
from actorlearn.learning.update import Learning
from actorlearn.parameters import checkpoint
from actorlearn.parameters.consumed import Position
from tests import named
from tests.learning.made import ENVIRONMENTS, HORIZON, batch, learning, trainer_settings
from tests.newest import newest_checkpoint

NORMALIZED = named.model(name="mlp", hidden_sizes=[4], normalize_observation=True)


def shifted(rollout: int) -> Batch:
    """Observations far from 0, other ones in every rollout."""
    observation = batch().observation * (1.0 + rollout) + 100.0
    columns = {name: torch.zeros(HORIZON, ENVIRONMENTS) for name in ("log_prob", "value")}
    valid = batch().valid.clone()
    valid[2, 3] = False
    observation[2, 3] = 1e6  # no action was taken on it
    return dataclasses.replace(batch(), observation=observation, valid=valid, columns=columns)


def resumed(folder: Path, made: Learning, **algorithm: int) -> Learning:
    """Another learner, restored from a checkpoint of the first."""
    checkpoint.save(folder, 0, made.tensors(), {}, 1, made.save)
    other = learning(NORMALIZED, **algorithm)
    other.restore(newest_checkpoint(folder))
    return other


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_each_row_is_counted_once_and_the_optimizer_has_parameters_alone(name: str) -> None:
    made = learning(NORMALIZED, name=name, epochs=3, minibatches=2)
    parameters = made.gradients.numel()
    assert made.weights.numel() == parameters + 1 + 2 + 2
    assert all(tensor.numel() <= parameters for tensor in made.exchange.state().values())
    for rollout in range(2):
        made.learn(shifted(rollout), 0, rollout)
    assert made.network.module.number == 2 * (HORIZON * ENVIRONMENTS - 1)
    seen = torch.cat([shifted(rollout).observation[:-1][shifted(rollout).valid] for rollout in range(2)])
    torch.testing.assert_close(made.weights[parameters + 1 : parameters + 3], seen.mean(0))
    torch.testing.assert_close(made.weights[parameters + 3 :], seen.var(0, correction=0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("blocks", [1, 3])
def test_rollouts_played_without_statistics_are_used_for_statistics_only(blocks: int) -> None:
    rows = HORIZON * ENVIRONMENTS - 1
    model = named.model(name="mlp", hidden_sizes=[4], normalize_observation=True, statistics_rows=rows + 1)
    settings = msgspec.structs.replace(trainer_settings(model), blocks=blocks)
    made = make(settings)
    parameters = made.parameters.clone()
    lacking, collected = [], []
    for rollout in range(6):
        collected.append(made.collected())
        only = made.lacks_statistics
        lacking.append(only)
        prepared = made.minibatches.prepare(shifted(rollout))
        made.pass_over(prepared, 0, Position(rollout), 0 if only else 1)
        made.exchange.settle()
        assert torch.equal(made.parameters, parameters) == only
        parameters = made.parameters.clone()
    # The second rollout completes the statistics; rollouts that were open then were played without them.
    assert lacking == [rollout < 2 + blocks - 1 for rollout in range(6)]
    assert made.network.module.number == 6 * rows, "each row once"
    numbers = [0, rows, *[rows + 1] * (blocks - 1)]
    assert collected[: len(numbers)] == [
        {"statistics_rows_made": number, "statistics_rows_needed": rows + 1} for number in numbers
    ]
    assert collected[len(numbers) :] == [{}] * (6 - len(numbers)), "learning has begun"


def test_learning_continues_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    made = learning(NORMALIZED, epochs=2, minibatches=2)
    made.learn(shifted(0), 0, 0)
    other = resumed(tmp_path, made, epochs=2, minibatches=2)
    assert other.sha256() == made.sha256()
    for one in (made, other):
        one.learn(shifted(1), 100, 1)
    assert other.sha256() == made.sha256()


def test_a_policy_from_a_checkpoint_normalises_observations_as_the_learner_does(tmp_path: Path) -> None:
    made = learning(NORMALIZED)
    made.learn(shifted(0), 0, 0)
    policy = Policy(made.settings.policy, "cpu", seed=99, stream=0)
    checkpoint.save(tmp_path, 0, made.tensors(), {}, 1, made.save)
    policy.network.load_state_dict(newest_checkpoint(tmp_path).section("weights"))
    seen = shifted(3).observation[0]
    for head, output in policy.network(seen).items():
        torch.testing.assert_close(output, made.network.module(seen)[head], rtol=0.0, atol=0.0)
    unaware = learning(NORMALIZED)
    unaware.parameters.copy_(made.parameters)
    assert not torch.allclose(unaware.network.module(seen)["value"], made.network.module(seen)["value"])
