"""Noisy layers: the papers' function, noise from the generator alone, none when none is drawn."""

from __future__ import annotations

from math import sqrt

import msgspec
import pytest
import torch
from torch import nn

from actorlearn.models.make import flatten, make
from actorlearn.models.noisy import NoisyLinear, draw
from tests import named, reference


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noisy(name: str = "mlp", shape: tuple[int, ...] = (3,), **changes) -> nn.Module:
    sizes = {"hidden_sizes": [4]} if name == "mlp" else {}
    settings = named.model(name=name, **sizes, **{"noisy": 0.5, **changes})
    return make(settings, shape, "uint8" if len(shape) == 3 else "float32", {"q": 2}, 0)


def test_a_layer_is_the_function_it_says():
    layer = NoisyLinear(3, 2, deviation=0.5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator(1))
    x = torch.randn(4, 3, generator=generator(2))
    layer.draw(generator())
    unit = generator()
    noise_in, noise_out = (torch.empty(size).normal_(generator=unit).tolist() for size in (3, 2))
    expected = [reference.noisy_linear(row, layer.state_dict(), noise_in, noise_out) for row in x.tolist()]
    torch.testing.assert_close(layer(x), torch.tensor(expected))


def test_without_noise_it_is_the_linear_layer_of_its_means_exactly():
    layer, x = NoisyLinear(3, 2, deviation=0.5), torch.randn(4, 3, generator=generator(2))
    plain = nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), plain)
    layer.draw(generator())
    assert not torch.equal(layer(x), plain)
    layer.draw(None)
    assert torch.equal(layer(x), plain)


def test_it_starts_as_the_paper_says():
    layer = NoisyLinear(100, 50, deviation=0.5)
    for mean, deviation in ((layer.weight, layer.weight_deviation), (layer.bias, layer.bias_deviation)):
        assert mean.abs().max() <= 1 / sqrt(100)
        torch.testing.assert_close(deviation, torch.full_like(deviation, 0.5 / sqrt(100)))
    assert layer.weight.std().item() == pytest.approx(1 / sqrt(300), rel=0.1)


@pytest.mark.parametrize(
    ("name", "shape", "layers"), [("mlp", (3,), 2), ("nips", (1, 20, 20), 2), ("impala", (1, 8, 8), 2)]
)
@pytest.mark.parametrize("init", ["torch", "orthogonal"])
def test_all_fully_connected_layers_of_a_network_are_noisy_and_no_others(name, shape, layers, init):
    module = noisy(name, shape, init=init)
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    assert [type(layer) for layer in linear] == [NoisyLinear] * layers
    deviations = sum(p.numel() for path, p in module.named_parameters() if "deviation" in path)
    assert deviations == sum(layer.weight.numel() + layer.bias.numel() for layer in linear)
    assert not any("deviation" in path for path, _ in noisy(name, shape, noisy=0.0).named_parameters())


def test_noise_is_of_the_generator_alone_new_with_every_draw_and_not_state():
    one, other = noisy(), noisy()
    x = torch.randn(5, 3, generator=generator(2))
    outputs = []
    for module in (one, other):
        source, found = generator(), []
        for _ in range(2):
            draw(module, source)
            found.append(module(x)["q"])
        assert torch.equal(module(x)["q"], found[1]), "a pass draws nothing itself"
        outputs.append(found)
    assert torch.equal(outputs[0][0], outputs[1][0]) and torch.equal(outputs[0][1], outputs[1][1])
    assert not torch.equal(outputs[0][0], outputs[0][1])
    assert not any("noise" in name for name in one.state_dict())
    source = generator()
    before = source.get_state()
    draw(noisy(noisy=0.0), source)
    assert torch.equal(source.get_state(), before)


def test_gradients_reach_means_and_deviations_in_the_flat_vector():
    module = noisy()
    weights, gradients = flatten(module)
    draw(module, generator())
    module(torch.ones(2, 3))["q"].square().sum().backward()
    assert gradients.isfinite().all() and (gradients != 0).float().mean() > 0.5
    layer = next(layer for layer in module.modules() if isinstance(layer, NoisyLinear))
    torch.testing.assert_close(
        layer.weight_deviation.grad, layer.weight.grad * torch.outer(layer.noise_out, layer.noise_in)
    )
    assert weights.numel() == 2 * sum(p.numel() for p in noisy(noisy=0.0).parameters())


@pytest.mark.parametrize(("key", "number"), [("noisy", -0.1), ("stream_gradient", 0.0)])
def test_numbers_without_meaning_are_refused(key, number):
    with pytest.raises(msgspec.ValidationError, match=key):
        named.model("nips", **{key: number})
