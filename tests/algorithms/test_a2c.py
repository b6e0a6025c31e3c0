"""The A2C loss against autograd of the slow reference, its properties, and its choice of actions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from actorlearn.algorithms.a2c import A2C
from actorlearn.algorithms.interface import AlgorithmSettings
from tests import reference
from tests.algorithms.episodes import (
    ENDS,
    GO,
    LIFE,
    RESET,
    TERMINATED,
    TRUNCATED,
    batch_of,
    batches,
    random_outputs,
    rows_of,
    settings_of_all_kinds,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(batches(), settings_of_all_kinds)
def test_loss_and_gradient_equal_the_slow_reference(batch, settings):
    outputs = random_outputs(batch)
    loss, _ = A2C(settings).loss(outputs, batch, 0.0)
    found = torch.autograd.grad(loss, list(outputs.values()))
    slow = reference.a2c_loss(outputs["logits"], outputs["value"].squeeze(-1), batch, settings)
    torch.testing.assert_close(loss, slow, rtol=1e-6, atol=1e-6)
    if batch.valid.any():
        expected = torch.autograd.grad(slow, list(outputs.values()))
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@given(batches(), settings_of_all_kinds)
def test_ignored_transitions_and_the_bootstrap_row_have_exactly_no_gradient(batch, settings):
    outputs = random_outputs(batch)
    loss, _ = A2C(settings).loss(outputs, batch, 0.0)
    loss.backward()
    for output in outputs.values():
        assert torch.all(output.grad[:-1][~batch.valid] == 0.0)
        assert torch.all(output.grad[-1] == 0.0)
        assert torch.isfinite(output.grad).all()


@given(batches(), settings_of_all_kinds)
def test_what_an_ignored_transition_holds_changes_nothing(batch, settings):
    outputs = random_outputs(batch)
    loss, metrics = A2C(settings).loss(outputs, batch, 0.0)
    garbage = replace(
        batch, reward=batch.reward.where(batch.valid, math.nan), action=batch.action.where(batch.valid, -1)
    )
    logits = outputs["logits"].detach().clone()
    logits[:-1][~batch.valid] = 50.0
    other, other_metrics = A2C(settings).loss({**outputs, "logits": logits}, garbage, 0.0)
    assert loss.item() == other.item()
    assert {k: v.item() for k, v in metrics.items()} == {k: v.item() for k, v in other_metrics.items()}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("bootstrap", [False, True])
def test_two_episodes_in_one_block_equal_the_episodes_apart(end, bootstrap):
    settings = AlgorithmSettings(bootstrap_on_truncation=bootstrap)
    batch = batch_of([GO, LIFE, end, RESET, GO, GO])
    outputs = random_outputs(batch)
    loss, _ = A2C(settings).loss(outputs, batch, 0.0)
    whole = torch.autograd.grad(loss, outputs["logits"])[0] * 5  # back from the mean over 5 valid transitions
    for start, stop in ((0, 3), (4, 6)):
        part = {name: output.detach()[start : stop + 1].requires_grad_() for name, output in outputs.items()}
        part_loss, _ = A2C(settings).loss(part, rows_of(batch, start, stop), 0.0)
        alone = torch.autograd.grad(part_loss, part["logits"])[0] * (stop - start)
        torch.testing.assert_close(alone[:-1], whole[start:stop])


def test_loss_by_hand():
    """One transition, two equal logits: R = 1 + .5 * 2, advantage 2 - 1, loss 5 * (ln 2 * 1 + .25 * 1 - .02 * ln 2)."""
    batch = replace(batch_of([GO]), reward=torch.ones(1, 1), action=torch.zeros(1, 1, dtype=torch.int64))
    outputs = {"logits": torch.zeros(2, 1, 2), "value": torch.tensor([1.0, 2.0]).reshape(2, 1, 1)}
    loss, metrics = A2C(AlgorithmSettings(discount=0.5)).loss(outputs, batch, 0.0)
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
    _, metrics = A2C(AlgorithmSettings(reward_clip=None)).loss(outputs, batch, 0.0)
    assert metrics["explained_variance"].item() == pytest.approx(1.0)
    _, metrics = A2C(AlgorithmSettings(reward_clip=None)).loss({**outputs, "value": value * 0}, batch, 0.0)
    assert metrics["explained_variance"].item() == pytest.approx(0.0, abs=1e-6)


def test_certain_policies_give_finite_losses():
    batch = batch_of([GO, GO])
    logits = torch.tensor([1000.0, 0.0, -1000.0]).repeat(3, 1, 1).requires_grad_()
    loss, metrics = A2C(AlgorithmSettings()).loss({"logits": logits, "value": torch.zeros(3, 1, 1)}, batch, 0.0)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logits.grad).all()
    assert metrics["entropy"].item() == 0.0


def test_outputs_without_the_bootstrap_row_are_refused():
    batch = batch_of([GO, GO])
    outputs = random_outputs(batch)
    with pytest.raises(ValueError, match=r"begins with \(2, 1\).*needs \(3, 1\)"):
        A2C(AlgorithmSettings()).loss({**outputs, "logits": outputs["logits"][:-1]}, batch, 0.0)


def test_sampled_actions_have_the_softmax_distribution():
    logits = torch.tensor([2.0, 0.0, 1.0, -1.0])
    with torch.inference_mode():
        chosen = A2C(AlgorithmSettings()).act({"logits": logits.expand(200_000, 4)}, generator())["action"]
    assert chosen.dtype == torch.int64 and chosen.shape == (200_000,)
    frequencies = chosen.bincount(minlength=4) / len(chosen)
    torch.testing.assert_close(frequencies, logits.softmax(-1), rtol=0.0, atol=0.005)  # 4.5 standard deviations


def test_sampling_depends_on_the_given_generator_alone():
    outputs = {"logits": torch.randn(64, 6, generator=generator(1))}
    act = A2C(AlgorithmSettings()).act
    before = torch.random.get_rng_state()
    first, again, other = (act(outputs, generator(seed))["action"] for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_greedy_takes_the_most_probable_and_draws_nothing():
    source = generator()
    before = source.get_state()
    outputs = {"logits": torch.tensor([[0.0, 3.0, 1.0], [5.0, 3.0, 1.0]])}
    assert A2C(AlgorithmSettings()).act(outputs, source, greedy=True)["action"].tolist() == [1, 0]
    assert torch.equal(source.get_state(), before)


def test_descending_the_loss_solves_a_bandit():
    """Action 1 pays; 200 updates of 32 one-step games from even odds must find it."""
    algorithm, source = A2C(AlgorithmSettings(loss_scale=1.0)), generator()
    logits, value = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    batch = batch_of(*[[TERMINATED]] * 32)
    for _ in range(200):
        action = algorithm.act({"logits": logits.detach().expand(32, 3)}, source)["action"].unsqueeze(0)
        played = replace(batch, action=action, reward=(action == 1).float())
        outputs = {"logits": logits.expand(2, 32, 3), "value": value.expand(2, 32, 1)}
        gradients = torch.autograd.grad(algorithm.loss(outputs, played, 0.0)[0], [logits, value])
        with torch.no_grad():
            logits -= 0.5 * gradients[0]
            value -= 0.5 * gradients[1]
    assert logits.softmax(-1)[1] > 0.9
