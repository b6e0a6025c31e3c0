"""Sequences of a replay as batches: burn-in and the rows that returns reach, against passes row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.learning.items import batch_of, following_outputs, without_burn_in
from actorlearn.replay.buffer import Sample
from actorlearn.worker.passes import FlatNetwork
from actorlearn.worker.staging import Staging
from tests import named
from tests.learning.made import learning

LENGTH, STEPS, COUNT, SIZE = 6, 2, 5, 3
ROWS = LENGTH + STEPS


def network(recurrence: str = "gru") -> FlatNetwork:
    return learning(named.model(name="mlp", hidden_sizes=[4], recurrence=recurrence, recurrent_size=SIZE)).network


def sample(state_size: int = SIZE, length: int = LENGTH) -> Sample:
    """Sequences with games that begin anywhere but in row 0."""
    random = np.random.default_rng(3)
    rows, shape = length + STEPS, (length, COUNT)
    first = random.random((rows, COUNT)) < 0.3
    first[0] = False
    return Sample(
        observation=random.normal(size=(rows, COUNT, 2)).astype(np.float32),
        first=first,
        state=random.normal(size=(COUNT, state_size)).astype(np.float32),
        valid=random.random(shape) < 0.8,
        action=random.integers(2, size=shape),
        reward=random.normal(size=shape).astype(np.float32),
        discount=random.random(shape).astype(np.float32),
        reached=np.arange(length)[:, None] + random.integers(1, STEPS + 1, size=shape),
        cell=np.arange(COUNT),
        position=np.arange(COUNT),
        probability=np.full(COUNT, 0.1),
    )


def batch(state_size: int = SIZE) -> Batch:
    return batch_of(sample(state_size), np.arange(1, COUNT + 1, dtype=np.float32), Staging("cpu"))


@torch.no_grad()
def one_by_one(network: FlatNetwork, drawn: Sample) -> tuple[Tensor, Tensor]:
    """First output [R, B] and state before each row [R, B, S], row by row and game by game."""
    outputs, states = torch.zeros(ROWS, COUNT), torch.zeros(ROWS, COUNT, network.state_size)
    for b in range(COUNT):
        state = torch.from_numpy(drawn.state[b : b + 1])
        for t in range(ROWS):
            if drawn.first[t, b]:
                state = torch.zeros_like(state)
            states[t, b] = state[0]
            seen = torch.from_numpy(drawn.observation[t : t + 1, b : b + 1])
            made, state = network.module(seen, state, torch.zeros(1, 1, dtype=torch.bool))
            outputs[t, b] = next(iter(made.values()))[0, 0, 0]
    return outputs, states


@pytest.mark.parametrize("burn_in", [0, 1, 3, 5])
@pytest.mark.parametrize("recurrence", ["gru", "lstm"])
def test_a_burn_in_leaves_the_networks_own_state_and_the_rows_after_it(recurrence: str, burn_in: int) -> None:
    made = network(recurrence)
    drawn, whole = sample(made.state_size), batch(made.state_size)
    outputs, states = one_by_one(made, drawn)
    with torch.no_grad():
        burnt = without_burn_in(whole, made, burn_in)
        reached = following_outputs(whole, made, burn_in)
        again = made.outputs(burnt)
    begun = torch.from_numpy(drawn.first[burn_in])[:, None]  # whatever the state was, it does not count there
    torch.testing.assert_close(burnt.columns["state"][0].where(~begun, 0.0), states[burn_in].where(~begun, 0.0))
    torch.testing.assert_close(next(iter(again.values()))[..., 0], outputs[burn_in:])
    torch.testing.assert_close(next(iter(reached.values()))[..., 0], outputs[burn_in + 1 :])
    assert torch.equal(burnt.observation, torch.from_numpy(drawn.observation[burn_in:]))
    for name in ("action", "reward", "valid", "first"):
        assert torch.equal(getattr(burnt, name), torch.from_numpy(getattr(drawn, name)[burn_in:]))
    assert torch.equal(burnt.columns["discount"], torch.from_numpy(drawn.discount[burn_in:]))
    assert torch.equal(burnt.columns["reached"], torch.from_numpy(drawn.reached[burn_in:] - burn_in))
    assert burnt.columns["weight"].tolist() == [[1, 2, 3, 4, 5]] * (LENGTH - burn_in)


def test_sequences_for_networks_without_memory_have_no_state() -> None:
    made, whole = learning().network, batch(state_size=0)
    assert "state" not in whole.columns
    burnt = without_burn_in(whole, made, 2)
    with torch.no_grad():
        reached, all_rows = following_outputs(whole, made, 2), made.outputs(whole)
    for name, output in all_rows.items():
        torch.testing.assert_close(reached[name], output[3:])
    assert len(burnt.observation) == ROWS - 2
