"""Normalised observations: each element less its running mean, over its running standard deviation.

The running moments are three buffers, a network's *statistics*. They follow the parameters in its flat vector, so
they are published, saved and loaded with the weights; they have no gradients and no optimizer changes them. Knows no
process: the trainer merges every batch, acting and evaluating processes read the published values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from actorlearn.models.unroll import state_size

EPSILON = 1e-8
"""Added to the variance, as gymnasium's NormalizeObservation does."""
LIMIT = 10.0
"""Normalised elements are cut to +-LIMIT (OpenAI baselines, VecNormalize)."""
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
    """A network behind a normalisation of its observations; without statistics yet, observations pass unchanged."""

    number: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, network: nn.Module, shape: tuple[int, ...]) -> None:
        """Put the statistics of observations of this shape in front of the network."""
        super().__init__()
        self.network = network
        self.state_size = state_size(network)
        self.register_buffer("number", torch.zeros(()))  # float32: exact to 16 million rows, to a part in that beyond
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network on the normalised observation [..., *shape], and whatever else it takes."""
        seen = observation.float() - self.mean  # a tensor of its own, which is changed in place
        return self.network(seen.mul_((self.variance + EPSILON).rsqrt()).clamp_(-LIMIT, LIMIT), *further)


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


def statistics(network: nn.Module) -> list[Tensor]:
    """The statistics in a network: buffers that travel with its parameters."""
    normalized = [module for module in network.modules() if isinstance(module, Normalized)]
    return [buffer for module in normalized for buffer in module.buffers(recurse=False)]
