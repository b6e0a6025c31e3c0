"""Networks for environments with masks of valid actions, which are the last elements of each observation.

The wrapped network gets the observation without the mask. The mask is returned as one more output, from which
algorithms know which actions are invalid (``algorithms/policies.py``). ``observation_parts.py`` describes masks.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from actorlearn.models.interface import state_size
from actorlearn.models.several import ACTOR, SeveralNetworks
from actorlearn.observation_parts import MASK, ActionMask


class Masked(nn.Module):
    """A network with one more output, the mask: float32 [..., n], 1 for valid choices and 0 for others."""

    def __init__(self, network: nn.Module, mask: ActionMask) -> None:
        """Wrap a network for observations of ``mask.observation_shape``."""
        super().__init__()
        self.network = network
        self.state_size = state_size(network)
        self._mask = mask

    def forward(self, observation: Tensor, *further: Tensor) -> Any:
        """Call the network with observations without their masks; ``further`` are a recurrent network's arguments."""
        length = self._mask.length
        found = self.network(self.without_mask(observation), *further)
        valid = {MASK: (observation[..., -length:] > 0).float()}
        if self.state_size:
            outputs, state = found
            return outputs | valid, state
        return found | valid

    def without_mask(self, rows: Tensor) -> Tensor:
        """Cut the masks from the ends of observations ``rows`` [..., length]; return them as [..., *shape]."""
        before = rows[..., : -self._mask.length]
        return before.reshape(*rows.shape[:-1], *self._mask.observation_shape).contiguous()


def without_mask(network: nn.Module, rows: Tensor) -> Tensor:
    """Cut the masks from observations ``rows``; if the network has no masks, return them unchanged."""
    network = network.networks[ACTOR] if isinstance(network, SeveralNetworks) else network
    return network.without_mask(rows) if isinstance(network, Masked) else rows
