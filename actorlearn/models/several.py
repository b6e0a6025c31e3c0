"""Several networks as one module: an actor, which chooses actions, and others, such as critics.

Their weights are one flat vector, in which the actor's parameters come first.
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
    """A module whose ``networks`` are an actor and others, by name; a call of the module calls the actor."""

    def __init__(self, actor: nn.Module, extra: Mapping[str, nn.Module]) -> None:
        """Join the actor and the ``extra`` networks, of which none may be named "actor"."""
        super().__init__()
        self.networks = nn.ModuleDict({ACTOR: actor, **extra})
        self.state_size = state_size(actor)

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Return the actor's outputs, and its next state if it is recurrent."""
        return self.networks[ACTOR](observation, *further)


class ActionConditioned(nn.Module):
    """A critic of observation and action: it concatenates both to one vector and calls a network with it."""

    def __init__(self, network: nn.Module) -> None:
        """Wrap a network whose input is as long as the flat observation and the action together."""
        super().__init__()
        self.network = network

    def forward(self, observation: Tensor, action: Tensor) -> Outputs:
        """Map observations [N, *shape] and actions [N, n] to float32 [N, size] for each head."""
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
    """Return each network's range of the flat vector of parameters, by name; {} for a module of a single network."""
    found: dict[str, slice] = {}
    start = 0
    for name, network in networks(module).items() if isinstance(module, SeveralNetworks) else ():
        stop = start + sum(parameter.numel() for parameter in network.parameters())
        found[name], start = slice(start, stop), stop
    return found


def networks(module: nn.Module) -> dict[str, nn.Module]:
    """Return all networks of a module by name; the name of a single network is "actor"."""
    return dict(module.networks.items()) if isinstance(module, SeveralNetworks) else {ACTOR: module}
