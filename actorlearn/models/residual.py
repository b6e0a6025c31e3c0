"""IMPALA's residual network (Espeholt et al. 2018, figure 3 right): images [N, C, H, W] to features [N, 256].

Images are uint8, as environments give them; `PixelConvolution` scales them. As in torchbeast, pooling is padded by one
pixel on every side. TensorFlow, which the paper used, pads an even height or width only at the end. The sizes of the
results are the same.
"""

from __future__ import annotations

from torch import Tensor, nn

from actorlearn.models.encoders import PixelConvolution, check_image
from actorlearn.models.specs import ImageSettings

SECTIONS = (16, 32, 32)
"""Number of channels of each section; every section halves height and width."""
RESIDUAL_FEATURES = 256
_BLOCKS = 2


class ResidualEncoder(nn.Module):
    """Three sections of convolution, pooling and two residual blocks; then one fully connected layer."""

    def __init__(self, settings: ImageSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        check_image(shape, 1, settings.name)
        channels, height, width = shape
        layers: list[nn.Module] = []
        for section in SECTIONS:
            kind = nn.Conv2d if layers else PixelConvolution
            layers += [kind(channels, section, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            layers += [ResidualBlock(section) for _ in range(_BLOCKS)]
            channels, height, width = section, (height + 1) // 2, (width + 1) // 2
        layers += [nn.ReLU(True), nn.Flatten(), nn.Linear(channels * height * width, RESIDUAL_FEATURES), nn.ReLU(True)]
        self.layers = nn.Sequential(*layers)
        self.features = RESIDUAL_FEATURES

    def forward(self, observation: Tensor) -> Tensor:
        """Map [N, C, H, W] to [N, 256]."""
        return self.layers(observation)  # type: ignore[no-any-return]


class ResidualBlock(nn.Module):
    """Computes x + convolution(relu(convolution(relu(x)))), with a constant number of channels."""

    def __init__(self, channels: int) -> None:
        """Make both convolutions, 3x3 with padding, so that height and width do not change."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),  # not in place: x is added again
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels, H, W] to the same shape."""
        return x + self.layers(x)  # type: ignore[no-any-return]
