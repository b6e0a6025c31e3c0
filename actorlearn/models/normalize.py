"""Normalised observations: each element less its running mean, over its running standard deviation.

The running moments are three buffers, a network's *statistics*. They follow the parameters in its flat vector, so
they are published, saved and loaded with the weights; they have no gradients and no optimizer changes them. Knows no
process: the trainer merges every batch, acting and evaluating processes read the published values. Learning begins
once there are statistics of ``rows_before_learning`` observations, as RND (Burda et al. 2018, section 2.4) initialises
its normalisation before optimisation begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.models.specs import ModelSettings
from actorlearn.models.unroll import state_size

EPSILON = 1e-8
"""Added to the variance, as gymnasium's NormalizeObservation does."""
LIMIT = 10.0
"""Normalised elements are cut to +-LIMIT (OpenAI baselines, VecNormalize)."""
LARGEST_BYTE = 255.0
"""Images of bytes are divided by this until there are statistics."""
LEAST_DEVIATION = 0.5
"""Least deviation of a pixel, as a share of the root mean square of all pixels' deviations. A pixel that has hardly
changed yet would otherwise be +-LIMIT at its first change."""
MOST_ROWS_BEFORE_LEARNING = 10_000
"""Most observations that learning waits for, unless ``model.statistics_rows`` says otherwise."""
ROWS_AT_ONCE = 32
"""Rows whose moments are taken at a time: images in float64 should stay in the cache (2,048 of [4, 44, 44] in 30 ms of
a core, so 140 by the variance of torch)."""


class Moments(NamedTuple):
    """Number, mean and variance (divided by the number, not one less) of the observations so far."""

    number: Tensor  # []
    mean: Tensor  # [*shape]
    variance: Tensor  # [*shape]

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """Moments of rows [N, *shape], in float64: sums of what they are away from the first row, in one pass."""
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
        """Moments of both together (Chan, Golub & LeVeque 1979)."""
        number = self.number + other.number
        share = other.number / number.clamp(min=1.0)
        difference = other.mean - self.mean
        variance = self.variance.lerp(other.variance, share) + difference.square() * share * (1.0 - share)
        return Moments(number, self.mean + difference * share, variance)


class Normalized(nn.Module):
    """A network behind a normalisation of its observations.

    Without statistics yet, images of bytes are divided by 255 and other observations pass unchanged.
    """

    number: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, network: nn.Module, shape: tuple[int, ...], pixels: bool = False) -> None:
        """Put the statistics of observations of this shape in front of the network; ``pixels``: these are bytes."""
        super().__init__()
        self.pixels = pixels
        self.network = network
        self.state_size = state_size(network)
        self.register_buffer("number", torch.zeros(()))  # float32: exact to 16 million rows, to a part in that beyond
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.full(shape, LARGEST_BYTE**2 if pixels else 1.0))

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network on the normalised observation [..., *shape], and whatever else it takes."""
        variance = self.variance
        if self.pixels:
            variance = torch.maximum(variance, LEAST_DEVIATION**2 * variance.mean())
        seen = observation.float() - self.mean  # a tensor of its own, which is changed in place
        return self.network(seen.mul_((variance + EPSILON).rsqrt()).clamp_(-LIMIT, LIMIT), *further)


@torch.no_grad()
def moments_of(rows: Tensor) -> Tensor:
    """Moments of rows [N, *shape] as one float64 vector, in the order of a network's statistics."""
    return torch.cat([moment.reshape(-1) for moment in Moments.of(rows)])


@torch.no_grad()
def merge_into(own: Tensor, moments: Tensor) -> None:
    """Merge moments of new observations into a network's statistics, in place; both as flat vectors.

    Moments that are not finite change nothing: the learner that observed them skips its update too.
    """
    elements = len(own) // 2
    sizes = [1, elements, elements]
    both = [Moments(*torch.split(vector.double(), sizes)) for vector in (own, moments.to(own.device))]
    merged = torch.cat(both[0].merge(both[1])).to(own.dtype)
    if torch.isfinite(merged).all():
        own.copy_(merged)


def rows_before_learning(settings: ModelSettings, total_steps: int) -> int:
    """Return how many observations must be in the statistics before anything is learned."""
    if not settings.normalize_observation:
        return 0
    if settings.statistics_rows is not None:
        return settings.statistics_rows
    return min(total_steps // 100, MOST_ROWS_BEFORE_LEARNING)


def statistics(network: nn.Module) -> list[Tensor]:
    """The statistics in a network: buffers that travel with its parameters."""
    normalized = [module for module in network.modules() if isinstance(module, Normalized)]
    return [buffer for module in normalized for buffer in module.buffers(recurse=False)]
