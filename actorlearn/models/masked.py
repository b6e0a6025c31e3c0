"""Networks of observations that end with a mask of valid actions.

The network gets the cells in front of the mask, in their shape. The mask is one more output, by which algorithms leave
out invalid actions (``algorithms/policies.py``).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from actorlearn.action_mask import MASK, ActionMask
from actorlearn.models.interface import state_size
from actorlearn.models.several import ACTOR, SeveralNetworks


class Masked(nn.Module):
    """A network that also returns the mask, float32 [..., n]: 1 for valid choices, 0 for others."""

    def __init__(self, network: nn.Module, mask: ActionMask) -> None:
        """Wrap a network for observations of ``mask.observation_shape``."""
        super().__init__()
        self.network = network
        self.state_size = state_size(network)
        self._mask = mask

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network with the observation [..., *shape] without its mask, and the further arguments."""
        length = self._mask.length
        found = self.network(self.without_mask(observation), *further)
        valid = {MASK: (observation[..., -length:] > 0).float()}
        if self.state_size:
            outputs, state = found
            return outputs | valid, state
        return found | valid

    def without_mask(self, rows: Tensor) -> Tensor:
        """Return observations [..., *shape] without their masks."""
        before = rows[..., : -self._mask.length]
        return before.reshape(*rows.shape[:-1], *self._mask.observation_shape).contiguous()


def without_mask(network: nn.Module, rows: Tensor) -> Tensor:
    """Return observations [..., *shape] as a network, or the actor of several, receives them: without masks."""
    network = network.networks[ACTOR] if isinstance(network, SeveralNetworks) else network
    return network.without_mask(rows) if isinstance(network, Masked) else rows
