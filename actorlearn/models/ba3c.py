"""BA3C's network (Adamski et al. 2018, section 2.2, and its code): images [N, C, H, W] to features [N, hidden_units].

Images are uint8, as environments give them; `PixelConvolution` scales them. The convolutions have no biases.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.models.encoders import PixelConvolution, check_image
from actorlearn.models.specs import BA3CSettings

CHANNELS_MULTIPLE = 16
"""Images are padded with channels of zeros to a multiple of this number of channels.

The paper's code pads the 12 channels of four colour frames to 16, for Intel's library of convolutions. The paper's
counts of weights include the padding (table 2)."""


class Layer(NamedTuple):
    """One square convolution with stride 1; if ``pooled``, 2 x 2 max pooling follows."""

    channels: int
    kernel: int
    pooled: bool


LAYERS = (Layer(32, 5, True), Layer(32, 5, True), Layer(64, 5, True), Layer(64, 3, False))


class BA3CEncoder(nn.Module):
    """Four convolutions, each followed by a ReLU, and one fully connected layer.

    Channels are the innermost dimension (channels_last). On a core of an AMD EPYC with avx512_bf16, 50 images then take
    1.4 ms each for acting and 3.4 ms for learning in bf16, and 2.6 and 6.1 ms in fp32. With channels first they take
    2.5 and 4.5 ms, and 3.7 and 7.6 ms.

    In the paper's code the last layer is divided among parameter servers, as several convolutions that each cover their
    whole input. This is the same function as a linear layer without bias and activation (`hidden: linear`, the
    default). With `hidden: relu` the layer has both, and as many weights as the paper counts.
    """

    def __init__(self, settings: BA3CSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        check_image(shape, smallest_side(), settings.name)
        seen, height, width = shape
        self._missing = -seen % CHANNELS_MULTIPLE
        channels = seen + self._missing
        layers: list[nn.Module] = []
        for layer in LAYERS:
            kind = nn.Conv2d if layers else PixelConvolution
            layers += [kind(channels, layer.channels, layer.kernel, bias=False), nn.ReLU(True)]
            channels, height, width = layer.channels, height - layer.kernel + 1, width - layer.kernel + 1
            if layer.pooled:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
        biased = settings.hidden == "relu"
        hidden = nn.Linear(channels * height * width, settings.hidden_units, bias=biased)
        self.layers = nn.Sequential(*layers, nn.Flatten(), hidden, nn.ReLU(True) if biased else nn.Identity())
        self.features = settings.hidden_units

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, C, H, W] to [N, hidden_units]."""
        padded = nn.functional.pad(observation, (0, 0, 0, 0, 0, self._missing))
        return self.layers(padded.contiguous(memory_format=torch.channels_last))  # type: ignore[no-any-return]


def smallest_side() -> int:
    """Return the smallest height or width that leaves at least one cell after the last convolution."""
    side = 1
    for layer in reversed(LAYERS):
        side = (2 * side if layer.pooled else side) + layer.kernel - 1
    return side


def initialize(network: nn.Module) -> None:
    """Draw a network's weights again as in BA3C's code, from torch's global generator; biases become 0.

    Weights of convolutions are from N(0, 0.03), cut at two standard deviations. Weights of linear layers are uniform
    and multiply the variance of their inputs by 1.43 squared (TensorFlow's `uniform_unit_scaling`).
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.trunc_normal_(layer.weight, std=0.03, a=-0.06, b=0.06)
        elif isinstance(layer, nn.Linear):
            bound = 1.43 * sqrt(3.0 / layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound)
        if isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
