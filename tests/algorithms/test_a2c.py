"""The A2C loss by hand and by its properties; tests/algorithms/test_losses.py has the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from actorlearn.algorithms.a2c import A2C
from tests.algorithms.episodes import (
    ENDS,
    GO,
    LIFE,
    RESET,
    TERMINATED,
    TRUNCATED,
    batch_of,
    random_outputs,
    rows_of,
)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("bootstrap", [False, True])
def test_two_episodes_in_one_block_equal_the_episodes_apart(end, bootstrap):
    settings = A2C.Settings(bootstrap_on_truncation=bootstrap)
    batch = batch_of([GO, LIFE, end, RESET, GO, GO])
    outputs = random_outputs(batch)
    loss, _ = A2C(settings).loss(outputs, batch, 0.0)
    whole = torch.autograd.grad(loss, outputs["logits"])[0] * 5  # back from the mean over 5 valid transitions
    for start, stop in ((0, 3), (4, 6)):
        part = {name: output.detach()[start : stop + 1].requires_grad_() for name, output in outputs.items()}
        part_loss, _ = A2C(settings).loss(part, rows_of(batch, start, stop), 0.0)
        alone = torch.autograd.grad(part_loss, part["logits"])[0] * (stop - start)
        torch.testing.assert_close(alone[:-1], whole[start:stop])


def test_a_block_of_short_returns_equals_short_blocks():
    batch = batch_of([GO, LIFE, GO, TERMINATED, RESET, GO, GO])
    outputs = random_outputs(batch)
    _, metrics = A2C(A2C.Settings(return_steps=3)).loss(outputs, batch, 0.0)
    parts = []
    for start, stop in ((0, 3), (3, 6), (6, 7)):
        part = {name: output[start : stop + 1] for name, output in outputs.items()}
        rows = rows_of(batch, start, stop)
        _, own = A2C(A2C.Settings()).loss(part, rows, 0.0)
        parts.append((int(rows.valid.sum()), own))
    for name in ("policy_loss", "value_loss", "return_mean"):
        assert metrics[name].item() == pytest.approx(sum(n * own[name].item() for n, own in parts) / 6, rel=1e-5)
    _, whole = A2C(A2C.Settings()).loss(outputs, batch, 0.0)
    assert whole["return_mean"].item() != pytest.approx(metrics["return_mean"].item())


def test_the_loss_of_one_transition_equals_that_computed_by_hand():
    """One transition, two equal logits: R = 1 + .5 * 2, advantage 2 - 1, loss 5 * (ln 2 * 1 + .25 * 1 - .02 * ln 2)."""
    batch = replace(batch_of([GO]), reward=torch.ones(1, 1), action=torch.zeros(1, 1, dtype=torch.int64))
    outputs = {"logits": torch.zeros(2, 1, 2), "value": torch.tensor([1.0, 2.0]).reshape(2, 1, 1)}
    loss, metrics = A2C(A2C.Settings(discount=0.5)).loss(outputs, batch, 0.0)
    assert loss.item() == pytest.approx(5 * (math.log(2) + 0.25 - 0.02 * math.log(2)))
    assert metrics["policy_loss"].item() == pytest.approx(math.log(2))
    assert metrics["value_loss"].item() == pytest.approx(1.0)
    assert metrics["entropy"].item() == pytest.approx(math.log(2))
    assert metrics["value_mean"].item() == 1.0
    assert metrics["return_mean"].item() == 2.0


def test_explained_variance_is_one_for_values_that_are_the_returns_up_to_a_constant():
    batch = batch_of([TERMINATED, RESET, TRUNCATED, RESET, TERMINATED])
    value = torch.zeros(6, 1, 1)
    value[:-1, :, 0] = batch.reward + 0.5
    outputs = {"logits": torch.zeros(6, 1, 3), "value": value}
    _, metrics = A2C(A2C.Settings(reward_clip=None)).loss(outputs, batch, 0.0)
    assert metrics["explained_variance"].item() == pytest.approx(1.0)
    _, metrics = A2C(A2C.Settings(reward_clip=None)).loss({**outputs, "value": value * 0}, batch, 0.0)
    assert metrics["explained_variance"].item() == pytest.approx(0.0, abs=1e-6)


def test_certain_policies_give_finite_losses():
    batch = batch_of([GO, GO])
    logits = torch.tensor([1000.0, 0.0, -1000.0]).repeat(3, 1, 1).requires_grad_()
    loss, metrics = A2C(A2C.Settings()).loss({"logits": logits, "value": torch.zeros(3, 1, 1)}, batch, 0.0)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logits.grad).all()
    assert metrics["entropy"].item() == 0.0
