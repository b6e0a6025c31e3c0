"""Clipping by the global norm, and straight lines."""

from __future__ import annotations

import math

import pytest
import torch

from actorlearn.optim.groups import clip_by_global_norm
from actorlearn.optim.schedules import for_batches, linear, rate_after, scale_rate
from tests import named


@pytest.mark.parametrize(
    ("max_norm", "expected"), [(1.0, [0.6, 0.8]), (5.0, [3.0, 4.0]), (40.0, [3.0, 4.0]), (0.0, [3.0, 4.0])]
)
def test_a_gradient_is_scaled_to_the_norm_and_its_old_norm_returned(max_norm, expected):
    gradients = torch.tensor([3.0, 4.0])
    assert clip_by_global_norm(gradients, max_norm).item() == 5.0
    torch.testing.assert_close(gradients, torch.tensor(expected))


def test_no_gradient_stays_none():
    gradients = torch.zeros(3)
    assert clip_by_global_norm(gradients, 1.0).item() == 0.0
    assert gradients.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_norm_of_an_unusable_gradient_says_so(bad):
    assert not torch.isfinite(clip_by_global_norm(torch.tensor([1.0, bad]), 1.0))


def test_clipping_equals_torchs():
    gradients = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    parameter = torch.nn.Parameter(torch.zeros(1000))
    parameter.grad = gradients.clone()
    torch.nn.utils.clip_grad_norm_([parameter], 3.0)
    clip_by_global_norm(gradients, 3.0)
    torch.testing.assert_close(gradients, parameter.grad)


@pytest.mark.parametrize(
    ("fraction", "expected"), [(-1.0, 0.0224), (0.0, 0.0224), (0.25, 0.0168), (1.0, 0.0), (7.0, 0.0)]
)
def test_a_straight_line_is_held_at_both_ends(fraction, expected):
    assert linear(0.0224, 0.0, fraction) == pytest.approx(expected)


def test_a_line_between_equal_numbers_is_constant_and_exact_at_the_end():
    assert {linear(0.1, 0.1, 0.0), linear(0.1, 0.1, 1.0)} == {0.1}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [1.0, 0.8, 0.6, 0.2, 0.2]),
        ({"schedule": "linear"}, [1.0, 0.8, 0.6, 0.2, 0.2]),
        ({"schedule": "cosine"}, [1.0, 0.6 + 0.4 * math.sqrt(0.5), 0.6, 0.2, 0.2]),
        ({"schedule": "constant"}, [1.0] * 5),
        ({"schedule": "constant", "warmup_steps": 500}, [0.0, 0.5, 1.0, 1.0, 1.0]),
        ({"schedule": "linear", "warmup_steps": 500}, [0.0, 0.5, 1.0, 0.2, 0.2]),
        ({"schedule": "cosine", "warmup_steps": 250}, [0.0, 1.0, 0.8, 0.2, 0.2]),
    ],
)
def test_the_rate_follows_its_curve_after_its_warm_up(keys, expected):
    settings = named.optimizer(name="adam", learning_rate=1.0, learning_rate_final=0.2, **keys)
    found = [rate_after(settings, steps, 1000) for steps in (0, 250, 500, 1000, 2000)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("scaling", "expected"), [("none", 0.1), ("sqrt", 0.2), ("linear", 0.4)])
def test_the_rate_of_four_learners(scaling, expected):
    assert scale_rate(0.1, 4, scaling) == pytest.approx(expected)
    assert scale_rate(0.1, 1, scaling) == 0.1


def test_the_numbers_of_larger_batches_are_the_papers():
    adam = named.optimizer(name="adam", learning_rate=2.5e-4, learning_rate_final=1e-4, epsilon=0.01 / 32)
    larger = for_batches(adam, 2048 / 32, "none")
    assert (larger.learning_rate, larger.learning_rate_final) == (2.5e-4, 1e-4)
    assert larger.epsilon == pytest.approx(0.01 / 2048)
    rmsprop = named.optimizer(name="rmsprop", learning_rate=2.5e-4, learning_rate_final=1e-4, epsilon=0.01)
    larger = for_batches(rmsprop, 1024 / 32, "sqrt")
    assert larger.learning_rate == pytest.approx(14.1e-4, rel=0.01)  # theirs: 15e-4
    assert larger.learning_rate_final == pytest.approx(larger.learning_rate / 2.5)
    assert larger.epsilon == 0.01
    assert for_batches(adam, 1.0, "linear") == adam
