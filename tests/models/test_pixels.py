"""The first convolution: scaling in the weights and space-to-depth are the same function as the textbook's."""

from __future__ import annotations

import pytest
import torch

from actorlearn.models.encoders import PixelConvolution
from actorlearn.models.make import autocast, set_layout
from tests.models.networks import images, network


@pytest.mark.parametrize("layout", ["plain", "space-to-depth"])
@pytest.mark.parametrize(("kernel", "stride", "side"), [(8, 4, 84), (4, 2, 20), (3, 1, 7), (8, 4, 86)])
def test_bytes_give_what_scaled_images_give(layout: str, kernel: int, stride: int, side: int) -> None:
    torch.manual_seed(0)
    convolution = PixelConvolution(4, 16, kernel, stride)
    convolution.layout = layout
    seen = images(3, (4, side, side))
    expected = torch.nn.functional.conv2d(
        seen.double() / 255, convolution.weight.double(), convolution.bias.double(), stride
    )
    torch.testing.assert_close(convolution(seen).double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize(("kernel", "stride"), [(4, 2), (8, 4), (16, 8), (9, 3)])
def test_runs_of_pixels_are_moved_whole_whatever_their_length(kind: torch.dtype, kernel: int, stride: int) -> None:
    convolution = PixelConvolution(3, 2, kernel, stride)
    seen = images(5, (3, 144, 72)).to(kind)[1:4]  # which begins in the middle of its memory
    plain = convolution(seen)
    convolution.layout = "space-to-depth"
    torch.testing.assert_close(convolution(seen), plain, atol=1e-3 * float(plain.detach().abs().max()), rtol=1e-4)


def test_images_of_other_types_are_not_scaled() -> None:
    convolution = PixelConvolution(1, 2, 3, 1)
    seen = torch.rand(2, 1, 5, 5)
    expected = torch.nn.functional.conv2d(seen, convolution.weight, convolution.bias)
    torch.testing.assert_close(convolution(seen), expected)


def test_a_padded_convolution_is_the_textbooks_in_either_layout() -> None:
    convolution, seen = PixelConvolution(4, 16, 3, padding=1), images(3, (4, 8, 8))
    expected = torch.nn.functional.conv2d(seen.float() / 255, convolution.weight, convolution.bias, padding=1)
    for layout in ("plain", "space-to-depth"):
        convolution.layout = layout
        torch.testing.assert_close(convolution(seen), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_layouts_of_a_whole_network_have_the_same_outputs_and_gradients(precision: str) -> None:
    seen = images(4)
    results = []
    for layout in ("plain", "space-to-depth"):
        net = network("nips", seed=3)
        set_layout(net, layout)
        with autocast("cpu", precision):
            outputs = net(seen)
        sum(output.square().mean() for output in outputs.values()).backward()
        results.append((outputs["logits"].detach(), torch.cat([p.grad.flatten() for p in net.parameters()])))
    tolerance = 1e-5 if precision == "fp32" else 2e-2
    for plain, deep in zip(*results, strict=True):
        torch.testing.assert_close(plain, deep, atol=tolerance, rtol=tolerance)
