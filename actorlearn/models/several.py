"""Several networks as one module: an actor, which chooses actions, and others such as critics, which learn with it.

Their weights are one flat vector, in which the actor's parameters come first. Knows no algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from actorlearn.models.encoders import scale
from actorlearn.models.unroll import Outputs, state_size

ACTOR = "actor"
"""Name of the network that chooses actions."""


class SeveralNetworks(nn.Module):
    """Networks by name; calling it calls the actor."""

    def __init__(self, actor: nn.Module, extra: Mapping[str, nn.Module]) -> None:
        """Take the actor and the other networks, of which none may be named "actor"."""
        super().__init__()
        self.networks = nn.ModuleDict({ACTOR: actor, **extra})
        self.state_size = state_size(actor)

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the actor."""
        return self.networks[ACTOR](observation, *further)


class ActionConditioned(nn.Module):
    """A network that reads an observation and an action, joined to one vector."""

    def __init__(self, network: nn.Module) -> None:
        """Take a network of vectors as long as both together."""
        super().__init__()
        self.network = network

    def forward(self, observation: Tensor, action: Tensor) -> Outputs:
        """Map [N, *shape] and [N, n] to float32 [N, size] for each head."""
        outputs: Outputs = self.network(torch.cat([scale(observation).flatten(1), action], -1))
        return outputs


class FreeParameters(nn.Module):
    """Outputs that depend on no input: the parameters themselves, 0 at first."""

    def __init__(self, heads: Mapping[str, int]) -> None:
        """Take the number of parameters of each head."""
        super().__init__()
        self.heads = nn.ParameterDict({name: nn.Parameter(torch.zeros(size)) for name, size in heads.items()})

    def forward(self) -> Outputs:
        """Return the parameters: [size] for each head."""
        return dict(self.heads.items())


def spans(module: nn.Module) -> dict[str, slice]:
    """Return each network's range of the flat vector of parameters; empty for a module that is a single network."""
    found: dict[str, slice] = {}
    start = 0
    for name, network in networks(module).items() if isinstance(module, SeveralNetworks) else ():
        stop = start + sum(parameter.numel() for parameter in network.parameters())
        found[name], start = slice(start, stop), stop
    return found


def networks(module: nn.Module) -> dict[str, nn.Module]:
    """Return all networks in a module by name; a module that is a single network is the actor."""
    return dict(module.networks.items()) if isinstance(module, SeveralNetworks) else {ACTOR: module}
