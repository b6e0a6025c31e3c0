"""Networks beside the one that acts, such as critics: they learn with it, and nobody acts by them.

All of them are one module, and so one flat vector of weights, in which the parameters of the one that acts come first.
Knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from actorlearn.models.encoders import scale
from actorlearn.models.unroll import Outputs, state_size

ACTING = "acting"
"""Name of the network that acts."""


class Together(nn.Module):
    """A network that acts, which this is to whoever calls it, and others by their names."""

    def __init__(self, acting: nn.Module, beside: Mapping[str, nn.Module]) -> None:
        """Put them together; none may be called "acting"."""
        super().__init__()
        self.networks = nn.ModuleDict({ACTING: acting, **beside})
        self.state_size = state_size(acting)

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network that acts."""
        return self.networks[ACTING](observation, *further)


class OfActions(nn.Module):
    """A network that reads an observation and an action as one vector."""

    def __init__(self, network: nn.Module) -> None:
        """Take a network of vectors as long as both together."""
        super().__init__()
        self.network = network

    def forward(self, observation: Tensor, action: Tensor) -> Outputs:
        """Map [N, *shape] and [N, n] to float32 [N, size] for each head."""
        outputs: Outputs = self.network(torch.cat([scale(observation).flatten(1), action], -1))
        return outputs


class Parameters(nn.Module):
    """Outputs that depend on nothing: parameters, 0 at first."""

    def __init__(self, heads: Mapping[str, int]) -> None:
        """Hold so many numbers of each head."""
        super().__init__()
        self.heads = nn.ParameterDict({name: nn.Parameter(torch.zeros(size)) for name, size in heads.items()})

    def forward(self) -> Outputs:
        """Return them: [size] for each head."""
        return dict(self.heads.items())


def networks(module: nn.Module) -> dict[str, nn.Module]:
    """Return all networks in a module by their names; a module that is one network is the one that acts."""
    return dict(module.networks.items()) if isinstance(module, Together) else {ACTING: module}
