"""Dueling networks: shared convolutions, streams of their own, the merge, and the gradient that comes back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from actorlearn.algorithms.c51 import C51
from actorlearn.models.dueling import Dueling
from actorlearn.models.make import make
from tests import named, reference

HEADS = {"value": 1, "advantage": 3}
SHAPE = (1, 20, 20)


def network(gradient: float = 2**-0.5, name: str = "nips", shape: tuple[int, ...] = SHAPE, **changes) -> nn.Module:
    return make(named.model(name=name, stream_gradient=gradient, **changes), shape, "uint8", HEADS, 0)


def images() -> Tensor:
    return torch.randint(256, (2, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@given(st.integers(1, 4), st.integers(2, 5), st.integers(0, 100))
def test_the_merge_is_the_slow_one_and_the_advantage_has_no_mean(actions, atoms, seed):
    generator = torch.Generator().manual_seed(seed)
    value, advantage = (torch.randn(2, size, generator=generator).double() for size in (atoms, actions * atoms))
    algorithm = C51(C51.Settings(dueling=True, atoms=atoms))
    merged = algorithm.per_action({"value": value, "advantage": advantage})
    for b in range(2):
        expected = reference.dueling(value[b].tolist(), advantage[b].view(actions, -1).tolist())
        torch.testing.assert_close(merged[b], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(merged.mean(-2), value)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        # 16@8x8, 32@4x4 leave 1x1x32 of 20x20; then 256 for each stream.
        ("nips", [16 * 64, 16, 32 * 16 * 16, 32, *[32 * 256, 256, 256, 1], *[32 * 256, 256, 256 * 3, 3]]),
    ],
)
def test_each_stream_has_a_hidden_layer_of_its_own_on_the_same_convolutions(name, sizes):
    module = network(name=name)
    assert isinstance(module, Dueling)
    assert [p.numel() for p in module.parameters()] == sizes
    outputs = module(images())
    assert {head: tuple(output.shape) for head, output in outputs.items()} == {"value": (2, 1), "advantage": (2, 3)}


def test_a_stream_of_a_network_with_layer_norm_has_it_too():
    module = network(layer_norm=True)
    assert isinstance(module, Dueling)
    kinds = [type(layer).__name__ for layer in module.streams.trunks["advantage"].encoder]
    assert kinds == ["Linear", "LayerNorm", "ReLU"]
    assert [type(layer).__name__ for layer in module.convolutions][:2] == ["PixelConvolution", "ChannelNorm"]
    assert module(images())["advantage"].shape == (2, 3)


def test_impala_duels_too_and_recurrent_and_flat_networks_have_plain_heads():
    assert isinstance(network(name="impala"), Dueling)
    assert not any(isinstance(m, Dueling) for m in network(recurrence="lstm").modules())
    flat = make(named.model(name="mlp", hidden_sizes=[4]), (3,), "float32", HEADS, 0)
    assert flat(torch.zeros(2, 3))["advantage"].shape == (2, 3)


def test_the_convolutions_gradient_is_scaled_and_nothing_else():
    gradients, outputs = [], []
    for gradient in (1.0, 2**-0.5):
        module = network(gradient)
        found = module(images())
        (found["value"].sum() + found["advantage"].square().sum()).backward()
        gradients.append({path: p.grad for path, p in module.named_parameters()})
        outputs.append(found["advantage"])
    assert torch.equal(*outputs)
    for path, whole in gradients[0].items():
        factor = 2**-0.5 if path.startswith("convolutions.") else 1.0
        torch.testing.assert_close(gradients[1][path], whole * factor)
    assert gradients[0]["convolutions.0.weight"].abs().max() > 0.0


def test_no_gradient_no_difference():
    module = network()
    with torch.inference_mode():
        acting = module(images())
    assert all(torch.equal(acting[head], output) for head, output in module(images()).items())


def test_orthogonal_heads_have_gain_one_and_layout_reaches_the_first_convolution():
    module = network(init="orthogonal")
    head = module.streams.trunks["advantage"].heads["advantage"]
    assert torch.linalg.svdvals(head.weight).tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    assert not head.bias.any()
