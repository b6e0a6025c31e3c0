"""VACO's own parts: advantages aligned once, and the filter by total variation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from actorlearn.algorithms.interface import Batch
from actorlearn.algorithms.vaco import VACO
from tests import reference
from tests.algorithms.episodes import GO, RESET, TERMINATED, TRUNCATED, batch_of, random_outputs

SETTINGS = VACO.Settings(gae_lambda=0.9, loss_scale=1.0, value_cost=1.0, entropy_cost=0.0)
EPISODES = ([GO, TRUNCATED, RESET, GO], [GO, GO, TERMINATED, RESET])


def of_ratios(ratios: list[float], advantages: list[float]) -> tuple[Batch, dict[str, Tensor]]:
    """A prepared batch of single transitions: each action has probability 1/2 now, and before the epochs."""
    count = len(ratios)
    columns = {
        "log_prob": torch.tensor([[math.log(0.5 / ratio) for ratio in ratios]]),
        "log_prob_before": torch.full((1, count), math.log(0.5)),
        "return": torch.zeros(1, count),
        "advantage": torch.tensor([advantages]),
    }
    batch = replace(batch_of(*[[GO]] * count), action=torch.zeros(1, count, dtype=torch.int64), columns=columns)
    return batch, {
        name: torch.zeros(1, count, size, requires_grad=True) for name, size in (("logits", 2), ("value", 1))
    }


def moved(ratios: list[float], advantages: list[float]) -> tuple[list[bool], dict[str, Tensor]]:
    """Whether each transition has a gradient, and the metrics."""
    batch, outputs = of_ratios(ratios, advantages)
    loss, metrics = VACO(SETTINGS).loss(outputs, batch, 0.0)
    gradient = torch.autograd.grad(loss, outputs["logits"])[0]
    return gradient[0].any(-1).tolist(), metrics


def test_all_transitions_are_learned_from_while_the_variation_is_within_the_limit() -> None:
    kept, metrics = moved([1.1, 0.9, 1.3, 1.0], [1.0, -1.0, 1.0, 1.0])  # mean of |ratio - 1|: 0.125
    assert all(kept) and metrics["clipped_share"] == 0
    assert metrics["total_variation"].item() == pytest.approx(0.125 / 2, abs=1e-6)


def test_beyond_the_limit_only_transitions_that_lead_back_are_learned_from() -> None:
    kept, metrics = moved([1.5, 1.5, 0.5, 0.5, 1.0], [1.0, -1.0, 1.0, -1.0, 1.0])
    assert kept == [False, True, True, False, True]
    assert metrics["clipped_share"].item() == pytest.approx(2 / 5)


def test_a_ratio_that_overflows_leaves_a_finite_loss_and_gradient() -> None:
    batch, outputs = of_ratios([1.0, 1.0], [0.0, -1.0])
    batch.columns["log_prob_before"].fill_(-200.0)
    loss, _ = VACO(SETTINGS).loss(outputs, batch, 0.0)
    assert torch.isfinite(loss) and torch.isfinite(torch.autograd.grad(loss, outputs["logits"])[0]).all()


def test_preparing_aligns_the_advantages_with_the_policy_and_the_values_before_the_epochs() -> None:
    batch = batch_of(*EPISODES)
    outputs = {name: output.detach() for name, output in random_outputs(batch).items()}
    made, value = VACO(SETTINGS).prepare(batch, outputs), outputs["value"].squeeze(-1)
    before = made.columns["log_prob_before"].view(batch.valid.shape)
    ratio = (before - batch.columns["log_prob"]).exp()
    for t, b in batch.valid.nonzero().tolist():
        log_prob, _ = reference.log_prob_and_entropy({k: v[t, b] for k, v in outputs.items()}, batch.action[t, b])
        assert before[t, b].item() == pytest.approx(log_prob.item())
        expected = reference.vtrace_target(batch, value, ratio, SETTINGS, t, b)
        assert made.columns["return"][0, t * 2 + b].item() == pytest.approx(expected, abs=1e-5)


def test_a_recurrent_networks_sequences_stay_whole() -> None:
    batch = batch_of(*EPISODES)
    outputs = {name: output.detach() for name, output in random_outputs(batch).items()}
    assert VACO(SETTINGS).prepare(batch, outputs).action.shape == (1, 8)
    stated = replace(batch, columns={**batch.columns, "state": torch.zeros(1, 2, 3)})
    whole = VACO(SETTINGS).prepare(stated, outputs)
    assert whole.action.shape == (4, 2) and whole.observation.shape[0] == 4
