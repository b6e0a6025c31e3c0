"""BA3C's network: the sizes of the paper's table 2, its function and its first weights."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import nn

from tests.models.networks import images, network


@pytest.mark.parametrize(
    ("hidden_units", "parameters"), [(256, 538_119), (128, 332_295), (64, 229_383), (32, 177_927), (16, 152_199)]
)
def test_ba3cs_network_has_the_parameters_of_table_2(hidden_units: int, parameters: int) -> None:
    """Of a game with six actions, the layer with a bias; four frames in colour."""
    module = network("ba3c", (12, 84, 84), hidden_units=hidden_units, hidden="relu")
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    without = network("ba3c", (12, 84, 84), hidden_units=hidden_units)
    assert sum(parameter.numel() for parameter in without.parameters()) == parameters - hidden_units


@pytest.mark.parametrize("hidden", ["linear", "relu"])
def test_ba3c_is_the_function_it_says(hidden: str) -> None:
    """The same weights in plain functional form, on the channels there are: those that are filled up see zeros."""
    module = network("ba3c", shape := (12, 84, 84), hidden=hidden)
    weights = iter(list(module.encoder.layers.parameters()))
    x = images(2, shape).float() / 255.0
    for pooled in (True, True, True, False):
        x = nn.functional.conv2d(x, next(weights)[:, : x.shape[1]]).relu()
        if pooled:
            x = x.unfold(2, 2, 2).unfold(3, 2, 2).amax((-1, -2))
    assert x.shape == (2, 64, 5, 5)
    x = x.flatten(1) @ next(weights).T
    if hidden == "relu":
        x = (x + next(weights)).relu()
    assert next(weights, None) is None
    expected = nn.functional.linear(x, module.heads["logits"].weight, module.heads["logits"].bias)
    torch.testing.assert_close(module(images(2, shape))["logits"], expected, atol=1e-5, rtol=1e-4)


def test_ba3cs_first_weights() -> None:
    """Convolutions are normal, cut at two deviations; the last layers uniform, 1.43 times what keeps the variance."""
    module = network("ba3c", (12, 84, 84), hidden="relu")
    convolutions = [layer.weight for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    for weight in convolutions:
        assert weight.abs().max() <= 0.06 and weight.std().item() == pytest.approx(0.0264, rel=0.05)
    for layer in (layer for layer in module.modules() if isinstance(layer, nn.Linear)):
        bound = 1.43 * sqrt(3 / layer.in_features)
        assert 0.9 * bound < layer.weight.abs().max() <= bound and not layer.bias.any()
