"""Several networks as one module: an actor, which chooses actions, and others such as critics, which learn with it.

Their weights are one flat vector, in which the actor's parameters come first. Does not depend on algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from actorlearn.models.encoders import scale
from actorlearn.models.interface import Outputs, state_size

ACTOR = "actor"
"""Name of the network that chooses actions."""


class SeveralNetworks(nn.Module):
    """Networks by name; calling it calls the actor."""

    def __init__(self, actor: nn.Module, extra: Mapping[str, nn.Module]) -> None:
        """Join the actor and the other networks, whose names must not be "actor"."""
        super().__init__()
        self.networks = nn.ModuleDict({ACTOR: actor, **extra})
        self.state_size = state_size(actor)

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the actor."""
        return self.networks[ACTOR](observation, *further)


class ActionConditioned(nn.Module):
    """A network that reads an observation and an action, joined to one vector."""

    def __init__(self, network: nn.Module) -> None:
        """Wrap a network for vectors as long as observation and action together."""
        super().__init__()
        self.network = network

    def forward(self, observation: Tensor, action: Tensor) -> Outputs:
        """Map [N, *shape] and [N, n] to float32 [N, size] for each head."""
        outputs: Outputs = self.network(torch.cat([scale(observation).flatten(1), action], -1))
        return outputs


class FreeParameters(nn.Module):
    """Outputs that do not depend on inputs: the parameters themselves, initially 0."""

    def __init__(self, heads: Mapping[str, int]) -> None:
        super().__init__()
        self.heads = nn.ParameterDict({name: nn.Parameter(torch.zeros(size)) for name, size in heads.items()})

    def forward(self) -> Outputs:
        """Return the parameters: [size] for each head."""
        return dict(self.heads.items())


def spans(module: nn.Module) -> dict[str, slice]:
    """Return each network's range of the flat vector of parameters; empty for a module with a single network."""
    found: dict[str, slice] = {}
    start = 0
    for name, network in networks(module).items() if isinstance(module, SeveralNetworks) else ():
        stop = start + sum(parameter.numel() for parameter in network.parameters())
        found[name], start = slice(start, stop), stop
    return found


def networks(module: nn.Module) -> dict[str, nn.Module]:
    """Return all networks of a module by name; a module with a single network is the actor."""
    return dict(module.networks.items()) if isinstance(module, SeveralNetworks) else {ACTOR: module}
