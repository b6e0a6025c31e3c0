"""Normalised observations: each element minus its running mean, divided by its running standard deviation.

The number of observations, their running mean and their running variance are three buffers of a network, its
*statistics*. They are saved and sent with the weights, because they follow the parameters in the network's flat vector.
They have no gradients, and no optimizer changes them.

The trainer updates the statistics with every batch; other processes use the values that it sends with the weights.
Learning begins when they include ``rows_before_learning`` observations; RND (Burda et al. 2018, section 2.4) also
initialises its normalisation before learning.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.models.interface import state_size

EPSILON = 1e-8
"""Added to the variance, as in gymnasium's NormalizeObservation."""
LIMIT = 10.0
"""Normalised elements are clipped to +-LIMIT (OpenAI baselines, VecNormalize)."""
LARGEST_BYTE = 255.0
"""uint8 images are divided by this number until there are statistics."""
LEAST_DEVIATION = 0.5
"""Lower limit of a pixel's standard deviation, as a share of the root mean square of all pixels' deviations.

Without it, a pixel that has hardly changed so far would be +-LIMIT at its first change."""
ROWS_AT_ONCE = 32
"""Number of observations whose moments are computed at a time, so that images in float64 stay in the cache.

2,048 images of [4, 44, 44] take 30 ms of a core. With torch.var they take 140 ms."""


class Moments(NamedTuple):
    """Number n, mean and variance of observations, elementwise; the variance is the sum of squares divided by n."""

    number: Tensor  # []
    mean: Tensor  # [*shape]
    variance: Tensor  # [*shape]

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """Return the moments of observations ``rows`` [N, *shape] in float64.

        One pass sums differences to the first observation, because sums of the values themselves would lose precision.
        """
        number = torch.tensor(len(rows), dtype=torch.float64, device=rows.device)
        total, squares = (torch.zeros(rows.shape[1:], dtype=torch.float64, device=rows.device) for _ in range(2))
        if not len(rows):
            return cls(number, total, squares)
        origin = rows[0].double()
        for some in torch.split(rows, ROWS_AT_ONCE):
            away = some.double() - origin
            total += away.sum(0)
            squares += away.square_().sum(0)
        mean = total / number
        return cls(number, origin + mean, (squares / number - mean.square()).clamp(min=0.0))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the observations of both together (Chan, Golub & LeVeque 1979)."""
        number = self.number + other.number
        share = other.number / number.clamp(min=1.0)
        difference = other.mean - self.mean
        variance = self.variance.lerp(other.variance, share) + difference.square() * share * (1.0 - share)
        return Moments(number, self.mean + difference * share, variance)


class Normalized(nn.Module):
    """A network that normalises observations before it computes its outputs.

    While there are no statistics yet, uint8 images are divided by 255, and other observations are unchanged.
    """

    number: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, network: nn.Module, shape: tuple[int, ...], pixels: bool = False) -> None:
        """Wrap a network for observations of this shape; ``pixels``: the observations are uint8 images."""
        super().__init__()
        self.pixels = pixels
        self.network = network
        self.state_size = state_size(network)
        self.register_buffer("number", torch.zeros(()))  # float32: exact up to 16 million rows
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.full(shape, LARGEST_BYTE**2 if pixels else 1.0))

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network with normalised observations; ``further`` are a recurrent network's arguments."""
        variance = self.variance
        if self.pixels:
            variance = torch.maximum(variance, LEAST_DEVIATION**2 * variance.mean())
        seen = observation.float() - self.mean  # a new tensor, which is changed in place
        return self.network(seen.mul_((variance + EPSILON).rsqrt()).clamp_(-LIMIT, LIMIT), *further)


@torch.no_grad()
def moments_of(rows: Tensor) -> Tensor:
    """Return the moments of observations ``rows`` [N, *shape] as one float64 vector: number, mean, variance."""
    return torch.cat([moment.reshape(-1) for moment in Moments.of(rows)])


@torch.no_grad()
def merge_into(own: Tensor, moments: Tensor) -> None:
    """Update a network's statistics ``own`` in place by the ``moments`` of new observations.

    Both are flat vectors of number, mean and variance. Moments that are not finite are ignored; the trainer also skips
    the update for such observations.
    """
    elements = len(own) // 2
    sizes = [1, elements, elements]
    both = [Moments(*torch.split(vector.double(), sizes)) for vector in (own, moments.to(own.device))]
    merged = torch.cat(both[0].merge(both[1])).to(own.dtype)
    if torch.isfinite(merged).all():
        own.copy_(merged)


def statistics(network: nn.Module) -> list[Tensor]:
    """Return a network's statistics: buffers that are published and saved with its parameters."""
    normalized = normalized_in(network)
    return list(normalized.buffers(recurse=False)) if normalized else []


def normalized_in(network: nn.Module) -> Normalized | None:
    """Return the part of a network that normalises its observations; None if they are not normalised."""
    return next((module for module in network.modules() if isinstance(module, Normalized)), None)
