"""Learning with normalised observations: each row counts once, and statistics are saved and used for acting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import torch

from actorlearn.acting.policy import Policy
from actorlearn.address import ByLearner, Shm
from actorlearn.algorithms.interface import Batch
from actorlearn.learning.make import make
from actorlearn.learning.update import Learning
from actorlearn.memory.shared import Segment
from actorlearn.parameters import checkpoint
from actorlearn.parameters.barrier import rows_fields
from actorlearn.parameters.consumed import Position
from actorlearn.parameters.interface import Present
from actorlearn.parameters.mixing import GraphSettings
from actorlearn.parameters.modes import SYNC
from actorlearn.parameters.modes import make as make_exchange
from actorlearn.parameters.published import weights_fields
from actorlearn.parameters.settings import (
    AsyncExchangeSettings,
    ExchangeSettings,
    GossipExchangeSettings,
    SyncExchangeSettings,
)
from actorlearn.parameters.shared_counts import counts_fields
from actorlearn.parameters.store import store_fields
from actorlearn.wire.identity import trainer_id
from tests import named
from tests.learning.made import ENVIRONMENTS, HORIZON, batch, gathered, learning, trainer_settings
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


STEPS = HORIZON * ENVIRONMENTS
LONGER = 10**6
"""A number of total steps for which 10,000 observations are collected before learning begins."""


def begun(folder: Path) -> checkpoint.Checkpoint:
    """A checkpoint of a run that had few total steps, and has learned from two rollouts."""
    made = learning(NORMALIZED)
    for rollout in range(2):
        made.update(gathered(0, rollout), Position(rollout, rollout * STEPS), rollout * STEPS)
    checkpoint.save(folder, 2 * STEPS, made.tensors(), {}, 1, made.save)
    return newest_checkpoint(folder)


def member(learner: int, **changed: int) -> Learning:
    """A learner of a run with many total steps."""
    settings = msgspec.structs.replace(trainer_settings(NORMALIZED), total_steps=LONGER, id=trainer_id(learner))
    return make(msgspec.structs.replace(settings, **changed))


def test_a_run_that_had_no_statistics_collects_them_before_it_learns(tmp_path: Path) -> None:
    """With ``algorithm.epochs: 0``, steps count as used, and neither weights nor statistics learn from them."""
    played = learning(NORMALIZED, epochs=0)
    played.update(gathered(0, 0), Position(0, 0), 0)
    checkpoint.save(tmp_path, STEPS, played.tensors(), {}, 1, played.save)
    made = member(0)
    made.restore(newest_checkpoint(tmp_path))
    assert made.lacks_statistics


def test_a_run_that_has_learned_collects_no_more_statistics_if_it_is_resumed_with_more_steps(tmp_path: Path) -> None:
    made = member(0)
    assert made.lacks_statistics
    made.restore(begun(tmp_path))
    assert not made.lacks_statistics and made.collected() == {}


def test_a_run_that_has_not_learned_collects_more_statistics_if_it_is_resumed_with_more_steps(tmp_path: Path) -> None:
    made = learning(NORMALIZED)
    made.update(gathered(0, 0, steps=0, only_statistics=True), Position(), 0)
    checkpoint.save(tmp_path, 0, made.tensors(), {}, 1, made.save)
    other = member(0)
    other.restore(newest_checkpoint(tmp_path))
    assert other.lacks_statistics
    assert other.collected() == {"statistics_rows_made": STEPS, "statistics_rows_needed": LONGER // 100}


def test_learners_of_other_numbers_do_not_collect_statistics_for_weights_that_have_learned(tmp_path: Path) -> None:
    """A checkpoint of learner 2 has rows for three learners; the run that is resumed from it has one."""
    made = member(2)
    made.restore(begun(tmp_path / "first"))
    made.update(gathered(2, 0), Position(), 0)
    checkpoint.save(tmp_path / "second", STEPS, made.tensors(), {}, 1, made.save)
    other = member(0)
    other.restore(newest_checkpoint(tmp_path / "second"))
    assert not other.lacks_statistics


@contextmanager
def joined(folder: Path, mode: str, made: list[Learning]) -> Iterator[None]:
    """Let these learners exchange in a mode; the run began with the first alone, and the others were attached."""
    size, parameters, optimizer = made[0].weights.numel(), made[0].gradients.numel(), made[0].optimizer_settings
    members = [trainer_id(number) for number in range(len(made))]
    Segment.create(folder / "counts", counts_fields(64)).close()
    Segment.create(folder / "gradients", rows_fields(len(made), size)).close()
    vectors = len(optimizer.state_vectors)
    Segment.create(folder / "store", store_fields(parameters, vectors, size - parameters, len(made))).close()
    for number, each in enumerate(made):
        Segment.create(folder / f"messages-{number}", weights_fields(size)).close()
        sync = SyncExchangeSettings(rendezvous=Shm(f"{folder}/learners"), gradients=Shm(f"{folder}/gradients"))
        settings: Mapping[str, ExchangeSettings] = {
            "sync": SYNC.among(sync, members, members[number], 1),
            "async": AsyncExchangeSettings(store=Shm(f"{folder}/store")),
            "gossip": GossipExchangeSettings(
                rank=number,
                learners=1,
                counts=Shm(f"{folder}/counts"),
                messages=ByLearner(Shm(f"{folder}/messages")),
                graph=GraphSettings(name="complete"),
            ),
        }
        learner = dataclasses.replace(each.peers.learner, present=lambda: Present(range(len(made))))
        each.peers.exchange = make_exchange(settings[mode], learner)
    try:
        yield
    finally:
        for each in made:
            each.exchange.close()


@pytest.mark.parametrize("mode", ["sync", "async", "gossip"])
def test_a_learner_that_is_attached_to_a_resumed_run_collects_no_more_statistics(tmp_path: Path, mode: str) -> None:
    first, attached = member(0, learners=2), member(1, learners=2)
    first.restore(begun(tmp_path / "saved"))
    assert attached.lacks_statistics
    with joined(tmp_path, mode, [first, attached]):
        if mode == "sync":
            with ThreadPoolExecutor() as threads:
                joining = threads.submit(first.exchange.join, 2 * STEPS, 2, Position(2, 2 * STEPS))
                attached.exchange.join(0, 0)
                joining.result()
        else:
            first.exchange.join(2 * STEPS, 2, Position(2, 2 * STEPS))
            first.update(gathered(0, 2), Position(2, 2 * STEPS), 2 * STEPS)
            attached.exchange.join(0, 0)
        assert not attached.lacks_statistics


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
