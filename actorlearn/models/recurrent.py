"""Recurrent networks: an encoder, an LSTM or GRU cell over time, and linear heads on the cell's output.

The state is an argument and a result of each call; the network stores nothing between calls. Where a game begins, the
state is set to zero. ``memory/rollout.py`` describes where processes keep the state.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from actorlearn.models.heads import SharedTrunk


class Recurrent(nn.Module):
    """A network whose outputs depend on all observations of the game so far (as in Espeholt et al. 2018, figure 3)."""

    def __init__(self, encoder: nn.Module, features: int, recurrence: str, size: int, heads: Mapping[str, int]) -> None:
        """Add a cell and heads to an encoder of ``features`` outputs.

        ``recurrence`` is "lstm" or "gru"; ``size`` is the number of the cell's units.
        """
        super().__init__()
        self.encoder = encoder
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[recurrence](features, size)
        self.trunk = SharedTrunk(nn.Identity(), size, heads)
        self.size = size
        self.state_size = 2 * size if recurrence == "lstm" else size  # an LSTM's state is output and cell, concatenated

    def forward(self, observation: Tensor, state: Tensor, first: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Map observations [T, B, *shape] to float32 [T, B, size] for each head, and the state to the next state.

        ``state`` [B, S] is that before the first observation; the next state [B, S] is that after the last. Where
        ``first`` [T, B] is True a game begins, and the state, which may be NaN, is replaced by zeros.
        """
        features = self.encoder(observation.flatten(0, 1)).float().unflatten(0, first.shape)
        with torch.autocast(observation.device.type, enabled=False):  # rounding errors would add up over time
            hidden = []
            for features_t, first_t in zip(features, first, strict=True):
                state = self._step(features_t, torch.where(first_t[:, None], 0.0, state))
                hidden.append(state[:, : self.size])
            outputs = self.trunk(torch.cat(hidden))
        return {name: output.unflatten(0, first.shape) for name, output in outputs.items()}, state

    def _step(self, features: Tensor, state: Tensor) -> Tensor:
        """Return the state [B, S] after one time step."""
        if isinstance(self.cell, nn.LSTMCell):
            return torch.cat(self.cell(features, state.chunk(2, -1)), -1)
        return self.cell(features, state)  # type: ignore[no-any-return]
