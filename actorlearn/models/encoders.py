"""Encoders, which map observations [N, *shape] to features [N, F]: stacks of convolutions, and a perceptron.

They scale uint8 observations by 1/255. The attribute `features` of an encoder is F.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.models.specs import MLPSettings, StackSettings


class Convolution(NamedTuple):
    """One square convolution."""

    channels: int
    kernel: int
    stride: int
    padding: int = 0


class Stack(NamedTuple):
    """Convolutions, and the width of the fully connected layer after them."""

    convolutions: tuple[Convolution, ...]
    features: int


STACKS = {
    # Mnih et al. 2013, as used for actor-critics in Mnih et al. 2016 (A3C FF) and PAAC ("arch nips").
    "nips": Stack((Convolution(16, 8, 4), Convolution(32, 4, 2)), 256),
    # Mnih et al. 2015 ("arch nature" in PAAC).
    "nature": Stack((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512),
    # Stooke and Abbeel 2018, A3C-Net: nips with its second convolution padded (section 5.1).
    "a3c": Stack((Convolution(16, 8, 4), Convolution(32, 4, 2, 1)), 256),
    # Stooke and Abbeel 2018, DQN-Net: nature with padding in the second and third convolution, which doubles their
    # outputs for screens of 104x80.
    "dqn-net": Stack((Convolution(32, 8, 4), Convolution(64, 4, 2, 1), Convolution(64, 3, 1, 1)), 512),
    # Assran et al. 2019, as in Kostrikov's code: nature with half the channels in the third.
    "gala": Stack((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(32, 3, 1)), 512),
    # Young and Tian 2019, for images of 10x10 (section 3); it works for every image of at least 3x3.
    "minatar": Stack((Convolution(16, 3, 1),), 128),
}


class ConvolutionalEncoder(nn.Module):
    """Convolutions and one fully connected layer, each followed by a LayerNorm if ``layer_norm``, and a ReLU."""

    def __init__(self, settings: StackSettings, shape: tuple[int, ...]) -> None:
        """Make the layers of the stack named in the settings for observations of this shape."""
        super().__init__()
        convolutions, features = STACKS[settings.name]
        check_image(shape, smallest_side(convolutions), settings.name)
        channels, height, width = shape
        layers: list[nn.Module] = []
        for convolution in convolutions:
            kind = nn.Conv2d if layers else PixelConvolution
            normalized = [ChannelNorm(convolution.channels)] if settings.layer_norm else []
            layers += [kind(channels, *convolution), *normalized, nn.ReLU(True)]
            channels, kernel, stride, padding = convolution
            height = (height + 2 * padding - kernel) // stride + 1
            width = (width + 2 * padding - kernel) // stride + 1
        layers += [nn.Flatten(), nn.Linear(channels * height * width, features)]
        layers += [nn.LayerNorm(features), nn.ReLU(True)] if settings.layer_norm else [nn.ReLU(True)]
        self.layers = nn.Sequential(*layers)
        self.features = features

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, C, H, W] to [N, features]."""
        return self.layers(observation)  # type: ignore[no-any-return]


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels at each position of an image, as in flax (PQN's code).

    In torch, LayerNorm of an image is over channels, height and width together.
    """

    def forward(self, image: Tensor) -> Tensor:
        """Map [N, C, H, W] to the same shape."""
        return super().forward(image.movedim(1, -1)).movedim(-1, 1)


WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""Number of bytes -> number type with which this many bytes of neighbouring pixels are copied as one number."""


class PixelConvolution(nn.Conv2d):
    """The first convolution of a network for uint8 images: it scales its weights by 1/255 instead of the images.

    For 4 frames of 84x84 in the network "nips", this takes 4,096 multiplications for all images together, instead of
    28,224 for each image. The images are converted once, to the type used for computing; bfloat16 represents every
    byte exactly. On two cores of an AMD EPYC an update of 192 observations of this network in bf16 took 12.0 ms, and
    13.5 ms with images scaled first. Images of other types are not scaled.
    """

    layout = "plain"
    """How the convolution is computed: "plain", or "space-to-depth" (`_space_to_depth`), which gives the same result.

    "space-to-depth" is ignored for padded convolutions, and if the stride does not divide all sides."""

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, C, H, W] to [N, channels, H', W']."""
        device = observation.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        weight = self.weight * (1.0 / 255.0) if observation.dtype == torch.uint8 else self.weight
        if self.layout == "space-to-depth" and self._divides(observation):
            return self._space_to_depth(observation, weight, dtype)
        return torch.nn.functional.conv2d(observation.to(dtype), weight, self.bias, self.stride, self.padding)

    def _divides(self, observation: Tensor) -> bool:
        stride, sides = self.stride[0], (*observation.shape[2:], *self.kernel_size)
        return self.padding == (0, 0) and all(side % stride == 0 for side in sides)

    def _space_to_depth(self, observation: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """Compute the convolution with stride s as one with stride 1, in which each square of s x s pixels is a pixel.

        The image becomes [N, C * s * s, H/s, W/s]. The inner loop over channels then has length 64 instead of 4, which
        makes good use of matrix units (Intel AMX: 2.2 times as fast).
        """
        s = self.stride[0]
        count, channels, height, width = observation.shape
        word = WORDS.get(s * observation.element_size())  # s pixels of a line are moved as one number
        lines = observation.view(word) if word else observation.view(count, channels, height, width // s, s)
        pixels = lines.view(count, channels, height // s, s, width // s, -1).permute(0, 2, 4, 1, 3, 5)
        deep = pixels.contiguous().view(observation.dtype).view(count, height // s, width // s, channels * s * s)
        deep = deep.to(dtype).permute(0, 3, 1, 2)
        k = self.kernel_size[0] // s
        taps = weight.view(-1, channels, k, s, k, s).permute(0, 1, 3, 5, 2, 4).reshape(-1, channels * s * s, k, k)
        return torch.nn.functional.conv2d(deep, taps, self.bias)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
"""Activation functions of a perceptron's hidden layers."""


class Perceptron(nn.Module):
    """Fully connected layers on the flattened observation; without hidden layers the features are the observation."""

    def __init__(self, settings: MLPSettings, shape: tuple[int, ...]) -> None:
        """Make the layers for observations of this shape."""
        super().__init__()
        self.inputs = prod(shape)
        self.layers, self.features = hidden_layers(self.inputs, settings)

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, *shape] to [N, features]."""
        return self.layers(scale(observation).reshape(-1, self.inputs))  # type: ignore[no-any-return]


def hidden_layers(inputs: int, settings: MLPSettings) -> tuple[nn.Sequential, int]:
    """Make the hidden layers of a perceptron with this number of inputs; return them and the number of outputs."""
    layers: list[nn.Module] = []
    for size in settings.hidden_sizes:
        normalized = [nn.LayerNorm(size)] if settings.layer_norm else []
        layers += [nn.Linear(inputs, size), *normalized, ACTIVATIONS[settings.activation]()]
        inputs = size
    return nn.Sequential(*layers), inputs


def scale(observation: Tensor) -> Tensor:
    """Return observations as float32; uint8 is scaled to [0, 1]."""
    if observation.dtype == torch.uint8:
        return observation.float().mul_(1.0 / 255.0)
    return observation.float()


def smallest_side(convolutions: Sequence[Convolution]) -> int:
    """Return the smallest height or width that leaves at least one cell after the last convolution."""
    side = 1
    for convolution in reversed(convolutions):
        side = max(1, (side - 1) * convolution.stride + convolution.kernel - 2 * convolution.padding)
    return side


def check_image(shape: tuple[int, ...], side: int, name: str) -> None:
    """Raise ValueError unless observations are images of at least this height and width."""
    if len(shape) == 3 and min(shape[1:]) >= side:
        return
    way_out = "use model.name: mlp, or for small images minatar or impala"
    if len(shape) == 2:
        way_out = (
            f"add an axis of one channel: observation[None], with observation_space Box(0, 255, {(1, *shape)}, "
            "np.uint8); or use model.name: mlp"
        )
    if len(shape) == 1:
        way_out = (
            "use model.name: mlp, or mixed for a Dict or Tuple with images, which is flattened to a vector; to use "
            f"only an image of a Dict, of at least {side}x{side}, write "
            "env.wrappers: [{name: 'actorlearn.envs.wrappers:DictEntry', kwargs: {key: KEY}}]"
        )
    raise ValueError(
        f"model.name: {name!r} takes images [channels, height, width] of at least {side}x{side}, but this "
        f"environment's observations have shape {list(shape)}; {way_out}"
    )
