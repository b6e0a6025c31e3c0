"""Encoder of observations with several parts, some of which are images, flattened to one vector.

Convolutions map each image to features. A perceptron reads these features and all numbers that are in no image, as in
Stable-Baselines3's MultiInputPolicy. Each head has its own encoder, as with the perceptron (``heads.SeparateTrunks``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from actorlearn.models.encoders import STACKS, hidden_layers, scale, smallest_side
from actorlearn.models.specs import MixedSettings
from actorlearn.observation_parts import SMALLEST_SIDE, ImagePart


class MixedEncoder(nn.Module):
    """The convolutions of each image, with a layer after them, and hidden layers on all features."""

    def __init__(self, settings: MixedSettings, shape: tuple[int, ...]) -> None:
        """Make the layers for observations of this shape; raises ValueError if an image reaches beyond it."""
        super().__init__()
        size = prod(shape)
        _check(settings.images, size)
        self.inputs, self.images = size, settings.images
        self.convolutions = nn.ModuleList(_convolutions(image, settings.image_features) for image in settings.images)
        taken = {cell for image in settings.images for cell in range(image.start, image.stop)}
        others = sorted(set(range(size)) - taken)
        self.register_buffer("others", torch.tensor(others, dtype=torch.int64), persistent=False)
        features = len(others) + settings.image_features * len(settings.images)
        self.layers, self.features = hidden_layers(features, settings)

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, *shape] to [N, features]."""
        vector = scale(observation).reshape(-1, self.inputs)
        features = [vector.index_select(1, self.get_buffer("others"))]
        for image, convolutions in zip(self.images, self.convolutions, strict=True):
            cells = vector[:, image.start : image.stop].reshape(-1, *image.shape)
            features.append(convolutions(cells.movedim(-1, 1) if image.channels_last else cells))
        return self.layers(torch.cat(features, dim=1))  # type: ignore[no-any-return]


def _check(images: Sequence[ImagePart], size: int) -> None:
    """Raise ValueError unless the images are large enough, do not overlap, and are within ``size`` numbers."""
    said = f"model.images: {[(image.start, *image.shape) for image in images]}"
    ordered = sorted(images, key=lambda image: image.start)
    if any(a.stop > b.start for a, b in pairwise(ordered)) or any(image.stop > size for image in images):
        raise ValueError(
            f"{said}: images must not overlap or reach beyond the observation's {size} numbers; leave the key out to "
            "use those of the environment"
        )
    if any(min(image.channels_first[1:]) < SMALLEST_SIDE for image in images):
        raise ValueError(
            f"{said}: height and width of an image must be at least {SMALLEST_SIDE}; remove smaller images from the "
            "list, and the network takes their elements as plain numbers"
        )


def _convolutions(image: ImagePart, features: int) -> nn.Module:
    """Make the convolutions for an image, and a fully connected layer of ``features`` outputs.

    They are as in the network "nature" if the image is large enough, otherwise as in "minatar".
    """
    channels, height, width = image.channels_first
    large = min(height, width) >= smallest_side(STACKS["nature"].convolutions)
    layers: list[nn.Module] = []
    for convolution in STACKS["nature" if large else "minatar"].convolutions:
        layers += [nn.Conv2d(channels, *convolution), nn.ReLU()]
        channels, kernel, stride, padding = convolution
        height = (height + 2 * padding - kernel) // stride + 1
        width = (width + 2 * padding - kernel) // stride + 1
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, features), nn.ReLU())
