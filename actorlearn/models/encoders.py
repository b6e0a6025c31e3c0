"""From observations [N, *shape] to features [N, F]: the two Atari convolution stacks and a tanh perceptron.

Reads observations as stored and scales uint8 by 1/255; knows no heads and no algorithm. Each encoder says the width of
its output as `features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Convolution(NamedTuple):
    """One square, unpadded convolution."""

    channels: int
    kernel: int
    stride: int


# Mnih et al. 2013, as used for actor-critics in Mnih et al. 2016 (A3C FF) and PAAC ("arch nips").
NIPS = (Convolution(16, 8, 4), Convolution(32, 4, 2))
NIPS_FEATURES = 256
# Mnih et al. 2015 ("arch nature" in PAAC).
NATURE = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
NATURE_FEATURES = 512


class ConvolutionalEncoder(nn.Module):
    """Unpadded convolutions and one fully connected layer, each followed by a ReLU."""

    def __init__(self, shape: tuple[int, ...], convolutions: Sequence[Convolution], features: int, name: str) -> None:
        """Size the layers for observations of this shape; `name` is the model's, for the error."""
        super().__init__()
        check_image(shape, convolutions, name)
        channels, height, width = shape
        layers: list[nn.Module] = []
        for convolution in convolutions:
            layers += [nn.Conv2d(channels, convolution.channels, convolution.kernel, convolution.stride), nn.ReLU(True)]
            channels = convolution.channels
            height = (height - convolution.kernel) // convolution.stride + 1
            width = (width - convolution.kernel) // convolution.stride + 1
        layers += [nn.Flatten(), nn.Linear(channels * height * width, features), nn.ReLU(True)]
        self.layers = nn.Sequential(*layers)
        self.features = features

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, C, H, W] to [N, features]."""
        return self.layers(scaled(observation))  # type: ignore[no-any-return]


class Perceptron(nn.Module):
    """Fully connected tanh layers on the flattened observation."""

    def __init__(self, shape: tuple[int, ...], hidden_sizes: Sequence[int]) -> None:
        """Size the layers for observations of this shape; no hidden sizes = the heads are linear in the observation."""
        super().__init__()
        layers: list[nn.Module] = []
        self.features = self.inputs = prod(shape)
        for size in hidden_sizes:
            layers += [nn.Linear(self.features, size), nn.Tanh()]
            self.features = size
        self.layers = nn.Sequential(*layers)

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, *shape] to [N, features]."""
        return self.layers(scaled(observation).reshape(-1, self.inputs))  # type: ignore[no-any-return]


def scaled(observation: Tensor) -> Tensor:
    """Return float32 observations, uint8 ones in [0, 1]."""
    if observation.dtype == torch.uint8:
        return observation.float().mul_(1.0 / 255.0)
    return observation.float()


def smallest_side(convolutions: Sequence[Convolution]) -> int:
    """Return the least height or width that leaves at least one cell after the last convolution."""
    side = 1
    for convolution in reversed(convolutions):
        side = (side - 1) * convolution.stride + convolution.kernel
    return side


def check_image(shape: tuple[int, ...], convolutions: Sequence[Convolution], name: str) -> None:
    """Refuse observations that the convolutions cannot take."""
    side = smallest_side(convolutions)
    if len(shape) != 3 or min(shape[1:]) < side:
        raise ValueError(
            f"model.name: {name!r} takes images [C, H, W] of at least {side}x{side}, but this environment's "
            f"observations have shape {list(shape)}; use model.name: mlp, or a larger image"
        )
