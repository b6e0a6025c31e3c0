"""Statistics of observations: merged exactly, behind the parameters, out of the optimizer's sight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from actorlearn.models.make import flatten, make
from actorlearn.models.normalize import (
    EPSILON,
    LEAST_DEVIATION,
    LIMIT,
    ROWS_AT_ONCE,
    Moments,
    Normalized,
    merge_into,
    moments_of,
    statistics,
)
from actorlearn.models.specs import MOST_ROWS_BEFORE_LEARNING, rows_before_learning
from tests import named

HEADS = {"logits": 2, "value": 1}


def network(seed: int = 0) -> nn.Module:
    return make(named.model(name="mlp", normalize_observation=True), (3,), "float32", HEADS, seed)


def observe(module: Normalized, seen: torch.Tensor) -> None:
    """Merge as a trainer does, into statistics that lie behind each other."""
    own = torch.cat([buffer.reshape(-1) for buffer in statistics(module)])
    merge_into(own, moments_of(seen))
    for buffer, merged in zip(statistics(module), own.split([b.numel() for b in statistics(module)]), strict=True):
        buffer.copy_(merged.view(buffer.shape))


def rows(*size: int, seed: int = 0) -> torch.Tensor:
    """Elements of very different sizes and means."""
    drawn = torch.randn(*size, 3, generator=torch.Generator().manual_seed(seed))
    return drawn * torch.tensor([1e-3, 1.0, 50.0]) + torch.tensor([0.0, -3.0, 1000.0])


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_merged_parts_are_the_whole(sizes: list[int], seed: int) -> None:
    whole = rows(sum(sizes), seed=seed)
    merged = Moments.of(whole[:0])
    for part in whole.split(sizes):
        merged = merged.merge(Moments.of(part))
    for found, expected in zip(merged, Moments.of(whole), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert merged.number == len(whole)


def test_a_network_that_observed_batches_normalises_by_all_their_rows() -> None:
    normalized = Normalized(nn.Identity(), (3,))
    batches = [rows(20, seed=seed) for seed in range(40)]
    for batch in batches:
        observe(normalized, batch)
    everything = torch.cat(batches)
    assert normalized.number == len(everything)
    expected = (everything - everything.mean(0)) / (everything.var(0, correction=0) + EPSILON).sqrt()
    torch.testing.assert_close(normalized(everything), expected, atol=1e-3, rtol=1e-3)


def test_before_anything_was_observed_nothing_changes_and_far_values_are_cut() -> None:
    normalized = Normalized(nn.Identity(), (3,))
    seen = torch.tensor([[0.5, -2.0, 9.0], [1e6, -1e6, 0.0]])
    torch.testing.assert_close(normalized(seen), torch.tensor([[0.5, -2.0, 9.0], [LIMIT, -LIMIT, 0.0]]))


def test_before_anything_was_observed_images_of_bytes_are_at_most_1() -> None:
    normalized = Normalized(nn.Identity(), (3,), pixels=True)
    seen = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    torch.testing.assert_close(normalized(seen), torch.tensor([[0.0, 0.2, 1.0]]))


def test_a_pixel_that_has_hardly_changed_has_half_the_deviation_of_all_at_least() -> None:
    normalized = Normalized(nn.Identity(), (3,), pixels=True)
    observe(normalized, torch.tensor([[10, 100, 200], [10, 120, 240]]))  # deviations 0, 10 and 20
    least = LEAST_DEVIATION * ((0 + 100 + 400) / 3) ** 0.5
    seen = torch.tensor([[20.0, 110.0, 260.0]])
    torch.testing.assert_close(normalized(seen), torch.tensor([[10 / least, 0.0, 40 / 20]]))


@pytest.mark.parametrize(
    ("section", "total_steps", "rows"),
    [
        ({"normalize_observation": False}, 1_000_000, 0),
        ({"normalize_observation": True}, 50_000, 500),
        ({"normalize_observation": True}, 50_000_000, MOST_ROWS_BEFORE_LEARNING),
        ({"normalize_observation": True, "statistics_rows": 0}, 50_000, 0),
        ({"normalize_observation": True, "statistics_rows": 70}, 50_000, 70),
    ],
)
def test_learning_waits_for_a_hundredth_of_the_run_or_what_the_topology_says(
    section: dict[str, Any], total_steps: int, rows: int
) -> None:
    assert rows_before_learning(named.model(name="mlp", **section), total_steps) == rows


def test_an_element_that_never_changes_is_zero_and_finite() -> None:
    normalized = Normalized(nn.Identity(), (3,))
    observe(normalized, torch.full((8, 3), 7.0))
    assert normalized(torch.full((1, 3), 7.0)).abs().max() == 0.0
    assert normalized(torch.full((1, 3), 8.0)).max() == LIMIT


def test_statistics_lie_behind_the_parameters_and_get_no_gradients() -> None:
    module = network()
    weights, gradients = flatten(module)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert gradients.numel() == parameters and weights.numel() == parameters + 1 + 3 + 3
    merge_into(weights[parameters:], moments_of(rows(24)))
    observed = weights[parameters:].clone()
    assert observed[0] == module.number == 24
    torch.testing.assert_close(observed[1:4], rows(24).mean(0))
    sum(output.sum() for output in module(rows(2)).values()).backward()
    assert gradients.any()
    assert torch.equal(weights[parameters:], observed)


def test_whoever_gets_the_vector_or_the_saved_tensors_sees_alike() -> None:
    module, by_vector, by_name = network(), network(seed=1), network(seed=2)
    weights, gradients = flatten(module)
    merge_into(weights[gradients.numel() :], moments_of(rows(24)))
    flatten(by_vector)[0].copy_(weights)
    flatten(by_name)
    by_name.load_state_dict(module.state_dict())
    expected = module(rows(5, seed=9))
    for other in (by_vector, by_name):
        for head, output in other(rows(5, seed=9)).items():
            torch.testing.assert_close(output, expected[head], rtol=0.0, atol=0.0)


def test_images_in_bytes_are_normalised_pixel_by_pixel() -> None:
    settings = {"name": "nips", "init": "torch"}
    plain = make(named.model(**settings), (4, 44, 44), "uint8", HEADS, 0)
    normalized = make(named.model(**settings, normalize_observation=True), (4, 44, 44), "uint8", HEADS, 0)
    drawn = torch.randint(0, 256, (40, 4, 44, 44), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    images = torch.where(torch.arange(44) < 30, drawn, 87)  # what never changes is the background
    weights, gradients = flatten(normalized)
    merge_into(weights[gradients.numel() :], moments_of(images))
    numbers = images.double()
    variance = numbers.var(0, correction=0)
    deviation = (variance.clamp(min=LEAST_DEVIATION**2 * variance.mean()) + EPSILON).sqrt()
    expected = plain(((numbers - numbers.mean(0)) / deviation).clamp(-LIMIT, LIMIT).float())
    for name, output in normalized(images).items():
        torch.testing.assert_close(output, expected[name], rtol=1e-4, atol=1e-4)
    assert torch.equal(images, torch.where(torch.arange(44) < 30, drawn, 87)), "what is observed is not written to"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.uint8, torch.bool])
def test_numbers_of_every_type_become_float32_and_stay_as_they_are(dtype: torch.dtype) -> None:
    normalized = Normalized(nn.Identity(), (3,))
    seen = torch.tensor([[0, 1, 1], [1, 1, 0]]).to(dtype)
    before = seen.clone()
    assert normalized(seen).dtype == torch.float32
    assert torch.equal(seen, before)


def test_moments_of_many_rows_are_their_mean_and_variance() -> None:
    seen = rows(ROWS_AT_ONCE * 3 + 5)
    found, numbers = Moments.of(seen), seen.double()
    torch.testing.assert_close(found.mean, numbers.mean(0), rtol=1e-12, atol=0.0)
    torch.testing.assert_close(found.variance, numbers.var(0, correction=0), rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, 1e30])
def test_what_is_not_finite_changes_nothing(odd: float) -> None:
    own = torch.cat([moment.reshape(-1) for moment in Moments.of(rows(5))]).float()
    before, seen = own.clone(), rows(4)
    seen[2, 1] = odd
    merge_into(own, moments_of(seen))
    assert torch.equal(own, before)
    merge_into(own, moments_of(rows(4)))
    assert not torch.equal(own, before)
